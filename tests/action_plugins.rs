//! Action plugins in Python, with stand-ins for the parts of ansible-core that they use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/stand_ins.rs"]
mod stand_ins;

use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use tempfile::TempDir;

/// The parts of ansible-core that run an action plugin and that it imports.
const CORE: &[(&str, &str)] = &[
    ("core/ansible/release.py", "__version__ = '2.19.0'\n"),
    ("core/ansible/module_utils/basic.py", ""),
    (
        "core/ansible/errors.py",
        r#"class AnsibleError(Exception):
    @property
    def message(self):
        return str(self)


class AnsibleConnectionFailure(AnsibleError):
    pass


class AnsibleAction(AnsibleError):
    def __init__(self, message, result=None):
        super().__init__(message)
        self._result = result or {}


class AnsibleActionSkip(AnsibleAction):
    @property
    def result(self):
        return dict(self._result, skipped=True, msg=str(self))


class AnsibleActionFail(AnsibleAction):
    @property
    def result(self):
        return dict(self._result, failed=True, msg=str(self))
"#,
    ),
    ("core/ansible/parsing/dataloader.py", "class DataLoader:\n    def set_basedir(self, folder):\n        pass\n"),
    ("core/ansible/playbook/play_context.py", "class PlayContext:\n    pass\n"),
    (
        "core/ansible/playbook/task.py",
        "import copy\n\n\nclass Task:\n    def copy(self):\n        return copy.copy(self)\n",
    ),
    (
        "core/ansible/plugins/loader.py",
        "class Loader:\n    def get(self, name, **_):\n        raise KeyError(name)\n\n\naction_loader = Loader()\n\n\n\
         def init_plugin_loader(collections):\n    pass\n",
    ),
    (
        "core/ansible/plugins/connection.py",
        r#"class Shell:
    tmpdir = None

    def set_options(self, var_options=None):
        pass


class ConnectionBase:
    def __init__(self, play_context):
        self._shell = Shell()
"#,
    ),
    (
        "core/ansible/plugins/action.py",
        r#"class ActionBase:
    def __init__(self, task, connection, play_context, loader, templar, shared_loader_obj):
        self._task, self._connection, self._templar = task, connection, templar
        self._shared_loader_obj = shared_loader_obj

    def run(self, tmp=None, task_vars=None):
        return {}

    def cleanup(self):
        open('cleaned', 'a').close()
"#,
    ),
    ("hosts", "a ansible_connection=local flag=up\nb ansible_connection=local flag=down\n"),
];

/// A project with an action plugin `hoist`, whose method `run` has this body.
fn project(body: &str) -> TempDir {
    let body = body.replace('\n', "\n        ");
    let plugin = format!(
        "import os\n\nfrom ansible.errors import AnsibleActionFail, AnsibleActionSkip, AnsibleError\n\
         from ansible.plugins.action import ActionBase\n\n\nclass ActionModule(ActionBase):\n    \
         def run(self, tmp=None, task_vars=None):\n        result = super().run(tmp, task_vars)\n        \
         {body}\n        return result\n"
    );
    stand_ins::project(CORE.iter().chain(&[("action_plugins/hoist.py", plugin.as_str())]))
}

