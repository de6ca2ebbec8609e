//! The view of an operator while a run goes on: the footer at a terminal, lines elsewhere, and the choice of results.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::screen::{At, Screen};
use regex::Regex;
use rustix::process::Signal;

/// Host a passes, b fails, and c works until the file `gate` exists.
const PLAYBOOK: &str = r#"
- name: first
  hosts: all
  gather_facts: false
  tasks:
    - name: Quick
      debug: {msg: hello}
- name: second
  hosts: all
  gather_facts: false
  tasks:
    - name: Long task
      shell: "{{ {'a': 'true', 'b': 'exit 3'}[inventory_hostname] | default(wait) }}"
      vars: {wait: "while [ ! -e gate ]; do sleep 0.1; done"}
    - name: After it
      debug: {msg: bye}
"#;

const INVENTORY: &str = "[all:vars]\nansible_connection=local\n[some]\na\nb\nc\n";

fn project(playbook: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("site.yml"), playbook).unwrap();
    std::fs::write(folder.path().join("hosts"), INVENTORY).unwrap();
    folder
}

fn open_gate(folder: &Path) {
    std::fs::write(folder.join("gate"), "").unwrap();
}

/// A run with a terminal of its own, so that its keys send signals, also where a background shell ignores them.
fn run(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--wait", "--ctty", "env", "--default-signal=HUP,INT,QUIT", env!("CARGO_BIN_EXE_windlass")]);
    command.args(["playbook", "-i", "hosts", "site.yml"]);
    prepared(command, folder, words)
}

/// A run without a terminal.
fn plain(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["playbook", "-i", "hosts", "site.yml"]);
    prepared(command, folder, words).stdin(Stdio::null()).output().unwrap()
}

fn prepared(mut command: Command, folder: &Path, words: &[&str]) -> Command {
    command.args(words).current_dir(folder).env("HOME", folder).env("NO_COLOR", "1").env("TERM", "xterm");
    [
        "ANSIBLE_CONFIG",
        "WINDLASS_PROGRESS",
        "WINDLASS_LIVE",
        "WINDLASS_OUTPUT",
        "WINDLASS_SHOW",
        "WINDLASS_PROGRESS_INTERVAL",
    ]
    .iter()
    .for_each(|name| {
        command.env_remove(name);
    });
    command
}

#[test]
fn footer_names_play_task_counts_and_slowest_host() {
    let folder = project(PLAYBOOK);
    // Enough rows for all output, whichever host ends first.
    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 60, 160);
    let footer = screen.wait_for_last("waiting for: c ");
    let expected =
        r"^play 2/2  Long task  1 done, 1 running, 1 failed  elapsed \d+s  waiting for: c \d+s \(shell\)( +\? keys)?$";
    assert!(Regex::new(expected).unwrap().is_match(&footer), "{footer}");

    // It follows the width of the terminal, and is never longer.
    screen.resize(60, 40);
    let narrow = Regex::new(r"^Long task  1 running, 1 failed  c \d+s$").unwrap();
    screen.wait("a narrow footer", |screen| narrow.is_match(&screen.last()).then_some(()));
    screen.resize(60, 160);
    screen.wait_for_last("elapsed ");

    open_gate(folder.path());
    let ended = screen.end();
    assert_eq!(ended.status.code(), Some(2));
    let rows = &ended.rows;
    assert!(!rows.iter().any(|row| row.contains("elapsed ") || row.contains("running")), "{}", rows.join("\n"));
    for line in ["ok: [a] => {", "changed: [a]", "changed: [c]", "FAILURES: 1"] {
        assert!(rows.iter().any(|row| row == line), "{line}:\n{}", rows.join("\n"));
    }
}

#[test]
fn text_above_the_footer_is_that_of_a_run_without_one() {
    let tasks = "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Each\n      shell: 'echo {{ item }}; sleep 0.3'\n      \
                 loop: [1, 2, 3, 4, 5]\n";
    let folder = project(tasks);
    let with = Screen::start(run(folder.path(), &["--no-journal", "--live"]), 60, 100).end();
    assert!(with.bytes.contains("elapsed "), "{}", with.bytes);
    let without = Screen::start(run(folder.path(), &["--no-journal", "--live", "--progress", "none"]), 60, 100).end();
    assert!(!without.bytes.contains("elapsed ") && !without.bytes.contains('\u{1b}'), "{}", without.bytes);
    let lines = |rows: &[String]| {
        let mut lines: Vec<String> = rows.iter().filter(|row| !row.starts_with("DURATION")).cloned().collect();
        // Hosts finish in any order.
        lines.sort();
        lines
    };
    // Live output has lines of its own.
    assert_eq!(lines(&with.rows), lines(&without.rows));
}

