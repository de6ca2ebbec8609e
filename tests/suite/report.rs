//! Reports and comparisons of recorded runs, repeated runs, and events while a run lasts.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::page;
use crate::project;
use serde_json::Value;

/// Text of a host that would run a script, end elements, load from the network, or turn the direction of text.
const HOSTILE: &str = "</pre></style></script><script>document.title=\"pwned\"</script>\
                       <img src=\"http://192.0.2.1/x\" onerror=\"document.title='pwned'\">\
                       ' onmouseover=x \" [a](javascript:x) ```\u{202e}\u{1b}[2J";

const PLAYBOOK: &str = r#"
- name: Web servers
  hosts: all
  gather_facts: false
  vars:
    hostile: "{{ lookup('file', 'hostile') }}"
  tasks:
    - name: Write the configuration
      copy: {content: "port=80\nname={{ inventory_hostname }}\n", dest: "FOLDER/{{ inventory_hostname }}.conf"}
      notify: Reload
    - name: Hidden
      command: echo hidden-by-no-log
      no_log: true
    - name: Several items
      command: printf '%s' '{{ item }}'
      loop: [one, two, "{{ hostile | regex_replace(\"'\", '') }}"]
      changed_when: item == 'two'
    - name: Nothing to do
      debug: {msg: never}
      when: false
    - name: Show a secret
      debug: {msg: "the secret is {{ secret }}"}
    - name: Ignored failure
      command: sh -c 'exit 3'
      ignore_errors: true
    - name: Fail <b>here</b>
      shell: "cat FOLDER/hostile; cat FOLDER/hostile >&2; exit {{ 4 if inventory_hostname == 'b' and not lookup('env', 'GOOD') else 0 }}"
  handlers:
    - name: Reload
      command: echo reloaded
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        project.write("hosts", "a\nb\n[all:vars]\nansible_connection=local\n");
        project.write("site.yml", PLAYBOOK);
        project.write("hostile", HOSTILE);
        // A word that no argument holds, or the command line would be masked.
        project.write("pass", "w0rd-of-the-vault\n");
        project.write("group_vars/all.yml", "secret: s3cret-of-the-vault\n");
        let encrypted = ["vault", "encrypt", "--vault-password-file", "pass", "group_vars/all.yml"];
        assert!(project.run(&encrypted).status.success());
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("FOLDER", &self.path("").display().to_string())).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        project::enter(command.args(words), &self.path(""));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs the playbook and returns the run's id.
    fn play(&self, more: &[&str], good: bool) -> String {
        let mut command =
            self.command(&["playbook", "-i", "hosts", "--vault-password-file", "pass", "--diff", "site.yml"]);
        command.args(more);
        if good {
            command.env("GOOD", "1");
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(if good { 0 } else { 2 }), "{}", text(&output));
        self.runs().pop().unwrap()
    }

    /// Ids of all runs, oldest first.
    fn runs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("state/runs")).unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().split('.').next().unwrap().to_owned();
        let mut runs: Vec<String> = entries.map(|entry| name(entry.unwrap().path())).collect();
        runs.sort();
        runs
    }

    /// Path of the newest journal.
    fn journal(&self) -> PathBuf {
        let mut paths: Vec<_> =
            fs::read_dir(self.path("state/runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.pop().unwrap()
    }

    /// The report of the last run in a format.
    #[track_caller]
    fn report(&self, format: &str) -> String {
        let output = self.run(&["report", "--format", format]);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn report_as_json_has_outcomes_times_and_no_secret() {
    let project = Project::new();
    let run = project.play(&[], false);
    let text = project.report("json");
    assert!(!text.contains("s3cret-of-the-vault") && !text.contains("hidden-by-no-log"), "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["run"], run.as_str());
    assert_eq!((&report["result"], &report["code"]), (&"failed".into(), &2.into()));
    let hosts = report["hosts"].as_array().unwrap();
    assert_eq!(hosts[1]["host"], "b");
    assert_eq!((&hosts[1]["failed"], &hosts[1]["skipped"], &hosts[1]["ignored"]), (&1.into(), &1.into(), &1.into()));
    let tasks = report["tasks"].as_array().unwrap();
    let find = |name: &str, host: &str| tasks.iter().find(|task| task["task"] == name && task["host"] == host).unwrap();
    let failed = find("Fail <b>here</b>", "b");
    assert_eq!(failed["status"], "failed");
    assert!(failed["place"].as_str().unwrap().ends_with("site.yml:26"), "{failed}");
    assert!(failed["excerpt"].as_str().unwrap().contains("Fail <b>here</b>"), "{failed}");
    let texts = failed["texts"].as_array().unwrap();
    assert!(texts.iter().any(|one| one["name"] == "stdout" && one["text"] == HOSTILE), "{failed}");
    let looped = find("Several items", "a");
    assert_eq!(looped["items"].as_array().unwrap().len(), 3);
    assert_eq!((&looped["items"][1]["status"], &looped["items"][1]["label"]), (&"changed".into(), &"two".into()));
    assert!(find("Hidden", "a")["withheld"].as_str().unwrap().contains("no_log"));
    assert_eq!(find("Reload", "a")["handler"], true);
    let copied = find("Write the configuration", "a");
    assert!(copied["diff"].as_str().unwrap().contains("+port=80"), "{copied}");
    assert_eq!(copied["notify"][0], "Reload");
    let is_timed = |task: &Value| task["start"].is_u64() && task["took"].is_u64() && task["restored"] == false;
    assert!(tasks.iter().all(is_timed), "{text}");
    assert!(looped["items"].as_array().unwrap().iter().all(|item| item["took"].is_u64()), "{looped}");
}

#[test]
fn report_page_needs_no_network_and_runs_nothing_of_hosts() {
    let project = Project::new();
    project.play(&[], false);
    let page = project.report("html");
    assert!(!page.contains("s3cret-of-the-vault") && !page.contains("hidden-by-no-log"));
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    let policy = page::check_policy(&page);
    assert!(page.contains(&format!("content=\"{policy}; form-action 'none'\"")), "{page}");
    let count = page::check_elements(&page, |address| address.starts_with('#'));
    assert!(count > 100, "{count}");
    assert!(page.contains("Fail &lt;b&gt;here"), "{page}");
    fs::write(project.path("report.html"), &page).unwrap();
    let Some(chromium) = page::chromium() else { return };
    let address = format!("file://{}", project.path("report.html").display());
    let opened = page::headless(&chromium, &project.path("browser"), &["--dump-dom", &address]);
    let rows = page.matches("class=\"row\"").count();
    assert!(opened.contains(&format!("{rows} shown")), "the script of the page did not run: {opened}");
    assert!(opened.contains("<title>site.yml: failed</title>"), "a script of a host ran: {opened}");
}

#[test]
fn report_in_markdown_keeps_hostile_text_in_blocks() {
    let project = Project::new();
    project.play(&[], false);
    let report = project.report("markdown");
    assert!(report.starts_with("# site.yml: failed\n"), "{report}");
    assert!(report.contains("| b | 5 | 3 | 0 | 1 | 1 | 0 | 1 |"), "{report}");
    assert!(report.contains("### b: Fail &lt;b\\>here&lt;/b\\> (failed)"), "{report}");
    assert!(!report.contains("s3cret-of-the-vault") && !report.contains('\u{202e}') && !report.contains('\u{1b}'));
    // The fence is longer than any in the text.
    assert!(report.contains("````\n"), "{report}");
    assert!(report.contains("## Slowest tasks") && report.contains("## Changes"), "{report}");
}

#[test]
fn report_as_junit_has_case_for_each_task_and_host() {
    let project = Project::new();
    project.play(&[], false);
    let report = project.report("junit");
    assert!(uppsala::parse(&report).is_ok(), "{report}");
    assert!(report.contains("errors=\"1\"") && report.contains("skipped=\"2\""), "{report}");
    assert!(report.contains("name=\"[b] Web servers: Fail &lt;b&gt;here&lt;/b&gt;\""), "{report}");
    assert!(!report.contains("s3cret-of-the-vault") && !report.contains('\u{202e}'));
}

#[test]
fn format_follows_name_of_file() {
    let project = Project::new();
    project.play(&[], false);
    for (name, start) in
        [("r.html", "<!DOCTYPE html>"), ("r.md", "# "), ("r.json", "{"), ("r.xml", "<?xml"), ("r", "# ")]
    {
        let output = project.run(&["report", "--output", name]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(fs::read_to_string(project.path(name)).unwrap().starts_with(start), "{name}");
    }
    let page = project.run(&["report", "--html"]);
    assert!(text(&page).starts_with("<!DOCTYPE html>"));
}

#[test]
fn directory_without_runs_needs_id() {
    let project = Project::new();
    let run = project.play(&[], false);
    let elsewhere = tempfile::tempdir().unwrap();
    let output = project.command(&["report"]).current_dir(elsewhere.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output).contains("no recorded run belongs to this directory"), "{}", text(&output));
    let output = project.command(&["report", &run]).current_dir(elsewhere.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let shown = project.run(&["runs", "show"]);
    assert!(text(&shown).contains(&run), "{}", text(&shown));
}

#[test]
fn runs_listed_for_this_directory_with_the_number_of_failed_hosts() {
    let project = Project::new();
    let hosts: String = (0..120).map(|number| format!("node{number:03} ansible_connection=local\n")).collect();
    fs::write(project.path("many"), hosts).unwrap();
    fs::write(project.path("fail.yml"), "- {hosts: all, gather_facts: false, tasks: [fail: {msg: no}]}\n").unwrap();
    assert_eq!(
        project.run(&["playbook", "-i", "many", "--vault-password-file", "pass", "fail.yml"]).status.code(),
        Some(2)
    );
    for words in [&["runs"][..], &["runs", "list"], &["runs", "--all"]] {
        let listed = text(&project.run(words));
        let line = listed.lines().find(|line| line.contains("fail.yml")).unwrap_or_else(|| panic!("{listed}"));
        assert!(line.contains("node000 and 119 more") && line.contains(" UTC ") && line.len() < 120, "{line}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let output = project.command(&["runs"]).current_dir(elsewhere.path()).output().unwrap();
    assert!(!text(&output).contains("fail.yml"), "{}", text(&output));
    let output = project.command(&["runs", "--all"]).current_dir(elsewhere.path()).output().unwrap();
    assert!(text(&output).contains("fail.yml"), "{}", text(&output));
}

#[test]
fn run_shown_with_messages_items_and_the_resuming_command() {
    let project = Project::new();
    let tasks = "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Program\n      \
                 shell: echo broken pipe >&2; exit 3\n      ignore_errors: true\n    - name: Items\n      fail: {msg: 'bad {{ item }}'}\n      \
                 loop: [x, y]\n";
    fs::write(project.path("bad.yml"), tasks).unwrap();
    fs::write(project.path("one"), "a ansible_connection=local\n").unwrap();
    assert_eq!(
        project.run(&["playbook", "-i", "one", "--vault-password-file", "pass", "bad.yml"]).status.code(),
        Some(2)
    );
    let shown = text(&project.run(&["runs", "show"]));
    assert!(shown.contains("(ignored): non-zero return code: broken pipe\n"), "{shown}");
    assert!(shown.contains(": item x: bad x\n"), "{shown}");
    let command = shown.lines().find_map(|line| line.strip_prefix("continue   ")).unwrap();
    assert!(command.starts_with("windlass playbook -i one --vault-password-file pass bad.yml --resume 2"), "{command}");

    let slow = "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Slow, shell: touch begun; sleep 60}\n";
    fs::write(project.path("slow.yml"), slow).unwrap();
    let mut child =
        project.command(&["playbook", "-i", "one", "--vault-password-file", "pass", "slow.yml"]).spawn().unwrap();
    while !project.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let page = text(&project.run(&["report", "--html"]));
    assert!(page.contains("Running now") && !page.contains("Without an answer"), "{page}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(99));
    let shown = text(&project.run(&["runs", "show"]));
    assert!(shown.contains("stopped at\n  a: 'Slow' (") && shown.contains("--resume 2"), "{shown}");
}

#[test]
fn report_of_an_unknown_extension_refused() {
    let project = Project::new();
    project.play(&[], false);
    let refused = project.run(&["report", "--output", "run.pdf"]);
    assert!(!refused.status.success() && !project.path("run.pdf").exists());
    assert!(text(&refused).contains("no format of a report has names that end in `.pdf`"), "{}", text(&refused));
}

#[test]
fn events_of_a_run_that_cannot_load_name_the_error() {
    let project = Project::new();
    fs::write(project.path("broken.yml"), "- hosts: all\n  tusks: []\n").unwrap();
    let run = project.run(&["playbook", "-i", "hosts", "broken.yml", "--events", "events"]);
    assert!(!run.status.success());
    let lines: Vec<Value> = fs::read_to_string(project.path("events"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let error = lines.iter().find(|line| line["event"] == "error").unwrap_or_else(|| panic!("{lines:?}"));
    assert!(error["message"].as_str().unwrap().contains("tusks"), "{error}");
    assert!(error["place"].as_str().unwrap().contains("broken.yml:2"), "{error}");
    assert_eq!(lines.last().unwrap()["event"], "end");
}

#[test]
fn journal_of_earlier_release_has_report_without_times() {
    let project = Project::new();
    project.play(&[], false);
    let path = project.journal();
    let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(without_new_fields).collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let report: Value = serde_json::from_str(&project.report("json")).unwrap();
    assert!(report["tasks"][0]["start"].is_null() && report["tasks"].as_array().unwrap().len() > 10);
    let page = project.report("html");
    assert!(page::check_elements(&page, |address| address.starts_with('#')) > 100);
    assert!(!page.contains("Timeline"), "nothing is known about times");
    let refused = project.run(&["runs", "rerun"]);
    assert!(text(&refused).contains("an earlier release wrote it"), "{}", text(&refused));
}

fn without_new_fields(line: &str) -> String {
    let mut record: Value = serde_json::from_str(line).unwrap();
    for key in ["start", "took", "report", "whole", "directory"] {
        record.as_object_mut().unwrap().remove(key);
    }
    record.to_string()
}

#[test]
fn diff_of_runs_names_changed_results_and_inputs() {
    let project = Project::new();
    let first = project.play(&[], false);
    project.write("site.yml", &PLAYBOOK.replace("- name: Nothing to do", "- name: Something else"));
    let second = project.play(&["-e", "new=1"], true);
    let output = project.run(&["runs", "diff", &first, &second]);
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let has = |host: &str, a: &str, b: &str, task: &str| {
        shown.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.starts_with(&[host, a, b]) && line.contains(task)
        })
    };
    assert!(has("b", "failed", "changed", "Fail <b>here</b>"), "{shown}");
    assert!(has("a", "changed", "ok", "Write the configuration"), "{shown}");
    assert!(has("a", "skipped", "-", "Nothing to do") && has("a", "-", "skipped", "Something else"), "{shown}");
    assert!(shown.contains("site.yml: has changed") && shown.contains("`new`: only in the second run"), "{shown}");
    let json = project.run(&["runs", "diff", &first, &second, "--format", "json"]);
    let json: Value = serde_json::from_str(&text(&json)).unwrap();
    assert_eq!(json["a"], first.as_str());
    let same = project.run(&["runs", "diff", &first, &first]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same));
}

#[test]
fn rerun_repeats_command_on_failed_hosts() {
    let project = Project::new();
    let first = project.play(&["-l", "a,b"], false);
    let dry = project.run(&["runs", "rerun", &first, "--failed", "--dry-run"]);
    let expected = "windlass playbook -i hosts --vault-password-file pass --diff site.yml -l a,b --limit b\n";
    assert_eq!(String::from_utf8_lossy(&dry.stdout), expected);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut again = project.command(&["runs", "rerun", &first, "--failed"]);
    let again = again.current_dir(elsewhere.path()).env("GOOD", "1").output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));
    let report: Value = serde_json::from_str(&project.report("json")).unwrap();
    let hosts: Vec<&Value> = report["hosts"].as_array().unwrap().iter().map(|host| &host["host"]).collect();
    assert_eq!((hosts, &report["limit"]), (vec![&Value::from("b")], &"b".into()));
    let none = project.run(&["runs", "rerun", "--failed"]);
    assert!(text(&none).contains("none of its hosts failed"), "{}", text(&none));
}

#[test]
fn rerun_without_an_id_asks_a_terminal_which_run_it_repeats() {
    let project = Project::new();
    let first = project.play(&[], false);
    for (keys, has_run) in [("\r", false), ("y\r", true)] {
        let mut command = project.command(&["runs", "rerun"]);
        // Handlers of the failed host wait, which is another question.
        command.env("WINDLASS_PENDING_HANDLERS", "skip");
        let mut screen = crate::screen::Screen::start(command, 60, 200);
        screen.wait_for_last("Repeat this run? (y/N)");
        screen.wait_for(&format!("run {first} of 2"));
        screen.press(keys);
        let rows = screen.end().rows.join("\n");
        assert_eq!(rows.contains("PLAY RECAP"), has_run, "{rows}");
        assert_eq!(rows.contains("nothing was run"), !has_run, "{rows}");
    }
}

#[test]
fn rerun_refused_if_journal_lacks_arguments_or_others_may_have_written_it() {
    let project = Project::new();
    project.play(&["-e", "answer=42"], false);
    let refused = project.run(&["runs", "rerun"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(text(&refused).contains("secrets or extra variables"), "{}", text(&refused));
    project.play(&[], false);
    let path = project.journal();
    // The end of a run lists hosts, whose names may come from hosts.
    let hostile = fs::read_to_string(&path).unwrap().replace("\"failed\":[\"b\"]", "\"failed\":[\"@/etc/hostname\"]");
    fs::write(&path, hostile).unwrap();
    let refused = project.run(&["runs", "rerun", "--failed"]);
    assert!(text(&refused).contains("is not a name that a limit takes"), "{}", text(&refused));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let refused = project.run(&["runs", "rerun"]);
    assert!(text(&refused).contains("another user may have written it"), "{}", text(&refused));
}

#[test]
fn prune_keeps_newest_runs() {
    let project = Project::new();
    for _ in 0..3 {
        project.play(&[], true);
    }
    let runs = project.runs();
    let dry = project.run(&["runs", "prune", "--keep", "1", "--dry-run"]);
    assert!(text(&dry).contains("2 runs would be removed"), "{}", text(&dry));
    assert_eq!(project.runs(), runs);
    let none = project.run(&["runs", "prune", "--older-than", "1h"]);
    assert!(text(&none).contains("0 runs removed"), "{}", text(&none));
    let pruned = project.run(&["runs", "prune", "--keep", "1"]);
    assert!(text(&pruned).contains("2 runs removed"), "{}", text(&pruned));
    assert_eq!(project.runs(), runs[2..]);
}

/// Events in a text, one a line.
fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn events_follow_run_from_start_to_exit_code() {
    let project = Project::new();
    let run = project.play(&["--events", "events.jsonl"], false);
    let text = fs::read_to_string(project.path("events.jsonl")).unwrap();
    assert!(!text.contains("s3cret-of-the-vault") && !text.contains("hidden-by-no-log"), "{text}");
    assert!(!text.contains('\u{202e}'));
    let events = events(&text);
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    assert_eq!((&events[0]["event"], &events[0]["version"]), (&"start".into(), &1.into()));
    assert_eq!(of("journal")[0]["run"], run.as_str());
    assert_eq!(of("play")[0]["name"], "Web servers");
    let failed =
        of("result").into_iter().find(|event| event["status"] == "failed" && event["ignored"] == false).unwrap();
    assert_eq!(failed["host"], "b");
    let task = of("task").into_iter().find(|event| event["task"] == failed["task"]).unwrap();
    assert_eq!(task["name"], "Fail <b>here</b>");
    assert_eq!(failed["result"]["stdout"], HOSTILE);
    assert_eq!(of("item").len(), 6);
    assert_eq!(of("recap")[0]["hosts"]["b"]["failures"], 1);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["code"]), (&"end".into(), &2.into()));
}

#[test]
fn events_go_to_inherited_descriptor() {
    let project = Project::new();
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        crate::ran::wrap(command.args(["-c", script, "sh"]).stdin(Stdio::null()), &project.command(&[]));
        command.output().unwrap()
    };
    let adhoc = "\"$1\" adhoc -i hosts --vault-password-file pass all -m ping --events 3";
    let piped = shell(&format!("{{ {adhoc} 3>&1 >/dev/null; }} | cat"));
    let lines = events(&String::from_utf8_lossy(&piped.stdout));
    assert_eq!(lines.iter().filter(|event| event["event"] == "result").count(), 2, "{lines:?}");
    assert_eq!(lines.last().unwrap()["code"], 0);
    // A reader that goes away does not stop the run.
    let closed = shell(&format!("{{ {adhoc} 3>&1 >done; echo $? >code; }} | true"));
    assert_eq!(fs::read_to_string(project.path("code")).unwrap(), "0\n", "{}", text(&closed));
    assert_eq!(fs::read_to_string(project.path("done")).unwrap().matches("SUCCESS").count(), 2);
    let missing = shell(&format!("{adhoc} 3>&-"));
    assert_eq!(missing.status.code(), Some(5));
    assert!(text(&missing).contains("--events cannot write to descriptor 3"), "{}", text(&missing));
}

#[test]
fn full_disk_loses_events_and_the_success() {
    let project = Project::new();
    let output = project.run(&[
        "adhoc",
        "-i",
        "hosts",
        "--vault-password-file",
        "pass",
        "all",
        "-m",
        "ping",
        "--events",
        "/dev/full",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("the stream of events cannot be written"), "{}", text(&output));
    assert_eq!(text(&output).matches("SUCCESS").count(), 2);
}

#[test]
fn file_named_instead_of_run_is_called_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["report", "--html", "out.html"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(error.contains("`out.html` is the name of a file and not of a run"), "{error}");
    assert!(error.contains("write to a file with --output: `windlass report --output out.html`"), "{error}");
}
