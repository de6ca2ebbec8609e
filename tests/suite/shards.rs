//! A run in several processes does what one process does, and each task runs once on each host.

mod hostile;
mod lost;
mod stopped;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_vault::Secret;

/// Hosts that are all this machine. With three processes, each has some of them.
const HOSTS: &str = "[web]\nweb[1:8]\n[db]\ndb[1:4]\n[all:vars]\nansible_connection=local\n";

/// A project with its own state directory.
struct Project {
    folder: TempDir,
}

impl Project {
    fn new(playbook: &str) -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        project.write("hosts", HOSTS);
        project.write("play.yml", playbook);
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text.replace("FOLDER", &self.folder.path().display().to_string())).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["playbook", "-i", "hosts", "play.yml"]).args(words).current_dir(self.folder.path());
        command.env("HOME", self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        command.env_remove("WINDLASS_JOURNAL_DIR").env("WINDLASS_PENDING_HANDLERS", "skip").env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Process ids of the workers of this project's run.
    fn workers(&self) -> Vec<i32> {
        let is_worker = |line: &[u8]| line.windows(11).any(|part| part == b"--shard-of=");
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let directory = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if is_worker(&line) && directory == self.folder.path() {
                found.push(pid);
            }
        }
        found
    }

    /// Lines of a file that tasks have appended to, sorted.
    fn lines(&self, name: &str) -> Vec<String> {
        let mut lines: Vec<_> =
            fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Constructs that look at several hosts or change the run.
const MIXED: &str = r#"
- hosts: all
  gather_facts: false
  serial: [5, 100]
  tasks:
    - command: echo {{ inventory_hostname }}
      register: name
      changed_when: inventory_hostname is search('1')
      notify: handler
    - debug: {msg: "{{ ansible_play_batch | map('extract', hostvars, ['name', 'stdout']) | join(' ') }}"}
    - set_fact: {numbers: "{{ {1: 'one', 'two': [1.5, true, none]} }}"}
    - command: echo once
      run_once: true
      register: once
    - command: echo {{ item }}
      loop: [a, b]
      register: loop
      loop_control: {label: "label {{ item }}"}
    - assert: {that: ["loop.results[1].stdout == 'b'", "numbers[1] == 'one'", "once.stdout == 'once'"], quiet: true}
    - command: "false"
      when: inventory_hostname == 'web3'
    - block:
        - command: "false"
          when: inventory_hostname in ['db2', 'web5']
      rescue:
        - debug: {msg: "rescued {{ ansible_failed_result.rc }}"}
      always:
        - debug: {msg: "{{ ansible_play_hosts | join(' ') }}"}
    - include_tasks: included.yml
    - add_host: {name: "new-{{ inventory_hostname }}", groups: added, from: "{{ inventory_hostname }}"}
    - group_by: {key: "kind_{{ inventory_hostname[:2] }}"}
    - set_stats: {data: {count: 1}, aggregate: true}
    - command: echo delegated to {{ ansible_host }}
      delegate_to: "{{ groups.db[0] }}"
  handlers:
    - name: handler
      debug: {msg: "handled {{ inventory_hostname }}"}
- hosts: kind_we
  gather_facts: true
  gather_subset: [min]
  tasks:
    - debug: {msg: "{{ ansible_facts.system }} {{ groups.added | map('extract', hostvars, 'from') | join(' ') }}"}
    - command: "false"
      register: tried
      until: tried.rc == 0
      retries: 1
      delay: 0
      ignore_errors: true
    - meta: end_host
      when: inventory_hostname == 'web4'
    - debug: {msg: "{{ hostvars.db1.name.stdout }} {{ numbers.two[0] }}"}
  max_fail_percentage: 50
"#;

/// Printed output without times.
fn without_times(text: &str) -> String {
    let times = regex::Regex::new(r#""(delta|end|start)": "[^"]*""#).unwrap();
    times.replace_all(text, "").into_owned()
}

#[test]
fn several_processes_print_what_one_does() {
    let project = Project::new(MIXED);
    project.write("included.yml", "- debug: {msg: 'included'}\n  when: inventory_hostname != 'web2'\n");
    // One host at a time, so that results have an order.
    let one = project.run(&["-f", "1"]);
    let several = project.run(&["-f", "1", "--shards", "3"]);
    assert_eq!(without_times(&stdout(&several)), without_times(&stdout(&one)), "{}", stderr(&several));
    assert_eq!((several.status.code(), one.status.code()), (Some(2), Some(2)));
    assert!(!stderr(&several).contains("process"), "{}", stderr(&several));
    assert!(project.workers().is_empty(), "nothing is left running");
}

#[test]
fn throttle_counts_the_hosts_of_all_processes() {
    let project = Project::new(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: mkdir FOLDER/busy && sleep 0.02 && rmdir FOLDER/busy\n      throttle: 1\n",
    );
    let output = project.run(&["--shards", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn secret_that_only_a_worker_decrypts_is_masked() {
    let project = Project::new(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: echo {{ token }}\n    - fail: {msg: 'bad {{ token }}'}\n",
    );
    let token = windlass_vault::encrypt(b"harbour-7", &Secret::new("default", "sesame")).unwrap();
    let token = token.trim().replace('\n', "\n  ");
    project.write("password", "sesame\n");
    fs::create_dir_all(project.path("group_vars")).unwrap();
    project.write("group_vars/all.yml", &format!("token: !vault |\n  {token}\n"));
    let output = project.run(&["--shards", "3", "--vault-password-file", "password", "-vvv"]);
    let text = stdout(&output) + &stderr(&output);
    assert!(text.contains("bad ********") && !text.contains("harbour-7"), "{text}");
}

#[test]
fn worker_that_takes_another_path_is_left_out() {
    // The condition holds in workers alone.
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - include_tasks: other.yml
      when: lookup('pipe', 'tr "\\0" " " < /proc/$PPID/cmdline') is search('--shard-of')
    - shell: echo {{ inventory_hostname }} >> FOLDER/ran
"#,
    );
    project.write("other.yml", "- shell: echo other >> FOLDER/ran\n");
    let output = project.run(&["--shards", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("was left out: the run is at"), "{}", stderr(&output));
    let hosts: Vec<_> = (1..=4).map(|n| format!("db{n}")).chain((1..=8).map(|n| format!("web{n}"))).collect();
    assert_eq!(project.lines("ran"), hosts, "every host once, and the other path nowhere");
}

#[test]
fn no_task_runs_twice_after_a_worker_is_asked_to_end() {
    // Only root sees the directories of workers, which are not dumpable.
    if !windlass_testing::has("root") {
        return;
    }
    let project = Project::new(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: echo {{ inventory_hostname }} >> FOLDER/begun; sleep 5\n",
    );
    let child = project.start(&["--shards", "3", "-f", "12"]);
    wait_until("the task has begun everywhere", || project.lines("begun").len() == 12);
    kill(project.workers()[0], rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(project.lines("begun").len(), 12, "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(4), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn items_completed_before_a_worker_was_lost_do_not_run_again() {
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - shell: echo {{ inventory_hostname }} {{ item }} >> FOLDER/ran; test {{ item }} != c || until test -e FOLDER/open; do sleep 0.1; done
      loop: [a, b, c, d]
"#,
    );
    let mut child = project.start(&["--shards", "3"]);
    wait_until("the third item has begun everywhere", || project.lines("ran").len() == 36);
    // The journal has the items before it.
    std::thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("workers outlive the run", || project.workers().is_empty());
    project.write("open", "");
    let output = project.run(&["--shards", "3", "--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let ran = project.lines("ran");
    for item in ["a", "b", "c", "d"] {
        assert_eq!(ran.iter().filter(|line| line.ends_with(item)).count(), 12, "{item} ran once on every host");
    }
}

/// Kills a run in which this many lines have been written, and waits for its workers.
fn kill_at(project: &Project, lines: usize, words: &[&str]) {
    let mut child = project.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the task has begun everywhere", || project.lines("ran").len() == lines);
    // The journal is written at least once a second.
    std::thread::sleep(Duration::from_millis(1500));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("workers end with the run", || project.workers().is_empty());
}

#[test]
fn task_whose_result_hosts_do_not_keep_is_unknown_after_a_resume_and_runs_once() {
    let shell = "echo {{ inventory_hostname }} >> FOLDER/ran; until test -e FOLDER/open; do sleep 0.1; done";
    for task in [format!("raw: {shell}"), format!("shell: {shell}\n      async: 60\n      poll: 1")] {
        let project = Project::new(&format!("- hosts: db\n  gather_facts: false\n  tasks:\n    - {task}\n"));
        kill_at(&project, 4, &["--shards", "2"]);
        project.write("open", "");
        let resumed = project.run(&["--shards", "2", "--resume"]);
        let text = stdout(&resumed) + &stderr(&resumed);
        assert_eq!((resumed.status.code(), project.lines("ran").len()), (Some(4), 4), "{task}: {text}");
        assert!(text.contains("It is unknown whether the task ran on db1"), "{text}");
        // The user knows it now.
        let again = project.run(&["--shards", "2", "--resume"]);
        assert_eq!((again.status.code(), project.lines("ran").len()), (Some(0), 8), "{}", stderr(&again));
    }
}

/// A task that fails without the file `good`, and otherwise runs until the file `open` exists.
const TRIED: &str = "- hosts: db\n  gather_facts: false\n  tasks:\n    - shell: echo {{ inventory_hostname }} >> FOLDER/ran; \
                     test -e FOLDER/good || exit 1; until test -e FOLDER/open; do sleep 0.1; done\n";

#[test]
fn result_of_a_resumed_run_is_taken_over_although_the_first_run_has_a_failure() {
    let project = Project::new(TRIED);
    assert_eq!(project.run(&["--shards", "2"]).status.code(), Some(2));
    project.write("good", "");
    kill_at(&project, 8, &["--shards", "2", "--resume"]);
    project.write("open", "");
    let resumed = project.run(&["--shards", "2", "--resume"]);
    let text = stdout(&resumed) + &stderr(&resumed);
    assert_eq!((resumed.status.code(), project.lines("ran").len()), (Some(0), 8), "{text}");
    assert!(text.contains("was sent before the run stopped"), "{text}");
}

#[test]
fn task_that_one_process_had_sent_runs_again_with_a_warning() {
    let project = Project::new(TRIED);
    project.write("good", "");
    kill_at(&project, 4, &["--shards", "2"]);
    kill_at(&project, 8, &["--shards", "1", "--resume"]);
    project.write("open", "");
    let resumed = project.run(&["--shards", "2", "--resume"]);
    let text = stdout(&resumed) + &stderr(&resumed);
    assert_eq!((resumed.status.code(), project.lines("ran").len()), (Some(0), 12), "{text}");
    assert!(text.contains("may have run already. It runs again"), "{text}");
}

#[test]
fn inputs_that_only_the_first_process_can_read_are_those_of_all_hosts() {
    let project = Project::new(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: echo {{ word | default('none') }} >> FOLDER/ran\n",
    );
    project.write("words", "{word: given}\n");
    let words = fs::File::open(project.path("words")).unwrap();
    let output = project.command(&["--shards", "3", "-e", "@/dev/stdin"]).stdin(words).output().unwrap();
    assert_eq!(project.lines("ran"), vec!["given"; 12], "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("it has read other variables"), "{}", stderr(&output));
}

#[test]
fn values_keep_their_types_in_all_processes() {
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - set_fact: {deep: "{{ ('[' * 200 ~ ']' * 200) | from_json }}"}
    - set_fact: {when: "{{ '2026-11-28' | to_datetime('%Y-%m-%d') }}", least: "{{ '-inf' | float }}"}
    - assert: {that: ["(hostvars.web1.when - hostvars.db1.when).days == 0", "hostvars.web2.least < 0"], quiet: true}
"#,
    );
    let output = project.run(&["--shards", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(!stderr(&output).contains("the run goes on in one process"), "{}", stderr(&output));
}

#[test]
fn large_results_of_loops_are_complete_in_all_processes() {
    // Above 32 MiB for a host, large values are on disk.
    let project = Project::new(
        r#"- hosts: web
  gather_facts: false
  tasks:
    - shell: "head -c 12000000 /dev/zero | tr '\\0' {{ item }}"
      loop: [a, b, c, d]
      register: large
      no_log: true
      when: inventory_hostname in ['web1', 'web2', 'web3']
    - assert:
        that: "hostvars[item].large.results | map(attribute='stdout') | map('length') | unique | list == [12000000]"
        quiet: true
      loop: [web1, web2, web3]
"#,
    );
    let output = project.run(&["--shards", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn no_task_runs_twice_beside_a_value_that_cannot_be_sent() {
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - action: "{{ 'set_fact' if is_class else 'shell' }}"
      args: "{{ {'kind': ''.__class__} if is_class else {'cmd': command} }}"
      vars:
        is_class: "{{ inventory_hostname == class_of }}"
        command: "echo {{ inventory_hostname }} >> FOLDER/ran; sleep 2"
    - set_fact: {"kind_{{ item }}": "{{ ''.__class__ if item == 2 else item }}"}
      loop: [1, 2]
"#,
    );
    // One of these two hosts, at least, is of a worker.
    for host in ["web1", "db1"] {
        let output = project.run(&["--shards", "3", "--compat", "2.18", "-e", &format!("class_of={host}")]);
        let text = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("the run goes on in one process: a class"), "{text}");
        let mut ran = project.lines("ran");
        ran.sort_unstable();
        ran.dedup();
        assert_eq!((ran.len(), project.lines("ran").len()), (11, 11), "each other host once: {text}");
        assert_eq!(text.matches("=> (item=1)").count(), 12, "each item is reported once: {text}");
        fs::remove_file(project.path("ran")).unwrap();
    }
}

#[test]
fn what_belongs_to_a_result_reaches_all_processes() {
    let project = Project::new(
        r#"- hosts: web
  gather_facts: false
  tasks:
    - block:
        - shell: exit 1
          args: {chdir: "/{{ 'tmp' }}"}
      rescue:
        - assert: {that: "hostvars[item].ansible_failed_task.args.chdir == '/tmp'", quiet: true}
          loop: "{{ groups.web }}"
    - plain:
    - assert: {that: "'discovered_interpreter_python' in hostvars[item].ansible_facts", quiet: true}
      loop: "{{ groups.web }}"
    - set_fact: {written: plain}
      run_once: true
    - assert: {that: "written | type_debug == 'AnsibleUnicode'", quiet: true}
"#,
    );
    fs::create_dir(project.path("library")).unwrap();
    project.write("library/plain.py", "#!/usr/bin/python\n# WANT_JSON\nprint('{\"changed\": false}')\n");
    let output = project.run(&["--shards", "3", "--compat", "2.18"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(!stderr(&output).contains("process"), "{}", stderr(&output));
}

#[test]
fn facts_of_a_host_are_the_same_in_all_processes() {
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - odd:
    - assert: {that: ["hostvars[item].colour == 'blue'", "hostvars[item].ansible_facts.other == 'y'"], quiet: true}
      loop: "{{ groups.all }}"
    - command: echo {{ groups.all | map('extract', hostvars, 'colour') | unique | join }}
      register: seen
    - assert: {that: "seen.stdout == 'blue'", quiet: true}
"#,
    );
    for folder in ["library", "group_vars"] {
        fs::create_dir(project.path(folder)).unwrap();
    }
    project.write("group_vars/all.yml", "colour: blue\n");
    let answer = r#"{"changed": false, "ansible_facts": {"\u0000keyed": [["colour", "red"]], "other": "y"}}"#;
    project.write("library/odd", &format!("#!/bin/sh\n# WANT_JSON\ncat <<'END'\n{answer}\nEND\n"));
    let output = project.run(&["--shards", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn workers_end_with_the_first_process() {
    // Only root sees the directories of workers, which are not dumpable.
    if !windlass_testing::has("root") {
        return;
    }
    let project = Project::new(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: echo >> FOLDER/begun; sleep 60; touch FOLDER/late\n",
    );
    let mut child = project.start(&["--shards", "3"]);
    wait_until("the task has begun everywhere", || project.lines("begun").len() == 12);
    assert_eq!(project.workers().len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("workers outlive the run", || project.workers().is_empty());
    assert!(!Path::new(&project.path("late")).exists());
}

#[test]
fn what_several_processes_would_change_is_refused() {
    let play = |keyword: &str| format!("- hosts: all\n  {keyword}\n  tasks: []\n");
    let cases = [
        (play("strategy: free"), "--shards cannot be used with this strategy"),
        (play("order: shuffle"), "--shards cannot be used with a random order of hosts"),
        (play("vars_prompt: [{name: word}]"), "`-e word=...`"),
    ];
    for (playbook, sentence) in cases {
        let output = Project::new(&playbook).run(&["--shards", "2"]);
        assert!(stderr(&output).contains(sentence), "{}", stderr(&output));
        assert_ne!(output.status.code(), Some(0));
    }
    let given = Project::new(&play("vars_prompt: [{name: word}]")).run(&["--shards", "2", "-e", "word=1"]);
    assert_eq!(given.status.code(), Some(0), "{}", stderr(&given));
}
