//! `loop_control.parallel`: items of a loop run in parallel, within their limits, with the same results as one by one.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ran::Ran;

/// A project whose hosts are all this machine.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(tasks: &str) -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        project.write("hosts", "a\n[all:vars]\nansible_connection=local\n");
        project.write("play.yml", &format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}"));
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text.replace("FOLDER", &self.folder.path().display().to_string())).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["playbook", "-i", "hosts", "play.yml"]).args(words);
        crate::project::enter(&mut command, self.folder.path());
        command.env("WINDLASS_PENDING_HANDLERS", "skip");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).output().unwrap();
        Ran::of(&output)
    }

    /// Items in the newest journal, in the order in which they were recorded.
    fn items(&self) -> Vec<Value> {
        let mut files: Vec<_> =
            fs::read_dir(self.path("state/runs")).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
        files.sort();
        let text = files.pop().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["t"] == "item").collect()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let mut lines: Vec<String> =
            fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// A task whose items record how many of them run on all hosts.
fn counted(keywords: &str) -> String {
    let busy = "FOLDER/busy/{{ inventory_hostname }}-{{ item }}";
    format!(
        "    - shell: flock FOLDER/lock sh -c 'mkdir -p {busy}; ls FOLDER/busy | wc -l >> FOLDER/counts'; sleep 0.05; flock FOLDER/lock rmdir {busy}\n      \
         loop: [1, 2, 3, 4, 5, 6, 7, 8]\n{keywords}"
    )
}

/// Runs that task and checks that no more than `most` items ran in parallel.
#[track_caller]
fn counts(project: &Project, most: usize, words: &[&str]) {
    project.run(words).ends(0);
    let counts: Vec<usize> = project.lines("counts").iter().map(|line| line.trim().parse().unwrap()).collect();
    assert!(counts.len() >= 8 && counts.iter().all(|count| *count <= most), "{most}: {counts:?}");
}

/// A task whose three items end only when all of them have begun, the first one last.
const TOGETHER: &str = "    - shell: touch FOLDER/at-{{ item }}; n=0; while [ $(ls FOLDER | grep -c ^at-) -lt 3 ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1; done; if [ {{ item }} = 1 ]; then sleep 0.5; fi; echo {{ item }}\n      loop: [1, 2, 3]\n      loop_control: {parallel: 3, index_var: number, label: 'label {{ item }}'}\n      register: all\n    - debug: {msg: \"{{ all.results | map(attribute='stdout') | join('-') }} {{ all.results | map(attribute='number') | join('-') }}\"}\n";

#[test]
fn extended_loop_without_items_is_skipped() {
    let project = Project::new(
        "    - command: 'false'\n      loop: []\n      loop_control: {extended: true}\n    - debug: {msg: reached}\n",
    );
    project.run(&[]).ends(0).has("skipped=1").has("reached");
}

#[test]
fn items_run_at_once_and_results_keep_their_order() {
    let project = Project::new(TOGETHER);
    project.run(&[]).ends(0).has("1-2-3 0-1-2").has("(item=label 2)");
    let items = project.items();
    let number = |item: &Value, name: &str| item[name].as_u64().unwrap();
    assert_eq!(items.len(), 3, "{items:?}");
    assert_eq!(number(&items[2], "index"), 0, "an item is recorded when it ends: {items:?}");
    let last_start = items.iter().map(|item| number(item, "start")).max().unwrap();
    let first_end = items.iter().map(|item| number(item, "start") + number(item, "took")).min().unwrap();
    assert!(last_start < first_end, "each item runs while all others do: {items:?}");
}

#[test]
fn items_of_a_loop_without_the_keyword_do_not_run_at_once() {
    counts(&Project::new(&counted("")), 1, &[]);
    counts(&Project::new(&counted("      loop_control: {parallel: 1}\n")), 1, &[]);
}

#[test]
fn no_more_items_than_parallel_run_at_once() {
    counts(&Project::new(&counted("      loop_control: {parallel: \"{{ 2 + 1 }}\"}\n")), 3, &[]);
}

