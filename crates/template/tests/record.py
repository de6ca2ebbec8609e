#!/usr/bin/env python3
"""Records the results of ansible-core for the cases of tests/fixtures/*.json.

    /path/to/venv/bin/python record.py fixtures/NAME.json ...

A fixture holds {"vars": project text, "data": untrusted data, "cases": [{"template" | "condition" | "file": text,
...}]}. It adds `result` (with `type`) or `error` to each case. With ansible-core 2.18, it records fixtures with
"compat": "2.18"; with 2.19, all others.
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.loader import init_plugin_loader
from ansible.release import __version__
from ansible.template import Templar
from ansible.utils.display import Display

init_plugin_loader()
Display().deprecated = lambda *args, **kwargs: None
Display().warning = lambda *args, **kwargs: None
CLASSIC = __version__.startswith("2.18")

if CLASSIC:
    from ansible.parsing.dataloader import DataLoader
    from ansible.playbook.conditional import Conditional
    from ansible.utils.unsafe_proxy import wrap_var
else:
    from ansible._internal._templating._engine import TemplateOptions
    from ansible._internal._templating._jinja_bits import TemplateOverrides
    from ansible.template import trust_as_template


def trust(value):
    if CLASSIC:
        return value
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, list):
        return [trust(item) for item in value]
    if isinstance(value, dict):
        return {trust(key): trust(item) for key, item in value.items()}
    return value


def distrust(value):
    return wrap_var(value) if CLASSIC else value


def evaluate_classic(case, variables):
    templar = Templar(DataLoader(), variables=variables)
    if "condition" in case:
        conditional = Conditional(DataLoader())
        conditional.when = [case["condition"]]
        return conditional.evaluate_conditional(templar, variables)
    return templar.template(case["template"])


def evaluate(case, variables):
    templar = Templar(variables=variables)
    if "condition" in case:
        return templar.evaluate_conditional(trust(case["condition"]))
    if "expression" in case:
        return templar.evaluate_expression(trust(case["expression"]))
    if "file" in case:
        overrides = TemplateOverrides.from_kwargs(case.get("options") or {})
        options = TemplateOptions(escape_backslashes=False, preserve_trailing_newlines=True, overrides=overrides)
        return templar._engine.template(trust(case["file"]), options=options)
    return templar.template(trust(case["template"]))


def is_undefined(error):
    """Whether the error, or its cause, is about an undefined value."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, AnsibleUndefinedVariable) or CLASSIC and "is undefined" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def record(case, variables):
    for key in ("result", "type", "error"):
        case.pop(key, None)
    try:
        result = (evaluate_classic if CLASSIC else evaluate)(case, variables)
        case["type"] = type(result).__name__.replace("_AnsibleTagged", "").replace("AnsibleUnsafeText", "str").replace("NativeJinjaText", "str").lower()
        case["result"] = json.loads(json.dumps(result, default=str))
    except BaseException as error:
        case.pop("type", None)
        case["error"] = {"undefined": is_undefined(error)}
    return case


def show(case):
    """Writes each case on its own line, for readable diffs of the fixture."""
    return json.dumps(case, ensure_ascii=False)


for path in sys.argv[1:]:
    with open(path) as file:
        fixture = json.load(file)
    if (fixture.get("compat") == "2.18") != CLASSIC:
        continue
    variables = {**trust(fixture.get("vars", {})), **distrust(fixture.get("data", {}))}
    cases = [record(case, variables) for case in fixture["cases"]]
    with open(path, "w") as file:
        file.write("{\n")
        for part in ("compat", "vars", "data"):
            if part in fixture:
                file.write(f" {json.dumps(part)}: {json.dumps(fixture[part], ensure_ascii=False, indent=1)},\n")
        file.write(' "cases": [\n  ' + ",\n  ".join(show(case) for case in cases) + "\n ]\n}\n")
