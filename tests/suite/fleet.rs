//! `windlass fleet`: runs of several clusters end, fail and print each for itself.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Fails on hosts with `fails`, and notes the folder of the inventory beside it.
const PLAYBOOK: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - copy: {dest: '{{ inventory_dir }}/made', content: '{{ inventory_hostname }}'}
    - shell: echo $$ > '{{ inventory_dir }}/pid'; exec sleep {{ doze | default(0) }}
    - assert: {that: not (fails | default(false)), quiet: true}
";

struct Fleet(tempfile::TempDir);

impl Fleet {
    /// Clusters with these names and variables of their only host.
    fn new(clusters: &[(&str, &str)]) -> Fleet {
        let fleet = Fleet(tempfile::tempdir().unwrap());
        fs::write(fleet.path("site.yml"), PLAYBOOK).unwrap();
        for (name, vars) in clusters {
            fs::create_dir(fleet.path(name)).unwrap();
            let hosts = format!("{name}1 ansible_connection=local {vars}\n");
            fs::write(fleet.path(name).join("hosts"), hosts).unwrap();
        }
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_windlass"), "fleet"]).args(words);
        command.current_dir(self.0.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("WINDLASS_JOURNAL_DIR", self.path("state")).env("ANSIBLE_REMOTE_TMP", self.path("remote"));
        command
    }

    /// Exit code and output of a call.
    fn call(&self, words: &[&str]) -> (Option<i32>, String) {
        read(&self.command(words).output().unwrap())
    }

    /// Whether a cluster's run sleeps.
    fn runs(&self, cluster: &str) -> bool {
        let pid = fs::read_to_string(self.path(cluster).join("pid")).unwrap_or_default();
        fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|words| words.starts_with(b"sleep\0"))
    }

    /// Whether a cluster's run has made its file.
    fn ran(&self, cluster: &str) -> bool {
        self.path(cluster).join("made").exists()
    }
}

fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// The rows of the table at the end, without times.
fn ends(text: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|line| !line.starts_with("CLUSTER")).skip(1);
    let words = rows.take_while(|line| !line.starts_with('[')).map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .map(|words| {
            words.join(" ").trim_end_matches(|it: char| it == 's' || it == ' ' || it.is_ascii_digit()).to_owned()
        })
        .collect()
}

