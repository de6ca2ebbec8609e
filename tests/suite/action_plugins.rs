//! Action plugins in Python, with stand-ins for the parts of ansible-core that they use.

use std::fs;
use std::path::Path;

use crate::stand_ins;
use serde_json::Value as Json;
use tempfile::TempDir;

/// The parts of ansible-core that run an action plugin and that it imports.
const CORE: &[(&str, &str)] = &[
    (
        "core/ansible/errors.py",
        r#"class AnsibleError(Exception):
    @property
    def message(self):
        return str(self)

class AnsibleConnectionFailure(AnsibleError):
    pass

class AnsibleUndefinedVariable(AnsibleError):
    pass

class AnsibleAction(AnsibleError):
    def __init__(self, message, result=None):
        super().__init__(message)
        self._result = result or {}

    @property
    def result(self):
        return dict(self._result)

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
        "from collections import namedtuple\n\n\nclass Loader:\n    def get_with_context(self, name, **_):\n        \
         raise KeyError(name)\n\n    get = get_with_context\n\n\naction_loader = Loader()\n\
         get_with_context_result = namedtuple('get_with_context_result', 'object plugin_load_context')\n\n\n\
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
        "import os\n\nfrom ansible.errors import AnsibleAction, AnsibleActionFail, AnsibleActionSkip, AnsibleError\n\
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
if what == 'exit':
    os._exit(0)
if what == 'subclass':
    class Becalmed(AnsibleAction):
        pass
    raise Becalmed('no wind at all')
if what == 'words':
    class Wordy(Exception):
        message = ['not', 'a', 'text']
    raise Wordy()
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
        ("die", "its process was ended by the signal 9."),
        ("exit", "its process ended with the exit code 0 and without a result."),
        ("subclass", "no wind at all"),
        ("words", "['not', 'a', 'text']"),
        ("module", "the collection nothing.like is not installed"),
    ] {
        let failed = result(what);
        assert!(failed["msg"].as_str().unwrap().contains(reason), "{failed}");
        assert_eq!(failed["failed"], true, "{failed}");
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
fn answer_to_a_plugin_that_died_meanwhile_reaches_no_other() {
    let folder = project(
        "if self._task.args['what'] == 'die':\n    import threading\n    \
         threading.Timer(0.5, os._exit, [1]).start()\n    \
         self._low_level_execute_command('sleep 1; echo of the dead')\n\
         result['out'] = self._low_level_execute_command('echo ' + self._task.args['what'])['stdout']",
    );
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - hoist: {what: die}\n      ignore_errors: true\n    \
                - hoist: {what: '{{ item }}'}\n      loop: [one, two, three]\n      register: hoisted\n      \
                failed_when: hoisted.out != item ~ '\\n'\n";
    fs::write(folder.path().join("dead.yml"), play).unwrap();
    let output = stand_ins::windlass(folder.path(), &["playbook", "-i", "hosts", "dead.yml"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("its process ended with the exit code 1"), "{text}");
}

#[test]
fn forked_process_and_threads_of_a_plugin_mix_up_no_answers() {
    let folder = project(
        r#"child = os.fork()
if not child:
    try:
        task_vars['flag']
    except Exception as error:
        open('refused', 'w').write(str(error))
    return {'of': 'the child'}
os.waitpid(child, 0)
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    outputs = list(pool.map(lambda n: self._low_level_execute_command('echo %d' % n)['stdout'], range(30)))
result['right'] = outputs == ['%d\n' % n for n in range(30)]"#,
    );
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(result["right"], true, "{result} {text}");
    let refused = fs::read_to_string(folder.path().join("refused")).unwrap();
    assert!(refused.contains("a process that a plugin has forked cannot ask"), "{refused}");
}

#[test]
fn question_that_a_plugin_gave_up_leaves_its_answer_to_no_other() {
    let folder = project(
        r#"if self._task.args['how'] == 'thread':
    import threading
    threading.Thread(target=lambda: self._low_level_execute_command('sleep 1; echo late'), daemon=True).start()
    import time
    time.sleep(0.3)
else:
    import signal
    def give_up(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        self._low_level_execute_command('sleep 1; echo late')
    except TimeoutError:
        pass
    try:
        self._low_level_execute_command('echo more')
    except Exception as error:
        result['refused'] = str(error)"#,
    );
    let other = "from ansible.plugins.action import ActionBase\n\n\nclass ActionModule(ActionBase):\n    \
                 def run(self, tmp=None, task_vars=None):\n        \
                 return self._low_level_execute_command('echo ' + task_vars['inventory_hostname'])\n";
    fs::write(folder.path().join("action_plugins/who.py"), other).unwrap();
    for how in ["thread", "alarm"] {
        let play = format!(
            "- hosts: all\n  gather_facts: false\n  tasks:\n    - hoist: {{how: {how}}}\n      register: hoisted\n      \
             failed_when: hoisted.refused | default('interrupted') is not search('interrupted')\n    - who:\n      \
             register: who\n      failed_when: who.stdout != inventory_hostname ~ '\\n'\n"
        );
        fs::write(folder.path().join("late.yml"), play).unwrap();
        let output =
            stand_ins::windlass(folder.path(), &["playbook", "-f1", "-i", "hosts", "late.yml"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn secret_that_a_plugin_prints_is_not_cut_and_shown() {
    let folder = project(
        "print('x' * (65536 - 4) + 'heave-away-joe')\n\
         print(('y' * 1023 + '\\n') * 1023 + 'y' * 1020 + 'heave-away-joe')\n\
         result.update(_ansible_no_log=True, token='heave-away-moe')",
    );
    fs::write(folder.path().join("play.yml"), "- hosts: a\n  gather_facts: false\n  tasks: [hoist: {}]\n").unwrap();
    let arguments = ["playbook", "-vvv", "-i", "hosts", "-e", "password=heave-away-joe", "play.yml"];
    let output = stand_ins::windlass(folder.path(), &arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("[a line of 65547 bytes is not shown]") && text.contains("more than 1024 KiB"), "{text}");
    assert!(!text.contains("heav") && !text.contains("joe") && text.contains("censored"), "{text}");
}

#[test]
fn text_that_is_not_utf8_and_undefined_templates_are_handled() {
    let folder = project(
        r#"from ansible.errors import AnsibleUndefinedVariable
result['name'] = b'\xff.txt'.decode('utf-8', 'surrogateescape')
from ansible.template import trusted
try:
    self._templar.template(trusted('{{ nothing_like_this }}'))
except AnsibleUndefinedVariable as error:
    result['undefined'] = str(error)
task_vars |= {'fresh': 1}
result['fresh'] = task_vars['fresh']"#,
    );
    fs::create_dir_all(folder.path().join("core/ansible/_internal/_datatag")).unwrap();
    fs::write(
        folder.path().join("core/ansible/_internal/_datatag/_tags.py"),
        "class TrustedAsTemplate:\n    @staticmethod\n    def is_tagged_on(text):\n        return True\n",
    )
    .unwrap();
    fs::write(folder.path().join("core/ansible/template.py"), "def trusted(text):\n    return text\n").unwrap();
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((&result["name"], &result["fresh"]), (&"?.txt".into(), &1.into()), "{text}");
    assert!(result["undefined"].as_str().unwrap().contains("nothing_like_this"), "{result} {text}");
}

#[test]
fn text_that_a_plugin_prints_is_masked_and_hidden_with_no_log() {
    let folder = project(
        "import subprocess, sys\nprint('\\x1b[31mprinted', self._task.args['text'])\n\
         print('also', self._task.args['text'], file=sys.stderr)\n\
         subprocess.run(['echo', 'program', self._task.args['text']])",
    );
    fs::write(folder.path().join("password"), "vault").unwrap();
    let encrypt = ["vault", "encrypt_string", "--vault-password-file", "password", "-n", "text", "heave-away-joe"];
    let encrypted = stand_ins::windlass(folder.path(), &encrypt).output().unwrap();
    fs::create_dir(folder.path().join("group_vars")).unwrap();
    fs::write(folder.path().join("group_vars/all.yml"), encrypted.stdout).unwrap();
    let seen = |line: &str| {
        let play =
            format!("- hosts: a\n  gather_facts: false\n  tasks:\n    - hoist: {{text: '{{{{ text }}}}'}}\n{line}");
        fs::write(folder.path().join("printing.yml"), play).unwrap();
        let arguments = ["playbook", "-i", "hosts", "--vault-password-file", "password", "printing.yml"];
        let output = stand_ins::windlass(folder.path(), &arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !text.contains("heave-away-joe"), "{text}");
        text
    };
    let text = seen("");
    for line in ["[a] \\u{1b}[31mprinted ********", "[a] also ********", "[a] program ********"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = seen("      no_log: true\n");
    assert!(!text.contains("printed") && !text.contains("also") && !text.contains("program"), "{text}");
}

#[test]
fn variables_that_a_plugin_changes_reach_the_action_that_it_runs() {
    let folder = project(
        r#"mine = task_vars.copy()
mine.update(greeting='ahoy')
task = self._task.copy()
task.args = {'src': os.path.abspath('greeting.j2'), 'dest': os.path.abspath('greeting')}
loader = self._shared_loader_obj.action_loader
result['first'] = loader.get_with_context('ansible.legacy.template', task=task).object.run(task_vars=mine)['changed']
result['plain'] = loader.get('template', task=task).run(task_vars=dict(task_vars, greeting='avast'))['changed']
result['unchanged'] = 'greeting' not in task_vars and mine.pop('flag') == 'up' and 'flag' not in mine
self._connection.reset()"#,
    );
    fs::write(folder.path().join("greeting.j2"), "{{ greeting }} {{ flag }}").unwrap();
    let (code, result, text) = hoist(folder.path(), "{}", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("greeting")).unwrap(), "avast up", "{result} {text}");
    for name in ["first", "plain", "unchanged"] {
        assert_eq!(result[name], true, "{name}: {result} {text}");
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
