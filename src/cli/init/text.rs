//! Texts of new files.

/// Files of a project, by path.
pub(super) const PROJECT: &[(&str, &str)] = &[
    ("ansible.cfg", "[defaults]\ninventory = hosts.yml\nroles_path = roles\n"),
    ("group_vars/all.yml", "---\n# Variables of all hosts.\nhello_greeting: Welcome\n"),
    ("site.yml", "---\n- name: Greet the users of every host\n  hosts: all\n  roles:\n    - hello\n"),
    (
        "roles/hello/defaults/main.yml",
        "---\n# Defaults of the role; group_vars and host_vars override them.\nhello_greeting: Hello\nhello_file: /tmp/hello.txt\n",
    ),
    (
        "roles/hello/tasks/main.yml",
        "---\n- name: Write the greeting\n  ansible.builtin.template:\n    src: hello.txt.j2\n    dest: \"{{ hello_file }}\"\n    mode: \"0644\"\n",
    ),
    (
        "roles/hello/templates/hello.txt.j2",
        "{{ hello_greeting }} to {{ inventory_hostname }} ({{ ansible_facts.distribution }} {{ ansible_facts.distribution_version }}).\n",
    ),
];

/// ansible.cfg beside the Kubernetes playbooks.
pub(super) const KUBERNETES_CONFIG: &str = "[defaults]
# Without -i, the inventory.
inventory = inventory
roles_path = roles

[inventory]
# Playbooks keep these beside the inventory; they are no inventories.
ignore_patterns = artifacts, backups, credentials, snapshot, cis.json, packages.json, verify.json
";

/// A module in Python. It asks for its arguments as JSON, so it imports nothing of Ansible.
pub(super) const MODULE: &str = r#"#!/usr/bin/python3
# WANT_JSON: the first argument names a file with the task's arguments as JSON.
"""MODULE_NAME: report the size of a file."""

import json
import os
import sys


def main():
    with open(sys.argv[1]) as file:
        arguments = json.load(file)
    path = arguments.get("path")
    if not path:
        return {"failed": True, "msg": "missing required arguments: path"}
    if not os.path.exists(path):
        return {"failed": True, "msg": "`%s` does not exist" % path}
    return {"changed": False, "size": os.path.getsize(path)}


print(json.dumps(main()))
"#;
