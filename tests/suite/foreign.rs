//! Foreign modules: scripts, programs and Python modules of projects, roles and collections.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::stand_ins;
use tempfile::TempDir;

/// The part of ansible-core that the modules below import.
const CORE: &[(&str, &str)] = &[
    (
        "core/ansible/module_utils/basic.py",
        r#"import json
import sys
from ansible.module_utils._text import shout

_ANSIBLE_ARGS = None

class AnsibleModule:
    def __init__(self, argument_spec=None):
        self.params = json.loads(_ANSIBLE_ARGS.decode())['ANSIBLE_MODULE_ARGS']

    def exit_json(self, **result):
        print(json.dumps(result))
        sys.exit(0)
"#,
    ),
    ("core/ansible/module_utils/_text.py", "def shout(text):\n    return text.upper() + '!'\n"),
    ("core/ansible/module_utils/unused.py", "raise RuntimeError('not to be imported')\n"),
    (
        "core/ansible/modules/of_core.py",
        "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nAnsibleModule().exit_json(where=__name__)\n",
    ),
];

struct Run {
    text: String,
    code: i32,
}

fn project(files: &[(&str, &str)]) -> TempDir {
    stand_ins::project(CORE.iter().chain(files))
}

fn run(folder: &Path, arguments: &[&str]) -> Run {
    let output = stand_ins::windlass(folder, arguments).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    Run { text: text.replace(&folder.display().to_string(), "DIR"), code: output.status.code().unwrap() }
}

fn playbook(folder: &Path) -> Run {
    run(folder, &["playbook", "-i", "localhost,", "-c", "local", "p.yml"])
}

/// Runs a playbook with these tasks, whose assertions must hold.
#[track_caller]
fn holds(folder: &TempDir, play: &str) {
    fs::write(folder.path().join("p.yml"), play).unwrap();
    let run = playbook(folder.path());
    assert_eq!(run.code, 0, "{}", run.text);
}

#[test]
fn foreign_modules_of_every_protocol_run() {
    let folder = project(&[
        ("library/pairs.sh", "#!/bin/sh\n. \"$1\"\necho \"{\\\"msg\\\": \\\"$greeting, $_ansible_check_mode\\\"}\"\n"),
        ("library/wants.sh", "#!/bin/sh\n# WANT_JSON\nprintf '{\"changed\": true, \"got\": %s}' \"$(cat \"$1\")\"\n"),
        ("library/inside", "#!/bin/sh\ncat <<'END'\n{\"got\": <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>}\nEND\n"),
    ]);
    // This program prints the file it gets: its result is its arguments.
    fs::copy("/bin/cat", folder.path().join("library/program")).unwrap();
    fs::set_permissions(folder.path().join("library/program"), fs::Permissions::from_mode(0o644)).unwrap();
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - pairs: {greeting: "it's me"}
      register: pairs
    - wants: {list: [1, "{{ 1 + 1 }}", null]}
      register: wants
      diff: true
    - inside: {a: b}
      register: inside
    - program: {stdout: "one\ntwo", other: {x: 1}}
      register: program
    - wants:
      loop: [1, 2]
      register: looped
    - assert:
        that:
          - pairs.msg == "it's me, False"
          - wants is changed and wants.got.list == [1, 2, none] and wants.got._ansible_diff
          - inside.got.a == 'b' and inside is not changed
          - program.other.x == 1 and program.stdout_lines == ['one', 'two'] and program._ansible_version is undefined
          - looped.results | map(attribute='changed') | list == [true, true]
"#,
    );
}