#[test]
fn footer_gone_after_interruption_and_while_stopped() {
    let folder = project(PLAYBOOK);
    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 30, 120);
    screen.wait_for_last("waiting for: c ");
    screen.signal(Signal::TSTP);
    screen.wait("the program stopped", |screen| (screen.state() == "T").then_some(()));
    // The screen may still have to read what the program wrote before it stopped.
    let is_clear = |screen: &Screen| !screen.last().contains("elapsed ") && !screen.passes_keys();
    screen.wait("no footer while stopped", |screen| is_clear(screen).then_some(()));
    screen.signal(Signal::CONT);
    screen.wait_for_last("waiting for: c ");

    screen.press("\x03");
    let ended = screen.end();
    assert_eq!(ended.status.code(), Some(99));
    let rows = ended.rows.join("\n");
    assert!(
        !rows.contains("elapsed ") && rows.contains("SIGINT: the run ends here. Stopping:\n  c: Long task"),
        "{rows}"
    );
}

/// Two hosts print a word until the file `gate` exists.
const CHATTER: &str = r#"
- hosts: a b
  gather_facts: false
  tasks:
    - name: Chatter
      shell: "while [ ! -e gate ]; do echo {{ inventory_hostname }}-$(cat word); sleep 0.1; done"
"#;

#[test]
fn keys_choose_hosts_whose_output_is_shown() {
    let folder = project(CHATTER);
    let word = |word: &str| std::fs::write(folder.path().join("word"), word).unwrap();
    word("one");
    let mut screen = Screen::start(run(folder.path(), &["--no-journal", "--live"]), 200, 120);
    screen.wait_for("[a] a-one");
    screen.wait_for("[b] b-one");
    screen.wait_for_last("waiting for: ");
    screen.press("l");
    screen.wait_for("Showing the output of the host that has worked longest.");
    screen.press("l");
    screen.wait_for("Showing no output of running commands.");
    word("two");
    screen.press("h");
    // The footer has a `2` too.
    let second = screen.wait("the list", |screen| {
        screen.rows().iter().find_map(|row| Some(row.strip_prefix("  2 ")?.split(':').next()?.to_owned()))
    });
    let (second, first) = if second == "a" { ("a", "b") } else { ("b", "a") };
    screen.press("2");
    screen.wait_for(&format!("Showing the output of {second}."));
    screen.wait_for(&format!("[{second}] {second}-two"));
    assert!(!screen.rows().join("\n").contains(&format!("{first}-two")), "{}", screen.rows().join("\n"));
    screen.press("7");
    screen.wait_for("There is no host 7 in a list; h shows one.");
    open_gate(folder.path());
    assert_eq!(screen.end().status.code(), Some(0));
}

/// Roles read whole files and lists in this way.
#[test]
fn output_of_tasks_that_only_read_is_not_shown_while_they_run() {
    let tasks = "
- hosts: a
  gather_facts: false
  tasks:
    - shell: echo read
      register: found
      changed_when: false
    - shell: echo registered
      register: made
    - shell: echo unchanged
      changed_when: false
";
    let folder = project(tasks);
    let output = plain(folder.path(), &["--no-journal", "--live"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("[a] registered") && text.contains("[a] unchanged"), "{text}");
    assert!(!text.contains("[a] read"), "{text}");
}

#[test]
fn keys_pause_list_and_end_the_run() {
    let folder = project(PLAYBOOK);
    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 40, 120);
    screen.wait_for_last("waiting for: c ");
    assert!(screen.passes_keys());
    screen.press("h");
    screen.wait_for("  1 c: Long task (shell) for ");
    screen.press("?");
    screen.wait_for("Keys: p pause");
    // A pasted word is not a key.
    screen.press("pqq");
    std::thread::sleep(Duration::from_secs(1));
    screen.press("p");
    screen.wait_for_last("pausing after this task");
    open_gate(folder.path());
    screen.wait_for_last("paused, p continues");
    assert!(!screen.rows().iter().any(|row| row.starts_with("TASK [After it]")));
    screen.press("p");
    screen.wait_for("TASK [After it]");
    assert_eq!(screen.end().status.code(), Some(2));

    std::fs::remove_file(folder.path().join("gate")).unwrap();
    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 40, 120);
    screen.wait_for_last("waiting for: c ");
    screen.press("q");
    screen.wait_for("Press q again to end the run.");
    screen.press("q");
    screen.wait_for("SIGINT: the run ends here.");
    screen.wait("the usual mode of the terminal", |screen| (!screen.passes_keys()).then_some(()));
    assert_eq!(screen.end().status.code(), Some(99));

    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 40, 120);
    screen.wait_for_last("waiting for: c ");
    // Ctrl-\ ends the program at once.
    screen.press("\x1c");
    screen.wait("the usual mode of the terminal", |screen| (!screen.passes_keys()).then_some(()));
    let ended = screen.end();
    assert_eq!(ended.status.signal(), Some(Signal::QUIT.as_raw()));
    assert!(!ended.rows.join("\n").contains("elapsed "), "{}", ended.rows.join("\n"));
}

