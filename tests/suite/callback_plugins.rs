//! Callback plugins in Python, with stand-ins for the parts of ansible-core that load them.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::stand_ins;
use tempfile::TempDir;

/// The parts of ansible-core that load a callback and that it imports.
const CORE: &[(&str, &str)] = &[
    ("core/ansible/context.py", "CLIARGS = {}\n"),
    ("core/ansible/module_utils/common/collections.py", "ImmutableDict = dict\n"),
    (
        "core/ansible/plugins/callback/__init__.py",
        r#"class CallbackBase:
    def __init__(self):
        self.disabled = False

    def _init_callback_methods(self):
        names = [name for name in dir(self) if name.startswith('v2_')]
        self._implemented_callback_methods = frozenset(names)

    def set_options(self):
        pass

    def set_play_context(self, context):
        pass
"#,
    ),
    (
        "core/ansible/plugins/loader.py",
        r#"from ansible.folders import Folders

def init_plugin_loader(collections):
    pass

class Loader(Folders):
    def get(self, name, class_only=False):
        plugin = self.find(name)
        return plugin and plugin.CallbackModule

callback_loader = Loader()
"#,
    ),
];

/// A callback with these class attributes and methods, which write to the file `log`.
fn plugin(attributes: &str, methods: &str) -> String {
    format!(
        r#"import os
import sys
import time

from ansible import context
from ansible.plugins.callback import CallbackBase

def say(*words):
    with open('log', 'a') as log:
        print(*words, file=log)

class CallbackModule(CallbackBase):
    {attributes}

    {}
"#,
        methods.trim().replace('\n', "\n    ")
    )
}

/// Writes the name of every event with what identifies it.
const EVERY: &str = r#"
def v2_playbook_on_start(self, playbook):
    say('start', os.path.basename(playbook._file_name), [play.get_name() for play in playbook.get_plays()])

def v2_playbook_on_play_start(self, play):
    say('play', play.get_name(), play.hosts)

def v2_playbook_on_task_start(self, task, is_conditional):
    say('task', task.get_name(), task.action, task.args, task._role, task._parent._play.get_name())

def v2_playbook_on_handler_task_start(self, task):
    say('handler', task.get_name())

def v2_runner_on_start(self, host, task):
    say('on', host, task.get_name())

def of(self, kind, result, *more):
    say(kind, result._host.get_name(), result._task.get_name(), result._result.get('_ansible_item_label'), *more)

def v2_runner_on_ok(self, result):
    self.of('ok', result, result.is_changed())

def v2_runner_on_failed(self, result, ignore_errors=False):
    self.of('failed', result, ignore_errors, result._result.get('rc'))

def v2_runner_on_skipped(self, result):
    self.of('skipped', result)

def v2_runner_on_unreachable(self, result):
    self.of('unreachable', result)

def v2_runner_item_on_ok(self, result):
    self.of('item ok', result)

def v2_runner_item_on_failed(self, result):
    self.of('item failed', result)

def v2_runner_item_on_skipped(self, result):
    self.of('item skipped', result)

def v2_runner_retry(self, result):
    self.of('retry', result, result._result['attempts'], result._result['retries'])

def v2_on_file_diff(self, result):
    self.of('diff', result)

def v2_playbook_on_include(self, included):
    say('include', os.path.basename(included._filename), included._hosts)

def v2_playbook_on_notify(self, handler, host):
    say('notify', handler.get_name(), host)

def v2_playbook_on_no_hosts_matched(self):
    say('no hosts matched')

def v2_playbook_on_no_hosts_remaining(self):
    say('no hosts remaining')

def v2_playbook_on_stats(self, stats):
    say('stats', {host: stats.summarize(host)['ok'] for host in stats.processed}, stats.failures, stats.custom)
"#;

const ONE_TASK: &str =
    "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - name: one\n      debug: {msg: 'text of one'}\n";

fn project(files: &[(&str, &str)]) -> TempDir {
    stand_ins::project(CORE.iter().chain(files))
}