#[test]
fn forks_and_throttle_count_items_of_all_hosts() {
    let hosts = "a\nb\nc\n[all:vars]\nansible_connection=local\n";
    for (keywords, words) in [
        ("      loop_control: {parallel: 5}\n", &["-f", "3"][..]),
        ("      loop_control: {parallel: 5}\n      throttle: 3\n", &[]),
        ("      loop_control: {parallel: 5}\n      throttle: 3\n", &["--shards", "2"]),
    ] {
        let project = Project::new(&counted(keywords));
        project.write("hosts", hosts);
        counts(&project, 3, words);
    }
    let project = Project::new(&counted("      loop_control: {parallel: 5}\n      throttle: 2\n"));
    project.write("hosts", hosts);
    let play = fs::read_to_string(project.path("play.yml")).unwrap();
    project.write("play.yml", &play.replace("  gather_facts", "  strategy: free\n  gather_facts"));
    counts(&project, 2, &[]);
}

#[test]
fn several_processes_run_items_at_once() {
    let project = Project::new(TOGETHER);
    project.write("hosts", "a\nb\n[all:vars]\nansible_connection=local\n");
    let play = fs::read_to_string(project.path("play.yml")).unwrap();
    project.write("play.yml", &play.replace("hosts: all", "hosts: b"));
    project.run(&["--shards", "2"]).ends(0).has("1-2-3 0-1-2");
}

#[test]
fn failed_item_does_not_stop_the_others() {
    let task = "    - shell: echo {{ item }} >> FOLDER/log; test {{ item }} != 2\n      loop: [1, 2, 3, 4]\n      loop_control: {parallel: 2}\n      register: all\n      notify: note\n";
    let handlers = "  handlers:\n    - {name: note, debug: {msg: notified}}\n";
    let project = Project::new(&format!("{task}{handlers}"));
    project.run(&[]).ends(2).has("failed=1").lacks("notified");
    assert_eq!(project.lines("log"), ["1", "2", "3", "4"]);
    let after =
        "      ignore_errors: true\n    - debug: {msg: \"{{ all.results | map(attribute='failed') | join('-') }}\"}\n";
    Project::new(&format!("{task}{after}{handlers}")).run(&[]).ends(0).has("False-True-False-False");
    let judged = "      failed_when: all.rc != 0 and item != 2\n      changed_when: item == 3\n    - debug: {msg: \"{{ all.results | map(attribute='changed') | join('-') }}\"}\n";
    let ran = Project::new(&format!("{task}{judged}{handlers}")).run(&[]);
    ran.ends(0).has("False-False-True-False").has("notified");
}

#[test]
fn each_item_is_repeated_until_its_own_condition_holds() {
    let task = "    - shell: echo x >> FOLDER/tries-{{ item }}; wc -l < FOLDER/tries-{{ item }}\n      loop: [1, 2, 3]\n      loop_control: {parallel: 3}\n      register: all\n      until: all.stdout | int >= item\n      retries: 5\n      delay: 0\n    - debug: {msg: \"{{ all.results | map(attribute='attempts') | join('-') }}\"}\n";
    Project::new(task).run(&[]).ends(0).has("1-2-3");
}

#[test]
fn items_may_be_delegated_and_hidden() {
    let task = TOGETHER.replace(
        "      register: all\n",
        "      register: all\n      delegate_to: host{{ item }}\n      no_log: true\n",
    );
    let project = Project::new(&task);
    project.write("hosts", "a\nhost[1:3]\n[all:vars]\nansible_connection=local\n");
    let play = fs::read_to_string(project.path("play.yml")).unwrap();
    project.write("play.yml", &play.replace("hosts: all", "hosts: a"));
    project.run(&[]).ends(0).has("[a -> host3").has("1-2-3").lacks("label 2");
}

#[test]
fn check_mode_predicts_each_item() {
    let task = "    - file: {path: 'FOLDER/made-{{ item }}', state: directory}\n      loop: [1, 2, 3]\n      loop_control: {parallel: 3}\n      register: all\n    - debug: {msg: \"{{ all.results | map(attribute='changed') | join('-') }}\"}\n";
    let project = Project::new(task);
    project.run(&["--check"]).ends(0).has("True-True-True");
    assert!(!project.path("made-1").exists());
    project.run(&[]).ends(0).has("True-True-True");
    project.run(&["--check"]).ends(0).has("False-False-False");
}

