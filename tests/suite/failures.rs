//! Failures at a terminal: results as text, a list at the end, the command that resumes. Scripts see Ansible's output.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::terminal::open_terminal;
use rustix::termios::{Winsize, tcsetwinsize};

const PLAYBOOK: &str = r#"
- name: servers
  hosts: all
  gather_facts: false
  tasks:
    - name: Rescued
      block:
        - command: "false"
      rescue:
        - debug: {msg: saved}
    - name: Ignored
      fail: {msg: never mind}
      ignore_errors: true
    - name: Print and fail
      shell: "echo out line; echo first error >&2; echo second error >&2; exit 3"
      when: inventory_hostname == 'a'
    - name: Each item
      fail: {msg: "bad {{ item }}"}
      loop: [x, y]
      when: inventory_hostname == 'b' and again is not defined
    - {name: Hidden, fail: {msg: hunter2}, no_log: true, when: inventory_hostname == 'c'}
"#;

const INVENTORY: &str = "[all:vars]\nansible_connection=local\n[some]\na\nb\nc\nd\n";

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("site.yml"), PLAYBOOK).unwrap();
    std::fs::write(folder.path().join("hosts"), INVENTORY).unwrap();
    folder
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["playbook", "-i", "hosts", "site.yml"]).args(words);
    command.current_dir(folder).env("HOME", folder).env("NO_COLOR", "1").env("TERM", "xterm");
    // The footer and live output have tests of their own.
    command.env_remove("ANSIBLE_CONFIG").env("WINDLASS_PROGRESS", "none").env("WINDLASS_LIVE", "none");
    command
}