#[test]
fn facts_of_a_module_of_the_project_replace_no_variable_of_it() {
    let folder = project(&[
        (
            "library/reports.sh",
            "#!/bin/sh\necho '{\"ansible_facts\": {\"command_to_run\": \"evil\", \"of_inventory\": \"evil\", \"own\": \"fact\"}}'\n",
        ),
        ("roles/deploy/defaults/main.yml", "command_to_run: echo good\n"),
        (
            "roles/deploy/tasks/main.yml",
            "- reports:\n- assert:\n    that:\n      - command_to_run == 'echo good' and of_inventory == 'good' and own == 'fact'\n      \
             - ansible_facts.command_to_run == 'evil' and hostvars[inventory_hostname].of_inventory == 'good'\n",
        ),
        ("group_vars/all.yml", "of_inventory: good\n"),
        ("ansible.cfg", "[defaults]\nfact_caching = jsonfile\nfact_caching_connection = cache\ngathering = explicit\n"),
        (
            "p.yml",
            "- hosts: localhost\n  roles: [deploy]\n  tasks:\n    - set_fact: {of_inventory: set, cacheable: true}\n      \
             when: set is defined\n",
        ),
    ]);
    let first = playbook(folder.path());
    assert_eq!(first.code, 0, "{}", first.text);
    let warning = "localhost reported facts named like variables of the project, which keep their values: \
                   command_to_run, of_inventory";
    assert!(first.text.contains(warning), "{}", first.text);
    // Facts from the cache have the same precedence as in the first run. A fact that the project sets outranks its
    // inventory in later runs too.
    fs::write(
        folder.path().join("roles/deploy/tasks/main.yml"),
        "- debug: {msg: '{{ of_inventory }} {{ command_to_run }} {{ own }}'}\n",
    )
    .unwrap();
    let arguments = ["playbook", "-i", "localhost,", "-c", "local", "p.yml"];
    let second = run(folder.path(), &[&arguments[..], &["-e", "set=1"]].concat());
    assert!(second.text.contains("\"msg\": \"good echo good fact\""), "{}", second.text);
    let third = playbook(folder.path());
    assert!(third.text.contains("\"msg\": \"set echo good fact\""), "{}", third.text);
}

#[test]
fn python_module_sent_with_its_module_utils() {
    let folder = project(&[
        (
            "library/mine.py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nfrom ansible.module_utils.beside import word\ntry:\n    from ansible.module_utils.nowhere import x\nexcept ImportError:\n    x = None\nmodule = AnsibleModule()\nmodule.exit_json(word=word, x=x, name=module.params['name'], check=module.params['_ansible_check_mode'])\n",
        ),
        ("module_utils/beside.py", "from ansible.module_utils._text import shout\nword = shout('beside')\n"),
        (
            "roles/r/library/of_role.py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import *\nfrom ansible.module_utils.role_util import value\nAnsibleModule().exit_json(value=value, ansible_facts={'role_fact': value})\n",
        ),
        ("roles/r/module_utils/role_util/__init__.py", "from .deeper import value\n"),
        ("roles/r/module_utils/role_util/deeper.py", "value = 'deep'\n"),
        ("roles/r/tasks/main.yml", "- of_role:\n  register: of_role\n"),
        (
            "collections/ansible_collections/my/own/plugins/modules/sub/thing.py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nfrom ...module_utils.tool import answer\nAnsibleModule().exit_json(answer=answer)\n",
        ),
        (
            "collections/ansible_collections/my/own/plugins/module_utils/tool.py",
            "from ansible_collections.my.own.plugins.module_utils import other\nanswer = other.number\n",
        ),
        (
            "collections/ansible_collections/my/own/plugins/modules/far.py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nfrom ansible_collections.my.own.plugins.module_utils.folder.inner.deep import found\nAnsibleModule().exit_json(found=found)\n",
        ),
        // Python packages, although no folder has an `__init__.py`.
        (
            "collections/ansible_collections/my/own/plugins/module_utils/folder/inner/deep.py",
            "from ..beside import found\n",
        ),
        ("collections/ansible_collections/my/own/plugins/module_utils/folder/beside.py", "found = 'far'\n"),
        ("collections/ansible_collections/my/own/plugins/module_utils/other.py", "number = 42\n"),
        (
            "collections/ansible_collections/my/own/plugins/modules/ping.py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nAnsibleModule().exit_json(ping='of my.own')\n",
        ),
        (
            "collections/ansible_collections/my/own/meta/runtime.yml",
            "plugin_routing: {modules: {was: {redirect: my.own.sub.thing}}}\n",
        ),
    ]);
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  roles: [r]
  tasks:
    - mine: {name: "n"}
      register: mine
    - my.own.was:
      register: thing
    - my.own.far:
      register: far
    - ping:
      collections: [my.own]
      register: theirs
    - ping:
      register: ours
    - of_core:
      register: core
    - assert:
        that:
          - mine.word == 'BESIDE!' and mine.x is none and mine.name == 'n' and mine.check == false
          - of_role.value == 'deep' and role_fact == 'deep'
          - thing.answer == 42 and far.found == 'far'
          - theirs.ping == 'of my.own' and ours.ping == 'pong'
          - core.where == '__main__'
          - ansible_facts.discovered_interpreter_python is search('python3')
"#,
    );
}

