#!/usr/bin/env python3
"""Evaluates the expressions in *.jsonl beside this file with ansible-core, and records the results there.

    ANSIBLE_COLLECTIONS_PATH=... /path/to/ansible/bin/python record.py [file ...]

Each line is {"e": expression}. The result is added as "v" (JSON) and "t" (text), or as "fails".
"""
import json
import pathlib
import sys

from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

here = pathlib.Path(__file__).parent
init_plugin_loader()


def trusted(value):
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: trusted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [trusted(item) for item in value]
    return value


def plain(value):
    if isinstance(value, bool) or value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)


context = trusted(json.loads((here / "context.json").read_text()))
for path in [pathlib.Path(name) for name in sys.argv[1:]] or sorted(here.glob("*.jsonl")):
    lines = []
    for line in path.read_text().splitlines():
        if not line.strip():
            continue
        case = {"e": json.loads(line)["e"]}
        loader = DataLoader()
        loader.set_basedir(str(here))
        templar = Templar(loader=loader, variables={**context, "ansible_search_path": [str(here)]})
        ask = lambda text: templar.template(trust_as_template("{{ %s }}" % text))
        try:
            case["v"] = plain(ask(case["e"]))
            case["t"] = str(ask("(%s) | string" % case["e"]))
        except Exception as error:
            case.pop("v", None)
            case["fails"] = str(error).split("\n")[0][:160]
        lines.append(json.dumps(case, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", errors="replace")
    print(path.name, len(lines), sum("fails" in line for line in lines))