/// Output at a terminal, without carriage returns.
fn at_terminal(mut command: Command) -> String {
    let (mut screen, side) = open_terminal();
    tcsetwinsize(&side, Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut child = command
        .stdin(Stdio::from(side.try_clone().unwrap()))
        .stdout(Stdio::from(side.try_clone().unwrap()))
        .stderr(Stdio::from(side))
        .spawn()
        .unwrap();
    // The command holds copies of the terminal, which would keep it open.
    drop(command);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // The terminal reports the program's end as an error.
    while let Ok(count) = screen.read(&mut buffer) {
        if count == 0 {
            break;
        }
        seen.extend_from_slice(&buffer[..count]);
    }
    child.wait().unwrap();
    String::from_utf8(seen).unwrap().replace('\r', "")
}

fn in_script(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn list_of(text: &str) -> &str {
    text.split_once("FAILURES: ").map(|(_, list)| list).unwrap_or_else(|| panic!("no list of failures: {text}"))
}

#[test]
fn terminal_shows_failures_as_text_and_lists_them_with_the_resuming_command() {
    let folder = project();
    let text = at_terminal(command(folder.path(), &["-e", "colour='blue green'"]));
    let shown = "fatal: [a]: FAILED! => non-zero return code\n  cmd: echo out line; echo first error >&2; echo second \
                 error >&2; exit 3\n  rc: 3\n  stderr:\n    first error\n    second error\n  stdout:\n    out line\n";
    assert!(text.contains(shown), "{text}");
    assert!(text.contains("failed: [b] (item=x) => bad x\n") && !text.contains("  item: x"), "{text}");
    let hidden = "fatal: [c]: FAILED! => the output has been hidden due to the fact that 'no_log: true' was specified";
    assert!(text.contains(hidden), "{text}");
    let list = list_of(&text);
    let expected = "\
3
  a: Print and fail (site.yml:14): non-zero return code: first error
  b: Each item (site.yml:17): item x: bad x
  c: Hidden (site.yml:21): the output has been hidden due to the fact that 'no_log: true' was specified for this result
";
    assert!(list.starts_with(expected), "{text}");
    assert!(text.find("PLAY RECAP") < text.find("FAILURES: "), "{text}");
    assert_eq!(list.matches("--resume").count(), 1, "{text}");
    // The place is printed above the failure, and the message only in it.
    assert!(text.contains("Origin: ") && !text.contains("Task failed: non-zero"), "{text}");
    let resuming = list.lines().find(|line| line.contains(" --resume 2")).unwrap();
    let words = shell_words::split(resuming).unwrap();
    assert_eq!(words[1..6], ["playbook", "-i", "hosts", "site.yml", "-e"], "{resuming}");
    assert_eq!(words[6], "colour='blue green'");
    assert!(!text.contains("hunter2"), "{text}");

    // The command is complete: it resumes the run where it stopped.
    let mut resumed = Command::new(&words[0]);
    resumed.args(&words[1..]).current_dir(folder.path()).env("HOME", folder.path()).env("NO_COLOR", "1");
    let output = in_script(resumed);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("resumed: "), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Adds a role with one required argument and a table of lines, and a playbook that chooses one.
fn with_role(folder: &Path) {
    for (path, text) in [
        (
            "roles/app/meta/argument_specs.yml",
            "argument_specs: {main: {options: {app_port: {type: int, required: true}}}}",
        ),
        ("roles/app/tasks/main.yml", "- debug: {msg: ['NODE   STATE', 'node1  \"ok\"', '']}\n- debug: {msg: one line}"),
        ("role.yml", "- {hosts: a, gather_facts: false, roles: [app]}"),
    ] {
        std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        std::fs::write(folder.join(path), text).unwrap();
    }
}

fn of_role(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["playbook", "-i", "hosts", "role.yml", "--no-journal"]).args(words);
    command.current_dir(folder).env("HOME", folder).env("NO_COLOR", "1").env("TERM", "xterm");
    command.env_remove("ANSIBLE_CONFIG").env("WINDLASS_PROGRESS", "none");
    command
}

#[test]
fn lines_of_debug_are_text_at_a_terminal_and_json_in_scripts() {
    let folder = project();
    with_role(folder.path());
    let port = ["-e", "app_port=80"];
    let text = at_terminal(of_role(folder.path(), &port));
    assert!(text.contains("ok: [a] => \n    NODE   STATE\n    node1  \"ok\"\n\nTASK"), "{text}");
    assert!(text.contains("\"msg\": \"one line\""), "{text}");
    let text = String::from_utf8(in_script(of_role(folder.path(), &port)).stdout).unwrap();
    assert!(text.contains("        \"node1  \\\"ok\\\"\",\n"), "{text}");
    let text = at_terminal(of_role(folder.path(), &["-e", "app_port=80", "-v"]));
    assert!(text.contains("        \"NODE   STATE\",\n"), "{text}");
}

#[test]
fn refused_argument_of_a_role_shows_its_error_alone_at_a_terminal() {
    let folder = project();
    with_role(folder.path());
    let error = "Validation of arguments failed:\nmissing required arguments: app_port\n";
    let text = at_terminal(of_role(folder.path(), &[]));
    assert!(text.contains(error), "{text}");
    assert!(!text.contains("argument_spec_data") && !text.contains("argument_errors"), "{text}");
    assert!(!text.contains("validate_args_context"), "{text}");
}

#[test]
fn script_sees_the_specification_of_a_role_only_on_request() {
    let folder = project();
    with_role(folder.path());
    let text = |words: &[&str], failures: Option<&str>| {
        let mut run = of_role(folder.path(), words);
        failures.iter().for_each(|form| _ = run.env("WINDLASS_FAILURES", form));
        String::from_utf8(in_script(run).stdout).unwrap()
    };
    let usual = text(&[], None);
    assert!(
        usual.contains("\"argument_errors\": [") && usual.contains("missing required arguments: app_port"),
        "{usual}"
    );
    assert!(usual.contains("\"validate_args_context\": {") && !usual.contains("argument_spec_data"), "{usual}");
    for text in [text(&[], Some("ansible")), text(&["--output", "ansible"], None), text(&["-v"], None)] {
        assert!(text.contains("\"argument_spec_data\": {"), "{text}");
    }
    let mut run = of_role(folder.path(), &[]);
    run.env("ANSIBLE_STDOUT_CALLBACK", "ansible.posix.json");
    let json = String::from_utf8(in_script(run).stdout).unwrap();
    assert!(json.contains("\"argument_spec_data\": {"), "{json}");
}

#[test]
fn script_sees_only_what_ansible_prints() {
    let folder = project();
    let plain = in_script(command(folder.path(), &["--no-journal"]));
    let text = String::from_utf8(plain.stdout).unwrap();
    assert!(text.contains("fatal: [a]: FAILED! => {\"changed\": true"), "{text}");
    assert!(!text.contains("FAILURES"), "{text}");
    assert!(text.trim_end().lines().last().unwrap().starts_with("d "), "the recap is the last: {text}");

    // The list goes to standard error, and with it no value of a variable.
    let mut run = command(folder.path(), &["-e", "colour=hunter2"]);
    run.env_remove("WINDLASS_PROGRESS");
    let output = in_script(run);
    let (text, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!text.contains("FAILURES") && !text.contains("--resume"), "{text}");
    assert!(list_of(&error).contains("a: Print and fail (site.yml:14): non-zero return code: first error"), "{error}");
    assert!(error.contains("This is run ") && error.contains("--resume 2") && !error.contains("hunter2"), "{error}");

    let mut chosen = command(folder.path(), &["--no-journal"]);
    chosen.env("WINDLASS_FAILURES", "readable");
    let text = String::from_utf8(in_script(chosen).stdout).unwrap();
    assert!(text.contains("FAILED! => non-zero return code\n") && list_of(&text).starts_with("3\n"), "{text}");
}

#[test]
fn setting_keeps_output_of_ansible_at_a_terminal() {
    let folder = project();
    let mut chosen = command(folder.path(), &["--no-journal"]);
    chosen.env("WINDLASS_FAILURES", "ansible");
    let text = at_terminal(chosen);
    assert!(text.contains("fatal: [a]: FAILED! => {\"changed\": true") && !text.contains("FAILURES"), "{text}");
    for (name, value) in [("ANSIBLE_STDOUT_CALLBACK", "minimal"), ("ANSIBLE_CALLBACK_RESULT_FORMAT", "yaml")] {
        let mut other = command(folder.path(), &["--no-journal"]);
        other.env(name, value);
        assert!(!at_terminal(other).contains("=> non-zero return code\n"), "{name}");
    }
    let mut wrong = command(folder.path(), &[]);
    wrong.env("WINDLASS_FAILURES", "nice");
    let error = String::from_utf8(in_script(wrong).stderr).unwrap();
    assert!(error.contains("failures must be auto, readable or ansible, not 'nice'"), "{error}");
}

#[test]
fn hosts_that_fail_alike_share_a_line() {
    let folder = project();
    let hosts: String = (0..12).map(|number| format!("n{number:02} ansible_connection=local\n")).collect();
    std::fs::write(folder.path().join("hosts"), hosts).unwrap();
    let playbook = "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Same, fail: {msg: alike}}\n";
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    let text = at_terminal(command(folder.path(), &["--no-journal"]));
    assert!(list_of(&text).starts_with("12\n  Same (site.yml:4): alike: 12 hosts (n00 ...)\n"), "{text}");
}

#[test]
fn message_of_a_template_stands_once_above_the_list() {
    let folder = project();
    let playbook =
        "- hosts: a\n  gather_facts: false\n  tasks:\n    - {name: Undefined, debug: {msg: '{{ nothing.here }}'}}\n";
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    let text = at_terminal(command(folder.path(), &["--no-journal"]));
    let (above, _) = text.split_once("FAILURES").unwrap();
    assert_eq!(above.matches("is undefined").count(), 1, "{above}");
    assert!(above.contains("4 |     - {name: Undefined"), "{above}");
}

#[test]
fn failure_that_the_debugger_repaired_is_forgotten() {
    let folder = project();
    let playbook =
        "- hosts: a\n  gather_facts: false\n  debugger: on_failed\n  tasks:\n    - {name: Mend, command: 'false'}\n";
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    std::fs::write(folder.path().join("answers"), "task.args['_raw_params'] = 'true'\nr\n").unwrap();
    let mut run = command(folder.path(), &[]);
    run.env("WINDLASS_FAILURES", "readable").stdin(std::fs::File::open(folder.path().join("answers")).unwrap());
    let output = run.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("fatal: [a]") && text.contains("changed: [a]") && !text.contains("FAILURES"), "{text}");
    let mut show = Command::new(env!("CARGO_BIN_EXE_windlass"));
    show.args(["runs", "show"]).current_dir(folder.path()).env("HOME", folder.path()).env("NO_COLOR", "1");
    let shown = String::from_utf8(in_script(show).stdout).unwrap();
    assert!(!shown.contains("failures") && shown.contains("a     1   1        0        0"), "{shown}");
}

#[test]
fn remedy_follows_a_failure_at_a_terminal_only() {
    let folder = project();
    let playbook = "- hosts: a\n  gather_facts: false\n  tasks:\n    - {name: Ask, command: echo 2, register: ver}\n    \
                    - debug: {msg: x}\n      when: ver.stdout is version('1', '>=')\n";
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    let remedy = "`ver` was skipped in check mode; `windlass plan` treats it as unknown";
    let text = at_terminal(command(folder.path(), &["--check"]));
    assert!(text.contains(remedy), "{text}");
    let plain = String::from_utf8(in_script(command(folder.path(), &["--check"])).stdout).unwrap();
    assert!(plain.contains("cannot be empty") && !plain.contains(remedy), "{plain}");
    // It holds: a plan goes on.
    let mut plan = Command::new(env!("CARGO_BIN_EXE_windlass"));
    plan.args(["plan", "-i", "hosts", "site.yml", "-l", "a"]).current_dir(folder.path()).env("HOME", folder.path());
    let output = in_script(plan);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("its condition depends on the result of 'Ask'"), "{text}");
}

#[test]
fn undefined_variable_named_although_its_task_has_no_log() {
    let folder = project();
    let playbook = "- hosts: a\n  gather_facts: false\n  tasks:\n    - name: Hidden\n      \
                    copy: {dest: /nowhere, content: 'x {{ db_pass }}'}\n      no_log: true\n";
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    let text = at_terminal(command(folder.path(), &["--no-journal"]));
    assert!(text.contains("'db_pass' is undefined"), "{text}");
    let plain = String::from_utf8(in_script(command(folder.path(), &["--no-journal"])).stdout).unwrap();
    assert!(!plain.contains("is undefined"), "{plain}");
    let mut plan = Command::new(env!("CARGO_BIN_EXE_windlass"));
    plan.args(["plan", "-i", "hosts", "site.yml"]).current_dir(folder.path()).env("HOME", folder.path());
    let text = String::from_utf8(in_script(plan).stdout).unwrap();
    assert!(text.contains("fails: 'db_pass' is undefined"), "{text}");
}