#[test]
fn footer_stays_below_live_output_that_has_a_title() {
    let tasks = "- hosts: a\n  gather_facts: false\n  tasks:\n    - name: Print\n      shell: for i in $(seq 60); do echo line $i; \
                 sleep 0.05; done\n      changed_when: false\n";
    let folder = project(tasks);
    let ended = Screen::start(run(folder.path(), &["--no-journal"]), 100, 100).end();
    let (before, after) = ended.bytes.split_once("[a] line 1\r").unwrap();
    assert!(before.contains("TASK [Print]"), "{before}");
    assert!(after.contains("? keys"), "{after}");
    // After its first drawing, the footer follows every line at once.
    let below: Vec<&str> = after.split("[a] line ").skip_while(|text| !text.contains("elapsed ")).collect();
    assert!(below.len() > 20 && below.iter().all(|text| text.contains("elapsed ")), "{below:?}");
    assert!(!ended.rows.join("\n").contains("elapsed "));
}

#[test]
fn output_shown_live_is_not_repeated_by_a_failure() {
    let tasks = "- hosts: a\n  gather_facts: false\n  tasks:\n    - name: Print\n      \
                 shell: echo seen once; sleep 1; exit 3\n";
    let folder = project(tasks);
    let times = |words: &[&str]| {
        let ended = Screen::start(run(folder.path(), &[&["--no-journal"], words].concat()), 60, 100).end();
        let rows = ended.rows.join("\n");
        assert_eq!(rows.matches("non-zero return code").count(), 2, "at the task and in the list: {rows}");
        ended.rows.iter().filter(|row| row.trim_start_matches("[a] ").trim() == "seen once").count()
    };
    assert_eq!(times(&[]), 1);
    assert_eq!(times(&["--live=none"]), 1);
}

#[test]
fn recap_of_a_narrow_terminal_has_no_zeros() {
    let tasks = "- hosts: a\n  gather_facts: false\n  tasks:\n    - {command: 'true'}\n";
    let folder = project(tasks);
    let recap = |columns: u16| {
        let ended = Screen::start(run(folder.path(), &["--no-journal"]), 30, columns).end();
        let start = ended.rows.iter().position(|row| row.starts_with("PLAY RECAP")).unwrap();
        ended.rows[start + 1].clone()
    };
    assert!(recap(120).contains("unreachable=0"));
    let narrow = recap(60);
    assert!(narrow.contains("changed=1") && !narrow.contains("=0"), "{narrow}");
}

#[test]
fn footer_hidden_while_something_is_asked() {
    let tasks = r#"
- hosts: all
  gather_facts: false
  vars_prompt:
    - {name: word, prompt: Which word, private: false}
  tasks:
    - pause: {prompt: Really}
    - name: Wait
      shell: while [ ! -e gate ]; do sleep 0.1; done
      when: inventory_hostname == 'c'
    - name: Debug
      command: "false"
      debugger: on_failed
      when: inventory_hostname == 'a'
"#;
    let folder = project(tasks);
    let mut screen = Screen::start(run(folder.path(), &["--no-journal"]), 40, 120);
    // Longer than the footer needs to appear.
    let is_quiet = |screen: &Screen| {
        std::thread::sleep(Duration::from_millis(1500));
        let rows = screen.rows().join("\n");
        assert!(!rows.contains("elapsed ") && !screen.passes_keys(), "{rows}");
    };
    screen.wait_for_last("Which word:");
    is_quiet(&screen);
    screen.press("x\r");
    screen.wait_for("Really:");
    is_quiet(&screen);
    screen.press("\r");
    screen.wait_for_last("waiting for: c ");
    open_gate(folder.path());
    screen.wait_for_last("(debug)>");
    is_quiet(&screen);
    screen.press("c\r");
    let ended = screen.end();
    assert!(!ended.rows.join("\n").contains("elapsed "), "{}", ended.rows.join("\n"));
}