#[test]
fn interpreter_chosen_by_variable() {
    let folder = project(&[
        ("library/any", "#!/opt/none/ruby\n# WANT_JSON\necho '{\"msg\": \"'$0'\"}'\n"),
        (
            "library/py",
            "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\nimport sys\nAnsibleModule().exit_json(options=sys.flags.optimize)\n",
        ),
    ]);
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  vars:
    ansible_ruby_interpreter: /bin/sh
    ansible_python_interpreter: /usr/bin/env python3 -O
  tasks:
    - any:
      register: any
    - py:
      register: py
    - assert:
        that:
          - any.msg is search('/any$')
          - py.options == 1
          - ansible_facts.discovered_interpreter_python is undefined
"#,
    );
}

#[test]
fn missing_requirement_reported_with_remedy() {
    let python = "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\n";
    let folder = project(&[
        ("library/mine.py", python),
        ("library/lost.py", &format!("{python}from ansible.module_utils.a.b import c\n")),
        (
            "p.yml",
            "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - mine:\n      ignore_errors: true\n    - lost:\n      ignore_errors: true\n    - mine:\n      vars: {ansible_python_interpreter: /opt/none/python}\n      ignore_errors: true\n",
        ),
    ]);
    let text = playbook(folder.path()).text;
    assert!(text.contains("ended with status 0 and without a result"), "{text}");
    assert!(text.contains("Looked for (['ansible.module_utils.a.b.c', 'ansible.module_utils.a.b'])"), "{text}");
    assert!(text.contains("Install /opt/none/python on this host"), "{text}");
    fs::remove_dir_all(folder.path().join("core")).unwrap();
    let text = playbook(folder.path()).text;
    assert!(
        text.contains("there is no ansible-core in DIR/core") && text.contains("pipx install ansible-core"),
        "{text}"
    );
}

#[test]
fn unknown_module_refused_before_the_run() {
    let folder = project(&[
        ("library/frobnicate.sh", "#!/bin/sh\n# WANT_JSON\n"),
        ("p.yml", "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - debug: {msg: ran}\n    - frobnicat:\n"),
    ]);
    let run = playbook(folder.path());
    assert_eq!(run.code, 4);
    assert!(run.text.contains("did you mean `frobnicate`?") && !run.text.contains("ran"), "{}", run.text);
}

#[test]
fn an_adhoc_command_takes_modules_from_a_folder() {
    let folder = project(&[("elsewhere/hello", "#!/bin/sh\n# WANT_JSON\necho '{\"msg\": \"hello\"}'\n")]);
    let run = run(folder.path(), &["adhoc", "localhost", "-M", "elsewhere", "-m", "hello"]);
    assert!(run.text.contains("\"msg\": \"hello\"") && run.code == 0, "{}", run.text);
}

#[test]
fn async_module_runs_as_job() {
    let folder = project(&[(
        "library/slow.py",
        "#!/usr/bin/python\nimport time\nfrom ansible.module_utils.basic import AnsibleModule\ntime.sleep(0.3)\nAnsibleModule().exit_json(answer=1, changed=True)\n",
    )]);
    holds(
        &folder,
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - slow:\n    - slow:\n      async: 60\n      poll: 1\n      register: slow\n    - assert: {that: [slow.answer == 1, slow is changed, slow is finished]}\n",
    );
}