#[test]
fn resumed_run_repeats_only_items_without_an_outcome() {
    let task = "    - name: items\n      shell: 'if [ {{ item }} = 2 ] && [ -e FOLDER/block ]; then sleep 600; fi; echo {{ item }} >> FOLDER/log'\n      loop: [1, 2, 3, 4]\n      loop_control: {parallel: 2}\n      register: all\n    - debug: {msg: \"{{ all.results | map(attribute='item') | join('-') }}\"}\n";
    let project = Project::new(task);
    project.write("block", "");
    let mut child = project.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while project.items().len() < 3 {
        assert!(Instant::now() < end, "the other items do not end: {:?}", project.items());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(project.path("block")).unwrap();
    let ran = project.run(&["--resume"]);
    ran.ends(0).has("It runs again without the 3 items of its loop that have an outcome.").has("1-2-3-4");
    ran.has("(item=2)").lacks("(item=3)");
    assert_eq!(project.lines("log"), ["1", "2", "3", "4"]);
}

#[test]
fn loops_that_cannot_have_parallel_items_are_refused_before_the_run() {
    let control = "      loop: [1]\n      loop_control: {parallel: 2}\n";
    for (task, says) in [
        (
            format!("    - set_fact: {{x: 1}}\n{control}"),
            "`loop_control.parallel` is not possible with the action `set_fact`",
        ),
        (format!("    - ansible.builtin.debug: {{msg: x}}\n{control}"), "with the action `ansible.builtin.debug`"),
        (format!("    - include_tasks: x.yml\n{control}"), "with the action `include_tasks`"),
        (format!("    - include_role: {{name: x}}\n{control}"), "with the action `include_role`"),
        (format!("    - action: '{{{{ name }}}}'\n{control}"), "it is known only when the task runs"),
        (
            "    - ping:\n      loop: [1]\n      loop_control: {parallel: 2, pause: 1}\n".to_owned(),
            "`loop_control` has `parallel` and `pause`, which needs items one after the other",
        ),
        (
            "    - ping:\n      loop: [1]\n      loop_control: {parallel: 0}\n".to_owned(),
            "`loop_control.parallel` must be a whole number from 1 to 64, not '0'",
        ),
        ("    - block: [ping: ]\n      parallel: true\n".to_owned(), "'parallel' is not a valid attribute"),
    ] {
        let project = Project::new(&format!("    - file: {{path: FOLDER/ran, state: touch}}\n{task}"));
        let ran = project.run(&[]);
        assert_eq!(ran.code, Some(4), "{task}\n{}", ran.text);
        ran.has(says).has("play.yml:");
        assert!(!project.path("ran").exists(), "{task}");
    }
    let task = "    - ping:\n      loop: [1]\n      loop_control: {parallel: '{{ 1 / 2 }}'}\n";
    Project::new(task).run(&[]).ends(2).has("`loop_control.parallel` must be a whole number from 1 to 64, not 0.5");
}

#[test]
fn items_that_wait_for_a_connection_share_its_failure() {
    let attempts = |control: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        // The thread ends with the program. A server that says nothing is a host that cannot be reached.
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().flatten() {
                counting.fetch_add(1, Ordering::SeqCst);
                held.push(stream);
            }
        });
        let project = Project::new(&format!("    - ping:\n      loop: [1, 2, 3, 4, 5, 6]\n{control}"));
        project.write("hosts", &format!("a ansible_host=127.0.0.1 ansible_port={port}\n"));
        let ran = project.run(&["-T", "2"]);
        ran.ends(4).has("unreachable=1");
        (count.load(Ordering::SeqCst), ran.text.matches("UNREACHABLE!").count())
    };
    let (alone, of_one) = attempts("");
    let (together, of_four) = attempts("      loop_control: {parallel: 4}\n");
    assert_eq!((together, of_one, of_four), (alone, 1, 4));
}