fn windlass(folder: &Path, arguments: &[&str]) -> Output {
    run(folder, &[&["playbook", "p.yml"], arguments].concat())
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    stand_ins::windlass(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output and standard error of a run with one task and this callback.
fn said(methods: &str, settings: &str) -> (String, String) {
    let code = plugin("CALLBACK_TYPE = 'notification'", methods);
    let files = [("callback_plugins/mine.py", code.as_str()), ("p.yml", ONE_TASK), ("ansible.cfg", settings)];
    let output = windlass(project(&files).path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn callback_gets_events_in_the_order_of_ansible() {
    let play = r#"
- name: First
  hosts: localhost
  gather_facts: false
  tasks:
    - name: loops
      command: test {{ item }} = 1
      loop: [1, 2, 3]
      when: item < 3
      ignore_errors: true
    - name: changes
      copy: {dest: made, content: text}
      diff: true
      notify: [told]
    - name: repeats
      command: 'false'
      register: answer
      until: answer is success
      retries: 1
      delay: 0
      ignore_errors: true
    - include_tasks: more.yml
    - name: counts
      set_stats: {data: {made: 2}}
    - meta: flush_handlers
    - name: fails
      command: 'false'
  handlers:
    - name: told
      debug:
- name: Second
  hosts: nobody
"#;
    let more = "- name: included\n  debug:\n  when: false\n";
    let code = plugin("CALLBACK_TYPE = 'notification'", EVERY);
    let folder = project(&[("callback_plugins/every.py", &code), ("p.yml", play), ("more.yml", more)]);
    let output = windlass(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let expected = "\
start p.yml ['First', 'Second']
play First ['localhost']
task loops command {'_raw_params': 'test {{ item }} = 1'} None First
on localhost loops
item ok localhost loops 1
item failed localhost loops 2
item skipped localhost loops 3
failed localhost loops None True None
task changes copy {'dest': 'made', 'content': 'text'} None First
on localhost changes
diff localhost changes None
ok localhost changes None True
task repeats command {'_raw_params': 'false'} None First
on localhost repeats
retry localhost repeats None 1 2
failed localhost repeats None True 1
task include_tasks include_tasks {'_raw_params': 'more.yml'} None First
on localhost include_tasks
ok localhost include_tasks None False
include more.yml [localhost]
task included debug {} None First
on localhost included
skipped localhost included None
task counts set_stats {'data': {'made': 2}} None First
on localhost counts
ok localhost counts None False
task meta meta {'_raw_params': 'flush_handlers'} None First
notify told localhost
handler told
on localhost told
ok localhost told None False
task fails command {'_raw_params': 'false'} None First
on localhost fails
failed localhost fails None False 1
stats {'localhost': 6} {'localhost': 1} {'_run': {'made': 2}}
";
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), expected);
}

#[test]
fn callback_prints_in_the_order_of_events() {
    let methods = r#"
def v2_playbook_on_task_start(self, task, is_conditional):
    print('printed at the task', task.get_name())
    os.system('echo by a program')

def v2_playbook_on_stats(self, stats):
    print('printed at the end \x1b]0;x\x07 \u202e')
    print('an error', file=sys.stderr)
"#;
    let (stdout, stderr) = said(methods, "");
    let places: Vec<usize> = [
        "TASK [one]",
        "printed at the task one",
        "by a program",
        "text of one",
        "PLAY RECAP",
        r"printed at the end \u{1b}]0;x\u{7} \u{202e}",
    ]
    .iter()
    .map(|part| stdout.find(part).unwrap_or_else(|| panic!("no {part} in {stdout}")))
    .collect();
    assert!(places.is_sorted(), "{stdout}");
    assert!(stderr.contains("an error"), "{stderr}");
}

#[test]
fn only_enabled_callbacks_that_need_it_run() {
    let method = "def v2_playbook_on_stats(self, stats):\n    say(self.NAME)";
    let of = |name: &str, more: &str| plugin(&format!("NAME = '{name}'\n    {more}"), method);
    let needs = "CALLBACK_NEEDS_ENABLED = True";
    let files = [
        ("callback_plugins/always.py", of("always", "")),
        ("callback_plugins/chosen.py", of("chosen", needs)),
        ("callback_plugins/left_out.py", of("left_out", needs)),
        ("callback_plugins/computed.py", of("computed", "CALLBACK_NEEDS_ENABLED = bool(1)")),
        ("callback_plugins/screen.py", of("screen", "CALLBACK_TYPE = 'stdout'")),
        ("roles/r/callback_plugins/of_role.py", of("of_role", "")),
        ("roles/r/tasks/main.yml", "- debug:\n".to_owned()),
        ("elsewhere/configured.py", of("configured", "")),
        ("p.yml", "- hosts: localhost\n  gather_facts: false\n  roles: [r]\n".to_owned()),
        (
            "ansible.cfg",
            "[defaults]\ncallbacks_enabled = chosen, a.b.c, unknown\ncallback_plugins = elsewhere\n".to_owned(),
        ),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (*name, content.as_str())).collect();
    let folder = project(&files);
    let output = windlass(folder.path(), &[]);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let mut ran: Vec<&str> = log.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["always", "chosen", "configured", "of_role"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("'a.b.c', unable to load: the collection a.b is not installed"), "{stderr}");
    assert!(stderr.contains("'unknown', unable to load"), "{stderr}");
}

#[test]
fn error_of_callback_is_a_warning_and_it_is_called_on() {
    let methods = r#"
def v2_playbook_on_task_start(self, task, is_conditional):
    raise ValueError('no such channel')

def v2_runner_on_start(self, host, task):
    sys.exit(3)

def v2_playbook_on_stats(self, stats):
    print('called on')
"#;
    let (stdout, stderr) = said(methods, "");
    assert!(stdout.contains("called on"), "{stdout}");
    let expected = "Callback dispatch 'v2_playbook_on_task_start' failed for plugin 'mine': no such channel";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn callback_that_hangs_or_ends_is_given_up() {
    for (work, expected) in [
        (
            "time.sleep(60)",
            "v2_playbook_on_play_start failed: the Python process that runs it: it did not end within 15 s",
        ),
        ("os._exit(3)", "v2_playbook_on_play_start failed: the Python process that runs it has ended (exit status: 3)"),
    ] {
        let methods = format!("def v2_playbook_on_play_start(self, play):\n    {work}");
        let (stdout, stderr) = said(&methods, "[windlass]\ncommand_timeout = 15\n");
        assert!(stdout.contains("text of one"), "{stdout}");
        assert!(
            stderr.contains("the callback plugin 'mine' gets no more events") && stderr.contains(expected),
            "{stderr}"
        );
    }
}

#[test]
fn work_left_for_the_end_of_the_process_is_done() {
    let methods = r#"
def v2_playbook_on_stats(self, stats):
    import atexit
    import threading
    atexit.register(lambda: print('flushed at the end'))
    threading.Thread(target=lambda: (time.sleep(0.5), say('thread done'))).start()
"#;
    let code = plugin("", methods);
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", ONE_TASK)]);
    let output = windlass(folder.path(), &[]);
    assert!(text(&output.stdout).contains("flushed at the end"), "{}", text(&output.stdout));
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "thread done\n");
}

#[test]
fn callback_sees_no_secret_and_text_of_hosts_is_data() {
    let secret = windlass_vault::Secret::new("default", "sesame");
    let envelope = windlass_vault::encrypt(b"harbour-7", &secret).unwrap();
    let envelope = envelope.trim().replace('\n', "\n        ");
    let play = format!(
        "- hosts: localhost\n  gather_facts: false\n  vars:\n    token: !vault |\n        {envelope}\n  tasks:\n    - name: use {{{{ token }}}}\n      command: echo {{{{ token }}}} '{{% raw %}}{{{{ 6 * 7 }}}}{{% endraw %}}'\n    - name: hidden\n      command: echo anchor-5\n      no_log: true\n      environment: {{KEY: anchor-6}}\n      loop: [anchor-7]\n"
    );
    let methods = r#"
def v2_playbook_on_task_start(self, task, is_conditional):
    say('task', task.get_name(), task.args)

def v2_runner_on_ok(self, result):
    say('ok', result._result, result._task_fields, type(result._result.get('stdout')))
"#;
    let code = plugin("", methods);
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", &play), ("password", "sesame\n")]);
    let output = windlass(folder.path(), &["--vault-password-file", "password"]);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!log.contains("harbour-7") && !log.contains("anchor-"), "{log}");
    assert!(log.contains("use ********") && log.contains("'stdout': '******** {{ 6 * 7 }}'"), "{log}");
    assert!(log.contains("<class 'str'>") && log.contains("has been hidden"), "{log}");
}

#[test]
fn setting_no_log_hides_arguments_and_items_like_the_keyword() {
    let play = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - command: echo anchor-1 {{ item }}\n      \
                loop: [anchor-2]\n";
    let methods = "def v2_runner_on_ok(self, result):\n    say('ok', result._task_fields)\n";
    let settings = "[defaults]\nno_log = true\ndisplay_args_to_stdout = true\n";
    let code = plugin("", methods);
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", play), ("ansible.cfg", settings)]);
    let output = windlass(folder.path(), &[]);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(output.status.success() && log.contains("ok"), "{}{log}", text(&output.stderr));
    assert!(!log.contains("anchor-") && !text(&output.stdout).contains("anchor-"), "{log}{}", text(&output.stdout));
}

#[test]
fn secret_that_a_callback_prints_is_masked() {
    let secret = windlass_vault::Secret::new("default", "sesame");
    let envelope = windlass_vault::encrypt(b"harbour-7", &secret).unwrap();
    let envelope = envelope.trim().replace('\n', "\n        ");
    let play = format!(
        "- hosts: localhost\n  gather_facts: false\n  vars:\n    token: !vault |\n        {envelope}\n  tasks:\n    - command: test {{{{ token }}}}\n"
    );
    let methods = "def v2_playbook_on_stats(self, stats):\n    print('it is', 'harbour' + '-7')";
    let code = plugin("", methods);
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", &play), ("password", "sesame\n")]);
    let stdout = text(&windlass(folder.path(), &["--vault-password-file", "password"]).stdout);
    assert!(stdout.contains("it is ********"), "{stdout}");
}

#[test]
fn callback_in_python_writes_the_standard_output() {
    let methods = r#"
def v2_playbook_on_task_start(self, task, is_conditional):
    print('MINE', task.get_name(), context.CLIARGS['check'])
"#;
    let code = plugin("CALLBACK_TYPE = 'stdout'", methods);
    let settings = "[defaults]\nstdout_callback = mine\n";
    let files = [("callback_plugins/mine.py", code.as_str()), ("p.yml", ONE_TASK), ("ansible.cfg", settings)];
    let folder = project(&files);
    let output = windlass(folder.path(), &["--check"]);
    assert_eq!(text(&output.stdout), "MINE one True\n", "{}", text(&output.stderr));

    // One that cannot start leaves the output to `default`.
    fs::write(folder.path().join("callback_plugins/mine.py"), "raise ValueError('broken')\n").unwrap();
    let output = windlass(folder.path(), &[]);
    assert!(text(&output.stdout).contains("TASK [one]"), "{}", text(&output.stdout));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("Failed to load callback plugin 'mine': broken"), "{stderr}");

    fs::remove_file(folder.path().join("callback_plugins/mine.py")).unwrap();
    let output = windlass(folder.path(), &[]);
    assert!(text(&output.stderr).contains("Could not load 'mine' callback plugin."), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn callback_without_ansible_core_is_a_warning() {
    let code = plugin("", "pass");
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", ONE_TASK)]);
    fs::remove_dir_all(folder.path().join("core")).unwrap();
    let output = windlass(folder.path(), &[]);
    assert!(output.status.success());
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("'mine', unable to load: callbacks in Python need ansible-core, but there is no"),
        "{stderr}"
    );
}

#[test]
fn timings_show_the_cost_of_callbacks() {
    let code = plugin("", "def v2_playbook_on_stats(self, stats):\n    time.sleep(0.2)");
    let folder = project(&[("callback_plugins/mine.py", &code), ("p.yml", ONE_TASK)]);
    let stdout = text(&windlass(folder.path(), &["--timings"]).stdout);
    let line = stdout.lines().find(|line| line.ends_with("  mine")).unwrap_or_else(|| panic!("{stdout}"));
    let spent: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
    assert!(spent >= 200.0, "{line}");
}

#[test]
fn ad_hoc_command_runs_callbacks_only_if_set() {
    let code = plugin("", "def v2_playbook_on_stats(self, stats):\n    say('ran')");
    let folder = project(&[("callback_plugins/mine.py", &code)]);
    for (settings, expected) in [("", false), ("[defaults]\nbin_ansible_callbacks = true\n", true)] {
        fs::write(folder.path().join("ansible.cfg"), settings).unwrap();
        let output = run(folder.path(), &["adhoc", "localhost", "-m", "ping"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(folder.path().join("log").exists(), expected, "{settings}");
    }
}

#[test]
fn standard_output_of_callback_that_ends_is_continued() {
    let code = plugin("CALLBACK_TYPE = 'stdout'", "def v2_playbook_on_play_start(self, play):\n    os._exit(3)");
    let settings = "[defaults]\nstdout_callback = mine\n";
    let files = [("callback_plugins/mine.py", code.as_str()), ("p.yml", ONE_TASK), ("ansible.cfg", settings)];
    let stdout = text(&windlass(project(&files).path(), &[]).stdout);
    assert!(stdout.contains("TASK [one]") && stdout.contains("PLAY RECAP"), "{stdout}");
}