#[test]
fn secret_typed_as_soon_as_its_prompt_is_shown_is_not_echoed() {
    if !windlass_testing::has_all(&["strace"]) {
        return;
    }
    let tasks = "- hosts: a\n  gather_facts: false\n  vars_prompt: [{name: word, prompt: Which word}]\n  tasks:\n    \
                 - pause: {prompt: Really, echo: false}\n";
    let folder = project(tasks);
    // Without the delay the echo might be off in time by chance.
    let slow = ["--wait", "--ctty", "strace", "-f", "-qq", "-o", "trace", "-P", "/dev/tty"];
    let mut command = Command::new("setsid");
    command.args(slow).args(["-e", "trace=ioctl", "-e", "inject=ioctl:delay_enter=500000"]);
    command.arg(env!("CARGO_BIN_EXE_windlass")).args(["playbook", "-i", "hosts", "site.yml", "-K", "--no-journal"]);
    let mut screen = Screen::start(prepared(command, folder.path(), &[]), 40, 120);
    for (prompt, answer) in [("BECOME password:", "Quartz1"), ("Which word:", "Quartz2"), ("Really:", "Quartz3")] {
        screen.wait_for(prompt);
        screen.press(&format!("{answer}\r"));
    }
    let ended = screen.end();
    assert!(ended.status.success() && !ended.bytes.contains("Quartz"), "{}", ended.bytes);
    assert!(std::fs::read_to_string(folder.path().join("trace")).unwrap().contains("DELAYED"));
}