/// Runs `hoist` with these arguments and options. Returns the exit code, its result on the host `a`, and all output.
fn hoist(folder: &Path, arguments: &str, options: &[&str]) -> (Option<i32>, Json, String) {
    let play = format!(
        "- hosts: a\n  gather_facts: false\n  tasks:\n    - hoist: {arguments}\n      register: hoisted\n      \
         ignore_errors: true\n      ignore_unreachable: true\n    \
         - copy: {{content: '{{{{ hoisted }}}}', dest: '{{{{ playbook_dir }}}}/result'}}\n      check_mode: false\n      delegate_to: localhost\n"
    );
    fs::write(folder.join("play.yml"), play).unwrap();
    let arguments = [&["playbook", "-i", "hosts", "play.yml"], options].concat();
    let output = stand_ins::windlass(folder, &arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let result = fs::read_to_string(folder.join("result")).unwrap_or_default();
    (output.status.code(), serde_json::from_str(&result).unwrap_or_default(), text)
}

#[test]
fn plugin_reads_variables_of_its_host_and_renders_nothing_of_its_own() {
    let folder = project(
        "result['seen'] = [task_vars['flag'], task_vars.get('none', 'no'), task_vars['hostvars']['b']['flag']]\n\
         result['text'] = self._templar.template('{{ flag }}' + self._task.args['text'])",
    );
    let (code, result, text) = hoist(folder.path(), "{text: x}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(result["seen"], serde_json::json!(["up", "no", "down"]), "{text}");
    assert_eq!(result["text"], "{{ flag }}x", "{text}");
    assert!(folder.path().join("cleaned").exists());
}

#[test]
fn modules_actions_commands_and_files_of_a_plugin_reach_the_host() {
    let folder = project(
        r#"done = self._execute_module(module_name='ansible.legacy.command', module_args={'_raw_params': 'echo one'})
result['module'] = done['stdout']
result['command'] = self._low_level_execute_command('cat; pwd', in_data='two ', chdir='/')['stdout']
task = self._task.copy()
task.args = {'content': 'three', 'dest': os.path.abspath('there')}
result['changed'] = self._shared_loader_obj.action_loader.get('ansible.legacy.copy', task=task).run()['changed']
self._connection.put_file('there', os.path.abspath('put'))
self._connection.fetch_file(os.path.abspath('put'), os.path.abspath('fetched'))
result['fetched'] = open('fetched').read()"#,
    );
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(result["module"], "one", "{text}");
    assert_eq!(result["command"], "two /\n", "{text}");
    assert_eq!(result["changed"], true, "{text}");
    assert_eq!(result["fetched"], "three", "{text}");

    fs::remove_file(folder.path().join("there")).unwrap();
    fs::write(folder.path().join("there"), "four").unwrap();
    let (code, result, text) = hoist(folder.path(), "{}", &["--check"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(result["changed"], true, "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("there")).unwrap(), "four", "check mode reaches actions");
}

#[test]
fn plugin_runs_its_module_of_the_same_name() {
    let folder = project("result.update(self._execute_module())\nresult['by'] = 'plugin'");
    fs::create_dir(folder.path().join("library")).unwrap();
    let module = "#!/bin/sh\n# WANT_JSON\necho '{\"changed\": true, \"speed\": 3}'\n";
    fs::write(folder.path().join("library/hoist"), module).unwrap();
    let (code, result, text) = hoist(folder.path(), "{speed: 3}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((&result["speed"], &result["by"], &result["changed"]), (&3.into(), &"plugin".into(), &true.into()));
}

#[test]
fn failures_of_a_plugin_are_results_of_its_task() {
    let folder = project(
        r#"what = self._task.args['what']
if what == 'fail':
    raise AnsibleActionFail('no flag', result={'flag': 1})
if what == 'skip':
    raise AnsibleActionSkip('no wind')
if what == 'crash':
    raise KeyError('x')
if what == 'die':
    os.kill(os.getpid(), 9)
if what == 'module':
    self._execute_module(module_name='nothing.like.this')"#,
    );
    let result = |what: &str| {
        let (code, result, text) = hoist(folder.path(), &format!("{{what: {what}}}"), &[]);
        assert_eq!(code, Some(0), "{text}");
        result
    };
    let failed = result("fail");
    assert_eq!((&failed["msg"], &failed["flag"], &failed["failed"]), (&"no flag".into(), &1.into(), &true.into()));
    assert_eq!(result("skip")["skipped"], true);
    for (what, reason) in [
        ("crash", "hoist.py failed: KeyError: 'x'."),
        ("die", "its process has ended with the status 9."),
        ("module", "the collection nothing.like is not installed"),
    ] {
        let failed = result(what);
        assert!(failed["msg"].as_str().unwrap().contains(reason), "{failed}");
    }
}

#[test]
fn host_that_a_plugin_does_not_reach_is_unreachable() {
    let folder =
        project("try:\n    self._execute_module(module_name='ping')\nexcept AnsibleError as error:\n    raise error");
    fs::write(folder.path().join("hosts"), "a ansible_host=127.0.0.1 ansible_port=1\n").unwrap();
    let (_, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(result["unreachable"], true, "{text}");
    assert!(result["msg"].as_str().unwrap().contains("no TCP connection"), "{text}");
}

#[test]
fn result_of_a_plugin_cannot_command_the_controller() {
    let folder = project(
        "result['add_host'] = {'host_name': 'evil'}\nresult['ansible_facts'] = {'ansible_connection': 'ssh', 'kept': 1}\n\
         result['text'] = '{{ 6 * 7 }}'",
    );
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(result["text"], "{{ 6 * 7 }}", "{text}");
    assert!(result.get("add_host").is_none() && text.contains("Removed unexpected internal keys"), "{text}");
}

#[test]
fn what_a_plugin_changes_in_its_process_reaches_no_other_host() {
    let folder = project("result['before'] = os.environ.get('HOISTED', '')\nos.environ['HOISTED'] = 'yes'");
    for _ in 0..2 {
        let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - hoist: {}\n      loop: [1, 2, 3]\n      \
                    register: hoisted\n      failed_when: hoisted.before != ''\n";
        fs::write(folder.path().join("two.yml"), play).unwrap();
        let output = stand_ins::windlass(folder.path(), &["playbook", "-i", "hosts", "two.yml"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn program_of_a_plugin_takes_no_message_of_windlass() {
    let folder = project(
        "import subprocess\nresult['read'] = subprocess.run(['cat'], stdout=subprocess.PIPE).stdout.decode()\n\
         subprocess.run(['echo', 'printed'])\nresult['flag'] = task_vars['flag']",
    );
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((&result["read"], &result["flag"]), (&"".into(), &"up".into()), "{text}");
}

#[test]
fn plugin_ends_with_the_timeout_of_its_task() {
    let folder = project("import time\ntime.sleep(60)");
    let play = "- hosts: a\n  gather_facts: false\n  tasks:\n    - hoist: {}\n      timeout: 2\n";
    fs::write(folder.path().join("late.yml"), play).unwrap();
    let output = stand_ins::windlass(folder.path(), &["playbook", "-i", "hosts", "late.yml"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("Timed out after 2 second(s)") || text.contains("within 2 s"), "{text}");
}

#[test]
fn plugin_of_a_built_in_action_has_no_effect_and_says_so() {
    let folder = project("pass");
    fs::write(folder.path().join("action_plugins/debug.py"), "raise Exception\n").unwrap();
    let (code, _, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("action_plugins/debug.py has no effect: `debug` is built in"), "{text}");
}

#[test]
fn plugin_without_ansible_core_names_what_is_missing() {
    let folder = project("pass");
    fs::remove_dir_all(folder.path().join("core")).unwrap();
    let (_, result, text) = hoist(folder.path(), "{}", &[]);
    assert!(result["msg"].as_str().unwrap_or_default().contains("action plugins need ansible-core"), "{text}");
}
