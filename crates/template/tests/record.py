#!/usr/bin/env python3
"""Records what the real ansible-core answers for the cases of tests/fixtures/*.json.

    /path/to/venv/bin/python record.py fixtures/NAME.json ...

A fixture holds {"vars": project text, "data": untrusted data, "cases": [{"template" | "condition" | "file": text, ...}]}.
For each case `result` (with `type`) or `error` is written back next to it.
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")

from ansible.errors import AnsibleUndefinedVariable
from ansible.template import Templar, trust_as_template
from ansible._internal._templating._engine import TemplateOptions
from ansible._internal._templating._jinja_bits import TemplateOverrides
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.display import Display

init_plugin_loader()
Display().deprecated = lambda *args, **kwargs: None
Display().warning = lambda *args, **kwargs: None


def trust(value):
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, list):
        return [trust(item) for item in value]
    if isinstance(value, dict):
        return {trust(key): trust(item) for key, item in value.items()}
    return value


def record(case, variables):
    templar = Templar(variables=variables)
    try:
        if "condition" in case:
            value = trust(case["condition"])
            result = templar.evaluate_conditional(value)
        elif "expression" in case:
            result = templar.evaluate_expression(trust(case["expression"]))
        elif "file" in case:
            overrides = TemplateOverrides.from_kwargs(case.get("options") or {})
            options = TemplateOptions(escape_backslashes=False, preserve_trailing_newlines=True, overrides=overrides)
            result = templar._engine.template(trust(case["file"]), options=options)
        else:
            result = templar.template(trust(case["template"]))
        case.pop("error", None)
        case["type"] = type(result).__name__.replace("_AnsibleTagged", "").lower()
        try:
            case["result"] = json.loads(json.dumps(result, default=str))
        except Exception as error:
            case["result"] = str(result)
    except BaseException as error:
        case.pop("result", None)
        case.pop("type", None)
        undefined, seen = False, set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            undefined = undefined or isinstance(error, AnsibleUndefinedVariable)
            error = error.__cause__ or error.__context__
        case["error"] = {"undefined": undefined}
    return case


def show(case):
    """One case on one line, so that a change of the fixture reads well."""
    return json.dumps(case, ensure_ascii=False)


for path in sys.argv[1:]:
    with open(path) as file:
        fixture = json.load(file)
    variables = {**trust(fixture.get("vars", {})), **fixture.get("data", {})}
    cases = [record(case, variables) for case in fixture["cases"]]
    with open(path, "w") as file:
        file.write("{\n")
        for part in ("vars", "data"):
            file.write(f" {json.dumps(part)}: {json.dumps(fixture.get(part, {}), ensure_ascii=False, indent=1)},\n")
        file.write(' "cases": [\n  ' + ",\n  ".join(show(case) for case in cases) + "\n ]\n}\n")