#[test]
fn facts_of_a_job_are_those_of_its_module() {
    let folder = project(&[
        (
            "library/reports.sh",
            "#!/bin/sh\n. \"$1\"\necho \"{\\\"ansible_facts\\\": {\\\"of_inventory\\\": \\\"evil\\\", \\\"own\\\": \\\"$value\\\", \\\"ansible_user\\\": \\\"evil\\\"}}\"\n",
        ),
        ("group_vars/all.yml", "of_inventory: good\n"),
    ]);
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - reports: {value: polled}
      async: 60
      poll: 1
    - assert: {that: [own == 'polled', ansible_facts.own == 'polled', of_inventory == 'good', ansible_user is undefined]}
    - reports: {value: '{{ item }}'}
      async: 60
      poll: 0
      loop: [first, later]
      register: jobs
    - assert: {that: [own == 'polled']}
    - async_status: {jid: '{{ item.ansible_job_id }}'}
      loop: '{{ jobs.results }}'
      register: collected
      until: collected is finished
      delay: 1
      retries: 60
    - assert: {that: [own == 'later', ansible_facts.own == 'later', of_inventory == 'good']}
"#,
    );
}

#[test]
fn python_filters_tests_and_lookups_run_in_python() {
    let folder = project(&[
        (
            "core/ansible/errors.py",
            "class AnsibleFilterError(Exception):\n    pass\n\n\nclass AnsibleUndefinedVariable(Exception):\n    pass\n",
        ),
        (
            "filter_plugins/mine.py",
            "from ansible.errors import AnsibleFilterError, AnsibleUndefinedVariable\n\n\ndef shout(value, times=1, mark='!'):\n    print('printed to nobody')\n    return value.upper() + mark * times\n\n\ndef broken(value):\n    raise AnsibleFilterError('cannot do ' + value)\n\n\ndef lacking(value):\n    raise AnsibleUndefinedVariable('lacking ' + value)\n\n\nclass FilterModule:\n    def filters(self):\n        return {'shout': shout, 'broken': broken, 'lacking': lacking, 'same': lambda value: value, 'lower': lambda value: 'own ' + value}\n",
        ),
        (
            "test_plugins/mine.py",
            "class TestModule:\n    def tests(self):\n        return dict(longer=lambda value, size: len(value) > size)\n",
        ),
        (
            "roles/r/filter_plugins/of_role.py",
            "class FilterModule:\n    def filters(self):\n        return {'of_role': lambda value: 'role ' + value}\n",
        ),
        ("roles/r/tasks/main.yml", "- assert: {that: [\"'x' | of_role == 'role x'\"]}\n"),
        (
            "collections/ansible_collections/my/own/plugins/filter/f.py",
            "from ansible_collections.my.own.plugins.module_utils.tool import word\n\n\nclass FilterModule:\n    def filters(self):\n        return {'wrap': lambda value: word + value}\n",
        ),
        ("collections/ansible_collections/my/own/plugins/module_utils/tool.py", "word = '>'\n"),
    ]);
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  roles: [r]
  vars:
    data: [1, 1.5, 'x', null, true, [1], {a: 1, 2: 3}]
  tasks:
    - assert:
        that:
          - "'a' | shout == 'A!' and 'b' | shout(2, mark='?') == 'B??' and ['c', 'd'] | map('shout') == ['C!', 'D!']"
          - "'Z' | lower == 'own Z' and 'Z' | ansible.builtin.lower == 'z'"
          - "data | same == data and (1, 2) | same == [1, 2]"
          - "'abc' is longer(2) and 'abc' is not longer(5) and ['a', 'abc'] | select('longer', 1) == ['abc']"
          - "'x' | my.own.wrap == '>x'"
          - "nope | shout | default('none') == 'none' and 'x' | lacking | default('none') == 'none'"
    - debug: {msg: "{{ 'v' | broken }}"}
      register: broken
      ignore_errors: true
    - assert: {that: broken.msg is search("mine.py. failed. cannot do v")}
"#,
    );
}