#[test]
fn footer_absent_where_it_is_unwanted() {
    let tasks = "- hosts: a\n  gather_facts: false\n  tasks:\n    - {name: Slow, command: sleep 3}\n";
    let folder = project(tasks);
    let quiet: [(&str, &str, &[&str]); 5] = [
        ("TERM", "dumb", &[]),
        ("WINDLASS_PROGRESS", "none", &[]),
        ("LANG", "C", &["--progress", "none"]),
        ("ANSIBLE_STDOUT_CALLBACK", "json", &[]),
        ("LANG", "C", &["--events", "2"]),
    ];
    for (name, value, words) in quiet {
        let mut command = run(folder.path(), words);
        command.arg("--no-journal").env(name, value);
        let ended = Screen::start(command, 30, 100).end();
        assert!(ended.status.success() && !ended.bytes.contains('\u{1b}'), "{name}: {}", ended.bytes);
    }
    std::fs::write(folder.path().join("ansible.cfg"), "[windlass]\nprogress = lines\nprogress_interval = 1\n").unwrap();
    let ended = Screen::start(run(folder.path(), &["--no-journal"]), 30, 100).end();
    assert!(!ended.bytes.contains('\u{1b}'), "{}", ended.bytes);
    let line = Regex::new(r"(?m)^still running after \ds: TASK \[Slow\], waiting for a\r$").unwrap();
    assert!(line.is_match(&ended.bytes), "{}", ended.bytes);
    let wrong = plain(folder.path(), &["--progress", "much"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn footer_on_standard_error_leaves_a_file_as_it_is() {
    let folder = project(PLAYBOOK);
    let file = folder.path().join("output");
    let mut command = run(folder.path(), &["--no-journal"]);
    command.stdout(File::create(&file).unwrap());
    let screen = Screen::start_at(command, At::Stderr, 30, 120);
    screen.wait_for_last("waiting for: c ");
    open_gate(folder.path());
    assert!(!screen.end().rows.iter().any(|row| row.contains("elapsed ")));
    let written = std::fs::read_to_string(&file).unwrap();
    let expected = plain(folder.path(), &["--no-journal"]);
    let times = Regex::new(r#""(start|end|delta)": "[^"]*""#).unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| times.replace_all(line, "").into_owned()).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&written), sorted(&String::from_utf8(expected.stdout).unwrap()));
    assert!(!written.contains('\u{1b}') && !written.contains("DURATION"), "{written}");
}

#[test]
fn expected_time_comes_from_an_earlier_run() {
    let tasks = "- hosts: c\n  gather_facts: false\n  tasks:\n    - name: Wait\n      shell: while [ ! -e gate ]; do sleep 0.1; done\n";
    let folder = project(tasks);
    let screen = Screen::start(run(folder.path(), &[]), 30, 120);
    let footer = screen.wait_for_last("waiting for: c 8s");
    assert!(!footer.contains("ETA"), "{footer}");
    open_gate(folder.path());
    assert!(screen.end().status.success());
    std::fs::remove_file(folder.path().join("gate")).unwrap();

    let screen = Screen::start(run(folder.path(), &[]), 30, 120);
    let footer = screen.wait_for_last("ETA ");
    assert!(Regex::new(r"elapsed \d+s  ETA \ds").unwrap().is_match(&footer), "{footer}");
    // A run that takes longer has no expected time.
    screen.wait("no ETA", |screen| Some(screen.last()).filter(|row| row.contains("elapsed") && !row.contains("ETA")));
    open_gate(folder.path());
    screen.end();
}

#[test]
fn chosen_results_shown_without_banners_of_other_tasks() {
    let tasks = r#"
- name: results
  hosts: a,b
  gather_facts: false
  tasks:
    - {name: Same, ping: }
    - {name: Message, debug: {msg: read me}}
    - {name: Skip, debug: {msg: skip}, when: false}
    - {name: Include, include_tasks: more.yml}
    - {name: Change, command: "true"}
    - {name: Fail, command: "false", when: inventory_hostname == 'b'}
"#;
    let folder = project(tasks);
    std::fs::write(folder.path().join("more.yml"), "- {name: More, ping: }\n").unwrap();
    let titles = |text: &str| -> Vec<String> {
        let title = Regex::new(r"(?m)^TASK \[(\w+)\]").unwrap();
        title.captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    let shown = |words: &[&str]| {
        let output = plain(folder.path(), &[&["--no-journal"], words].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(titles(&shown(&[])), ["Same", "Message", "Skip", "Include", "More", "Change", "Fail"]);
    assert_eq!(titles(&shown(&["--show", "all"])).len(), 7);
    let changed = shown(&["--show", "changed"]);
    // The messages of `debug` are written to be read.
    assert_eq!(titles(&changed), ["Message", "Change", "Fail"]);
    assert!(
        !changed.contains("ok: [a]\n") && !changed.contains("included: ") && changed.contains("changed: [a]"),
        "{changed}"
    );
    let failed = shown(&["--show", "failed"]);
    assert_eq!(titles(&failed), ["Fail"]);
    assert!(!failed.contains("changed: [") && failed.contains("PLAY RECAP"), "{failed}");

    // At a terminal that is the default.
    let at_terminal = |words: &[&str]| {
        let screen = Screen::start(run(folder.path(), &[&["--no-journal"], words].concat()), 60, 100);
        screen.end().rows.join("\n")
    };
    assert_eq!(titles(&at_terminal(&[])), ["Message", "Change", "Fail"]);
    assert_eq!(titles(&at_terminal(&["--show", "all"])).len(), 7);
    assert_eq!(titles(&at_terminal(&["-v"])).len(), 7);
    let as_ansible = at_terminal(&["--output", "ansible"]);
    assert_eq!(titles(&as_ansible).len(), 7);
    assert!(as_ansible.contains("FAILED! => {") && !as_ansible.contains("FAILURES"), "{as_ansible}");
    assert!(!as_ansible.contains("DURATION"), "{as_ansible}");

    // A person's setting counts at a terminal, and never for a script.
    std::fs::write(folder.path().join("ansible.cfg"), "[windlass]\nshow = failed\n").unwrap();
    assert_eq!(titles(&shown(&[])).len(), 7);
    let ended = Screen::start(run(folder.path(), &["--no-journal"]), 40, 100).end();
    assert_eq!(titles(&ended.rows.join("\n")), ["Fail"]);
    std::fs::write(folder.path().join("ansible.cfg"), "[windlass]\nshow = some\n").unwrap();
    let wrong = plain(folder.path(), &[]);
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert!(error.contains("show must be all, changed or failed, not 'some'"), "{error}");
}

#[test]
fn reason_of_each_change_below_its_line() {
    let tasks = r#"
- name: changes
  hosts: a
  gather_facts: false
  vars: {here: "{{ playbook_dir }}"}
  tasks:
    - {name: Write, copy: {dest: "{{ here }}/file", content: "one\ntwo\n", mode: "0600"}}
    - {name: Same, copy: {dest: "{{ here }}/file", content: "one\ntwo\n"}}
    - {name: Mode, file: {path: "{{ here }}/file", mode: "0640"}}
    - {name: Line, lineinfile: {path: "{{ here }}/file", regexp: ^two, line: three}}
    - {name: Run, command: echo a 'b c'}
    - {name: Items, command: "echo {{ item }}", loop: [x, y]}
    - {name: Hidden, command: echo secret, no_log: true}
"#;
    let folder = project(tasks);
    let output = plain(folder.path(), &["--no-journal", "--why", "--show", "changed"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let here = folder.path().display();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("changed: ") || line.starts_with("    ")).collect();
    let expected = [
        "changed: [a]",
        &format!("    {here}/file: 2 lines added"),
        "changed: [a]",
        "    mode: 0600 -> 0640",
        "changed: [a]",
        &format!("    {here}/file: 1 line added, 1 removed"),
        "changed: [a]",
        "    ran: echo a 'b c'",
        "changed: [a] => (item=x)",
        "    ran: echo x",
        "changed: [a] => (item=y)",
        "    ran: echo y",
        "changed: [a]",
        "    hidden by no_log",
    ];
    assert_eq!(lines, expected, "{text}");
    assert!(!text.contains("+++ ") && !text.contains("secret"), "{text}");
}

#[test]
fn banners_fill_the_terminal_and_durations_follow_the_recap() {
    let tasks = "- name: 日本語\n  hosts: a\n  gather_facts: false\n  tasks:\n    - {name: Short, command: sleep 1.2}\n\
                 - name: other\n  hosts: a\n  gather_facts: false\n";
    let folder = project(tasks);
    for columns in [40, 120] {
        let ended = Screen::start(run(folder.path(), &["--no-journal"]), 30, columns).end();
        let banner = |start: &str| ended.rows.iter().find(|row| row.starts_with(start)).unwrap();
        let cells = |text: &str| unicode_width::UnicodeWidthStr::width(text);
        for start in ["PLAY [日本語] *", "TASK [Short] *", "PLAY RECAP *"] {
            assert_eq!(cells(banner(start)), usize::from(columns), "{start}");
        }
        let at = ended.rows.iter().position(|row| row.starts_with("DURATION: ")).unwrap();
        assert!(ended.rows[at + 1].ends_with("s  日本語"), "{}", ended.rows.join("\n"));
        assert!(ended.rows.iter().position(|row| row.starts_with("PLAY RECAP")).unwrap() < at);
    }
    let script = plain(folder.path(), &["--no-journal"]);
    let text = String::from_utf8(script.stdout).unwrap();
    let banner = text.lines().find(|line| line.starts_with("PLAY [日本語] *")).unwrap();
    assert_eq!(unicode_width::UnicodeWidthStr::width(banner), 80);
    assert!(!text.contains("DURATION"), "{text}");
}

#[test]
fn silent_run_names_waited_hosts_on_standard_error() {
    let tasks = "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Slow, command: sleep 4}\n";
    let folder = project(tasks);
    let line = Regex::new(r"(?m)^still running after \ds: TASK \[Slow\], waiting for [abc], [abc], [abc]$").unwrap();
    for (seconds, expected) in [("1", true), ("0", false), ("30", false)] {
        std::fs::write(folder.path().join("ansible.cfg"), format!("[windlass]\nprogress_interval = {seconds}\n"))
            .unwrap();
        let output = plain(folder.path(), &["--no-journal"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line.is_match(&text), expected, "{seconds}: {text}");
        assert!(!String::from_utf8(output.stdout).unwrap().contains("still running"));
    }
    let none = plain(folder.path(), &["--no-journal", "--progress", "none"]);
    assert!(none.stderr.is_empty(), "{}", String::from_utf8_lossy(&none.stderr));
}

/// From its first start to its last end, the first task takes as long as all batches but the last: two thirds of the
/// slow one's time.
#[test]
fn timings_of_a_task_leave_out_what_lies_between_batches() {
    let tasks = "- hosts: all\n  serial: 1\n  gather_facts: false\n  tasks:\n    - {name: First, debug: {msg: x}}\n    \
                 - {name: Slow, command: sleep 0.5}\n";
    let stdout = String::from_utf8(plain(project(tasks).path(), &["--timings"]).stdout).unwrap();
    let total = |task: &str| -> f64 {
        let line = stdout.lines().find(|line| line.ends_with(&format!("  {task}"))).unwrap();
        line.split_whitespace().nth(8).unwrap().parse().unwrap()
    };
    assert!(total("First") < total("Slow") / 2.0, "{stdout}");
}