#[test]
fn failing_cluster_leaves_the_others_alone() {
    let fleet = Fleet::new(&[("eu", "fails=true"), ("us", "")]);
    let (code, text) = fleet.call(&["-i", "eu", "-i", "us/hosts", "playbook", "site.yml"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(fleet.ran("eu") && fleet.ran("us"), "{text}");
    assert_eq!(ends(&text), ["eu exit code", "us ok"], "{text}");
    assert!(text.contains("[us] changed: [us1]\n") && text.contains("[eu] fatal: [eu1]: FAILED!"), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("PLAY")), "{text}");
    assert_eq!(fs::read_dir(fleet.path("state/runs")).unwrap().count(), 2, "each run has its journal");
}

/// Each cluster is a group of one inventory. Its folder has a file that selects the group.
#[test]
fn clusters_of_one_inventory_have_hosts_and_files_of_their_own() {
    let fleet = Fleet::new(&[]);
    let hosts = "[all:vars]\nansible_connection=local\n[eu]\neu1\n[us]\nus1\n[kube_node]\neu1\nus1\n";
    fs::write(fleet.path("hosts"), hosts).unwrap();
    for cluster in ["eu", "us"] {
        fs::create_dir(fleet.path(cluster)).unwrap();
        let source = format!("plugin: windlass.group\ngroup: {cluster}\nsources: ../hosts\n");
        fs::write(fleet.path(cluster).join("hosts.yml"), source).unwrap();
    }
    let playbook = "- hosts: kube_node\n  gather_facts: false\n  tasks:\n    - copy:\n        dest: '{{ inventory_dir }}/made'\n        \
                    content: '{{ groups.kube_node | join }}'\n";
    fs::write(fleet.path("site.yml"), playbook).unwrap();
    let (code, text) = fleet.call(&["-i", "eu", "-i", "us", "playbook", "site.yml"]);
    assert_eq!(code, Some(0), "{text}");
    for cluster in ["eu", "us"] {
        assert_eq!(fs::read_to_string(fleet.path(cluster).join("made")).unwrap(), format!("{cluster}1"));
    }
}

#[test]
fn fail_fast_begins_with_no_further_cluster() {
    let fleet = Fleet::new(&[("one", ""), ("two", "fails=true"), ("three", "")]);
    let words = ["-p", "1", "--fail-fast", "-q", "-i", "one", "-i", "two", "-i", "three", "playbook", "site.yml"];
    let (code, text) = fleet.call(&words);
    assert_eq!(code, Some(2), "{text}");
    assert_eq!(ends(&text), ["one ok", "two exit code", "three not started"], "{text}");
    assert!(fleet.ran("one") && fleet.ran("two") && !fleet.ran("three"));
    assert!(!text.contains("PLAY"), "{text}");
}

#[test]
fn command_gets_name_and_log_of_its_cluster() {
    let fleet = Fleet::new(&[("eu", ""), ("us", "")]);
    let words = ["--logs", "logs", "-i", "eu", "-i", "west=us", "inventory", "--graph", "--output", "{cluster}.txt"];
    let (code, text) = fleet.call(&words);
    assert_eq!(code, Some(0), "{text}");
    for (cluster, host) in [("eu", "eu1"), ("west", "us1")] {
        let tree = fs::read_to_string(fleet.path(&format!("{cluster}.txt"))).unwrap();
        assert!(tree.contains(host), "{tree}");
        assert!(fleet.path("logs").join(format!("{cluster}.log")).exists());
    }
    fleet.call(&["--logs", "logs", "-i", "eu", "adhoc", "all", "-m", "debug", "-a", "msg=there"]);
    assert!(fs::read_to_string(fleet.path("logs/eu.log")).unwrap().contains("\"msg\": \"there\""));
}

#[test]
fn log_path_gets_each_line_once() {
    let fleet = Fleet::new(&[("eu", "")]);
    fs::write(fleet.path("ansible.cfg"), "[defaults]\nlog_path = log\n").unwrap();
    let words = ["-i", "eu", "adhoc", "all", "-m", "debug", "-a", "msg=there"];
    for options in [&[][..], &["--quiet"]] {
        let (code, text) = fleet.call(&[options, &words].concat());
        assert_eq!(code, Some(0), "{text}");
        let log = fs::read_to_string(fleet.path("log")).unwrap();
        assert_eq!(log.matches("\"msg\": \"there\"").count(), 1, "{log}");
        fs::remove_file(fleet.path("log")).unwrap();
    }
}

#[test]
fn inventories_of_one_name_or_one_folder_refused() {
    let fleet = Fleet::new(&[("eu", "")]);
    fs::copy(fleet.path("eu/hosts"), fleet.path("eu/other")).unwrap();
    let (code, text) = fleet.call(&["-i", "eu/hosts", "-i", "eu/other", "playbook", "site.yml"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("the inventories of `eu` and `other` are in one folder"), "{text}");
    let (code, text) = fleet.call(&["-i", "eu", "-i", "eu=.", "playbook", "site.yml"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("two clusters have the name `eu`") && !fleet.ran("eu"), "{text}");
}

#[test]
fn missing_inventory_refused_before_anything_starts() {
    let fleet = Fleet::new(&[("eu", "")]);
    let (code, text) = fleet.call(&["-i", "tset", "-i", "eu", "-p", "1", "--fail-fast", "playbook", "site.yml"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("the inventory `tset` of the cluster `tset` does not exist") && !fleet.ran("eu"), "{text}");
    let (code, text) = fleet.call(&["-i", "all=.", "-i", "eu", "playbook", "site.yml"]);
    assert!(code == Some(5) && text.contains("are in one folder"), "{text}");
}

/// `script` of util-linux provides a terminal. The run must fail, and not be suspended because it reads a terminal that
/// it does not own.
#[test]
fn run_that_asks_for_a_password_fails_at_a_terminal() {
    let fleet = Fleet::new(&[("eu", "")]);
    let line = format!("{} fleet -i eu playbook -K site.yml", env!("CARGO_BIN_EXE_windlass"));
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qec", &line, "/dev/null"]).current_dir(fleet.0.path()).stdin(Stdio::null());
    command.env("WINDLASS_JOURNAL_DIR", fleet.path("state"));
    let (code, text) = read(&command.output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("there is no terminal") && !fleet.ran("eu"), "{text}");
}

#[test]
fn interrupt_stops_all_runs_in_order() {
    let fleet = Fleet::new(&[("eu", "doze=600"), ("us", "doze=600"), ("late", "")]);
    let words = ["-p", "2", "-i", "eu", "-i", "us", "-i", "late", "playbook", "site.yml"];
    let child = fleet.command(&words).spawn().unwrap();
    until(|| fleet.runs("eu") && fleet.runs("us"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let (code, text) = read(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(99), "{text}");
    assert_eq!(ends(&text), ["eu stopped", "us stopped", "late not started"], "{text}");
    assert!(text.contains("[eu] PLAY RECAP") && text.contains("[us] PLAY RECAP") && !fleet.ran("late"), "{text}");
}

#[test]
fn runs_end_with_a_killed_fleet() {
    let fleet = Fleet::new(&[("eu", "doze=600"), ("us", "doze=600")]);
    let mut child = fleet.command(&["-i", "eu", "-i", "us", "playbook", "site.yml"]).spawn().unwrap();
    until(|| fleet.runs("eu") && fleet.runs("us"));
    child.kill().unwrap();
    child.wait().unwrap();
    until(|| !fleet.runs("eu") && !fleet.runs("us"));
}
