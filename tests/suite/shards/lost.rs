//! Processes of a run that are lost while tasks run on hosts, behind a real SSH server: every task runs once.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use super::hostile::Key;
use super::{Project, kill, stderr, stdout, wait_until};
use crate::support::{Sshd, free_port};

const HOSTS: usize = 12;

/// Each task appends its name and host to a file; the second one takes some seconds.
const PLAYBOOK: &str = r#"
- hosts: all
  gather_facts: false
  tasks:
    - shell: echo one {{ inventory_hostname }} >> FOLDER/ran
    - shell: echo begun {{ inventory_hostname }} >> FOLDER/ran; sleep 8; echo two {{ inventory_hostname }} >> FOLDER/ran; echo done
      register: two
    - assert: {that: "two.stdout == 'done'", quiet: true}
    - shell: echo three {{ inventory_hostname }} >> FOLDER/ran
"#;

/// A project whose hosts are one SSH server. `None` where it cannot run.
struct Site {
    project: Project,
    _sshd: Sshd,
}

impl Site {
    fn new(playbook: &str) -> Option<Site> {
        if !windlass_testing::has_all(&["root", "sshd"]) {
            return None;
        }
        let (project, sshd) = (Project::new(playbook), Sshd::start(""));
        fs::copy(sshd.path("id"), project.path("id")).unwrap();
        project.write("known", &format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_public_key()));
        project.write(
            "hosts",
            &format!(
                "[web]\nweb[1:{HOSTS}]\n[all:vars]\nansible_host=127.0.0.1\nansible_port={}\nansible_user=root\n\
                 ansible_ssh_private_key_file=FOLDER/id\nansible_remote_tmp=FOLDER/remote\n\
                 ansible_ssh_args='-F none -o UserKnownHostsFile=FOLDER/known -o IdentityAgent=none'\n",
                sshd.port
            ),
        );
        Some(Site { project, _sshd: sshd })
    }

    fn count(&self, task: &str) -> usize {
        self.project.lines("ran").iter().filter(|line| line.starts_with(task)).count()
    }

    /// Every host has run each of these tasks once.
    #[track_caller]
    fn assert_once(&self, tasks: &[&str], text: &str) {
        let mut expected: Vec<_> =
            tasks.iter().flat_map(|task| (1..=HOSTS).map(move |number| format!("{task} web{number}"))).collect();
        expected.sort();
        assert_eq!(self.project.lines("ran"), expected, "{text}");
    }
}

#[test]
fn tasks_of_a_killed_worker_go_on_and_their_results_are_taken_over() {
    let Some(site) = Site::new(PLAYBOOK) else { return };
    let child = site.project.start(&["--shards", "3", "-f", "20"]);
    wait_until("the second task has begun everywhere", || site.count("begun") == HOSTS);
    kill(site.project.workers()[0], Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output) + &stderr(&output);
    assert!(text.contains("was lost: it ended (signal: 9 (SIGKILL))"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    site.assert_once(&["one", "begun", "two", "three"], &text);
}

#[test]
fn task_of_a_lost_connection_ends_before_the_next_one_begins() {
    // The parent of the executor belongs to its connection.
    let playbook = r#"
- hosts: all
  gather_facts: false
  tasks:
    - shell: |
        trap '' TERM
        echo $$ > FOLDER/pid-{{ inventory_hostname }}
        kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat)
        while :; do sleep 0.2; done
      ignore_unreachable: true
    - shell: "! grep -q '^State:.[^Z]' /proc/$(cat FOLDER/pid-{{ inventory_hostname }})/status"
"#;
    let Some(site) = Site::new(playbook) else { return };
    let output = site.project.run(&["--shards", "2", "-f", "20"]);
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(
        text.matches("unreachable=0    failed=0    skipped=0    rescued=0    ignored=1").count(),
        HOSTS,
        "{text}"
    );
}

#[test]
fn items_of_a_killed_worker_run_once_and_are_reported_once() {
    let playbook = "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: echo {{ item }} {{ inventory_hostname }} >> \
                    FOLDER/ran; sleep {{ 5 if item == 'b' else 0 }}\n      loop: [a, b, c]\n";
    let Some(site) = Site::new(playbook) else { return };
    let child = site.project.start(&["--shards", "3", "-f", "20"]);
    wait_until("the second item has begun everywhere", || site.count("b") == HOSTS);
    kill(site.project.workers()[0], Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    site.assert_once(&["a", "b", "c"], &text);
    for item in ["a", "b", "c"] {
        assert_eq!(text.matches(&format!("=> (item={item})")).count(), HOSTS, "{text}");
    }
}

#[test]
fn resumed_run_takes_over_what_its_killed_lead_had_sent() {
    let Some(site) = Site::new(PLAYBOOK) else { return };
    let mut child = site.project.start(&["--shards", "3", "-f", "20"]);
    wait_until("the second task has begun everywhere", || site.count("begun") == HOSTS);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("workers end with their lead", || site.project.workers().is_empty());
    let output = site.project.run(&["--shards", "3", "-f", "20", "--resume"]);
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    site.assert_once(&["one", "begun", "two", "three"], &text);
}

/// Starts a lead and a worker of one run, as pods would: the lead cannot kill its worker.
fn pods(project: &Project) -> [Child; 2] {
    let (lead, worker, port) = (Key::new(), Key::new(), free_port());
    for (name, own, other) in [("lead", &lead, &worker), ("worker", &worker, &lead)] {
        fs::create_dir(project.path(name)).unwrap();
        fs::write(project.path(name).join("shard-key"), &own.private).unwrap();
        fs::write(project.path(name).join("shard-peers"), &other.public).unwrap();
    }
    let lead = [format!("--shard-listen=127.0.0.1:{port}"), "--shard-keys=lead".to_owned()];
    let worker = [format!("--shard-of-pod=127.0.0.1:{port}"), "--shard-keys=worker".to_owned()];
    [lead, worker].map(|words| {
        let words: Vec<&str> =
            ["--shards", "2", "-f", "20"].into_iter().chain(words.iter().map(String::as_str)).collect();
        project.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    })
}

#[test]
fn paused_worker_that_wakes_changes_nothing() {
    let playbook = r#"
- hosts: all
  gather_facts: false
  tasks:
    - shell: echo one {{ inventory_hostname }} >> FOLDER/ran
    - shell: until test -e FOLDER/open; do sleep 0.1; done
      delegate_to: localhost
      run_once: true
    - shell: echo two {{ inventory_hostname }} >> FOLDER/ran
    - shell: until test -e FOLDER/awake; do sleep 0.1; done
      delegate_to: localhost
      run_once: true
    - shell: echo three {{ inventory_hostname }} >> FOLDER/ran
"#;
    let Some(site) = Site::new(playbook) else { return };
    let [lead, mut worker] = pods(&site.project);
    wait_until("the first task has run everywhere", || site.count("one") == HOSTS);
    let pid = i32::try_from(worker.id()).unwrap();
    kill(pid, Signal::STOP);
    // The worker's part of the second task is sent to it, and lies in its socket.
    site.project.write("open", "");
    wait_until("the lead gives the worker up", || site.count("two") == HOSTS);
    kill(pid, Signal::CONT);
    worker.wait().unwrap();
    site.project.write("awake", "");
    let output = lead.wait_with_output().unwrap();
    let text = stdout(&output) + &stderr(&output);
    assert!(text.contains("process 2 of the run was lost"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    site.assert_once(&["one", "two", "three"], &text);
}