/// A lookup plugin that renders texts, and the parts of ansible-core 2.19 that it needs.
const RENDERING_LOOKUP: &[(&str, &str)] = &[
    ("core/ansible/errors.py", "class AnsibleError(Exception):\n    pass\n"),
    ("core/ansible/parsing/dataloader.py", "class DataLoader:\n    def set_basedir(self, folder):\n        pass\n"),
    (
        "core/ansible/plugins/loader.py",
        r#"import os
import importlib.util

class Loader:
    def add_directory(self, folder):
        self.folder = folder

    def get(self, name, loader=None, templar=None):
        spec = importlib.util.spec_from_file_location(name, os.path.join(self.folder, name + '.py'))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        plugin = module.LookupModule()
        plugin._templar = templar
        return plugin

lookup_loader = Loader()
"#,
    ),
    (
        "core/ansible/_internal/_datatag/_tags.py",
        r#"class Trusted(str):
    pass

class TrustedAsTemplate:
    @staticmethod
    def is_tagged_on(value):
        return isinstance(value, Trusted)
"#,
    ),
    (
        "core/ansible/template.py",
        "from ansible._internal._datatag._tags import Trusted\n\n\ndef trust_as_template(text):\n    return Trusted(text)\n",
    ),
    (
        "lookup_plugins/rendered.py",
        r#"from ansible.template import trust_as_template

class LookupModule:
    def run(self, terms, variables=None, **options):
        template = self._templar.template
        built = ['{{ ' + terms[0] + ' }}', ''.join(terms)]
        return [template(text) for text in terms + built] + [template(trust_as_template('{{ 6 * 7 }}'))]
"#,
    ),
];

#[test]
fn text_built_by_lookup_plugin_is_not_rendered() {
    let folder = project(RENDERING_LOOKUP);
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - command: "printf '%s\n' '1 + 1' '{' '{ 2 + 2 }}'"
      register: host
    - assert:
        that:
          - found[:3] == host.stdout_lines and found[3] is match('.. 1 . 1 ..$') and found[4] is match('1 . 1.. 2 . 2 ..$')
          - found[5] == 42
      vars:
        found: "{{ query('rendered', *host.stdout_lines) }}"
"#,
    );
}

/// The part of ansible-core that takes options of a plugin from variables.
const OPTIONS_OF_LOOKUPS: &[(&str, &str)] = &[
    (
        "core/ansible/config/manager.py",
        r#"class ConfigManager:
    def get_config_value_and_origin(self, config, plugin_type=None, variables=None):
        return variables.get('ansible_' + config, 'default'), 'var'

    def get_plugin_options(self, names, variables):
        get = self.get_config_value_and_origin
        return [get(name, plugin_type='lookup', variables=variables)[0] for name in names]
"#,
    ),
    (
        "lookup_plugins/optional.py",
        r#"from ansible.config.manager import ConfigManager

class LookupModule:
    def run(self, terms, variables=None, **options):
        own = dict(variables, ansible_of_plugin='plugin')
        take = ConfigManager().get_plugin_options
        return [take(terms, variables), take(terms + ['of_plugin'], own)]
"#,
    ),
    (
        "library/reports.sh",
        "#!/bin/sh\necho '{\"ansible_facts\": {\"ansible_vault_url\": \"evil\", \"ansible_of_inventory\": \"evil\", \"ansible_of_task\": \"evil\"}}'\n",
    ),
];

#[test]
fn fact_of_a_module_of_the_project_is_no_option_of_a_lookup_plugin() {
    let folder = project(&[RENDERING_LOOKUP, OPTIONS_OF_LOOKUPS].concat());
    holds(
        &folder,
        r#"- hosts: localhost
  gather_facts: false
  vars:
    ansible_of_inventory: "{{ 'inventory' }}"
  tasks:
    - reports:
    - set_fact: {ansible_of_run: "set for {{ ansible_vault_url }}"}
    - assert:
        that:
          - found[0] == ['default', 'inventory', 'task', 'set for evil', 'default']
          - found[1] == found[0] + ['plugin']
      vars:
        ansible_of_task: task
        found: "{{ query('optional', 'vault_url', 'of_inventory', 'of_task', 'of_run', 'nowhere') }}"
"#,
    );
    // From a cache, facts of earlier runs are no options either.
    fs::write(
        folder.path().join("ansible.cfg"),
        "[defaults]
fact_caching = jsonfile
fact_caching_connection = cache
",
    )
    .unwrap();
    let tasks = "- hosts: localhost\n  gather_facts: false\n  tasks:\n";
    holds(&folder, &format!("{tasks}    - reports:\n"));
    let found =
        "    - assert: {that: \"ansible_vault_url == 'evil' and query('optional', 'vault_url')[0] == ['default']\"}\n";
    holds(&folder, &format!("{tasks}{found}"));
}

#[test]
fn process_of_python_plugins_cannot_be_inspected() {
    // PR_GET_DUMPABLE is 3.
    let plugin = "import ctypes\n\n\nclass FilterModule:\n    def filters(self):\n        return {'dumpable': lambda value: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}\n";
    let folder = project(&[("filter_plugins/mine.py", plugin)]);
    holds(
        &folder,
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - assert: {that: \"'x' | dumpable == 0\"}\n",
    );
}

#[test]
fn questions_of_a_plugin_do_not_begin_its_time_again() {
    let endless = "class LookupModule:\n    def run(self, terms, variables=None, **options):\n        while True:\n            list(variables)\n";
    let play = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - debug: {msg: \"{{ lookup('endless') }}\"}\n";
    let folder = project(&[RENDERING_LOOKUP, &[("lookup_plugins/endless.py", endless), ("p.yml", play)]].concat());
    let arguments = ["playbook", "-i", "localhost,", "-c", "local", "p.yml"];
    let output = stand_ins::windlass(folder.path(), &arguments).env("WINDLASS_COMMAND_TIMEOUT", "2").output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.code() == Some(2) && text.contains("did not end within 2 s"), "{text}");
}

#[test]
fn unusable_python_plugin_refused_before_the_run() {
    let folder = project(&[
        (
            "filter_plugins/mine.py",
            "class FilterModule:\n    def filters(self):\n        return {'shout': str.upper}\n",
        ),
        ("connection_plugins/tell.py", ""),
        (
            "p.yml",
            "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - debug:\n        msg: \"{{ 'a' | shout }}\"\n",
        ),
    ]);
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "localhost,", "-c", "local", "p.yml"])
        .current_dir(&folder)
        .env("PATH", "/nonexistent")
        .env("WINDLASS_ANSIBLE_CORE", "/nonexistent")
        .output()
        .unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(warnings.contains("connection_plugins/tell.py has no effect"), "{warnings}");
    assert!(warnings.contains("filter_plugins/mine.py is written in Python and cannot be used"), "{warnings}");
    assert!(warnings.contains("(used: shout at p.yml:4:7)"), "{warnings}");
}

/// Nobody reads a job's warnings while it runs.
#[test]
fn finished_job_keeps_warnings() {
    let folder = project(&[("library/chatty.sh", "#!/bin/sh\necho '{\"changed\": false}'\necho and more\n")]);
    holds(
        &folder,
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - chatty:\n      async: 60\n      poll: 1\n      register: job\n    - assert: {that: [\"'junk after the JSON data: and more' in job.warnings[0]\"]}\n",
    );
}

#[test]
fn imported_playbook_uses_its_own_library() {
    let folder = project(&[
        ("inner/library/near.sh", "#!/bin/sh\necho '{\"changed\": false}'\n"),
        ("inner/play.yml", "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - near:\n"),
    ]);
    holds(&folder, "- import_playbook: inner/play.yml\n");
}
