//! `windlass reconcile` with playbooks that stand for a cluster's: what it reads, decides, runs and reports.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Reports what the file `health` says, as roles/verify does.
const VERIFY: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - copy:
        dest: '{{ verify_report }}'
        content: \"{{ lookup('file', inventory_dir ~ '/health.json') }}\"
      check_mode: false
      run_once: true
    - assert: {that: \"(lookup('file', inventory_dir ~ '/health.json') | from_json).healthy\", quiet: true}
      run_once: true
";
/// Wants a file beside the inventory for each host.
const CLUSTER: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - name: Write the configuration
      copy: {dest: \"{{ inventory_dir }}/{{ inventory_hostname }}.conf\", content: right}
";
/// Notes the node, its address and its confirmations, and makes the cluster healthy.
const REPLACE: &str = "
- hosts: \"{{ node }}\"
  gather_facts: false
  connection: local
  tasks:
    - shell: >-
        echo '{{ node }} {{ ansible_host }} {{ allow_ungraceful_removal }} {{ skip_confirmation }}' >> replaced;
        cp healthy.json health.json
      args: {chdir: '{{ inventory_dir }}'}
";
const HEALTHY: &str = r#"{"healthy": true, "hosts": ["node1", "node2"], "not_reached": [], "nodes": {}, "checks": []}"#;
const BROKEN: &str = r#"{"healthy": false, "hosts": ["node1", "node2"], "not_reached": [], "nodes": {"node2": "n2"},
    "checks": [{"id": "node.kubelet", "status": "fail",
                "results": [{"host": "node2", "status": "fail", "text": "no answer {{ 1 + 1 }}", "node": ""}]},
               {"id": "cluster.nodes", "status": "fail",
                "results": [{"host": "node1", "status": "fail", "text": "n2 is not Ready", "node": "n2"}]}]}"#;
/// A node that was not reached; and one of which only hosts say something.
const AWAY: &str = r#"{"healthy": false, "hosts": ["node1", "node2"], "not_reached": ["node2"], "nodes": {},
    "checks": [{"id": "host.reach", "status": "fail", "results": [{"host": "node2", "status": "fail", "text": ""}]}]}"#;
const CLAIMED: &str = r#"{"healthy": false, "hosts": ["node1", "node2"], "not_reached": [],
    "nodes": {"node1": "n1", "node2": "n2"},
    "checks": [{"id": "node.kubelet", "status": "fail",
                "results": [{"host": "node2", "status": "fail", "text": "n1 is not Ready"}]},
               {"id": "cluster.nodes", "status": "fail",
                "results": [{"host": "node2", "status": "fail", "text": "n1 is not Ready", "node": ""}]}]}"#;

struct Cluster(tempfile::TempDir);

impl Cluster {
    fn new() -> Cluster {
        let cluster = Cluster(tempfile::tempdir().unwrap());
        fs::create_dir(cluster.path("playbooks")).unwrap();
        for (name, text) in [
            ("playbooks/verify.yml", VERIFY),
            ("playbooks/cluster.yml", CLUSTER),
            ("playbooks/replace_node.yml", REPLACE),
            ("hosts", "node1 ansible_connection=local\nnode2 ansible_connection=local\n"),
            ("healthy.json", HEALTHY),
            ("health.json", HEALTHY),
        ] {
            cluster.write(name, text);
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["reconcile", "-i", "hosts"]).args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("WINDLASS_JOURNAL_DIR", self.path("state")).env("ANSIBLE_REMOTE_TMP", self.path("remote"));
        command
    }

    /// Exit code and output of a call.
    fn call(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
    }

    /// A program that hands out machines and notes how it was called.
    fn machines(&self, answer: &str) {
        let text = format!(
            "#!/bin/sh\necho \"$@\" >> {0}/calls\n[ $1 = release ] || cat <<'E'\n{answer}\nE\n",
            self.0.path().display()
        );
        self.write("machines", &text);
        fs::set_permissions(self.path("machines"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn is_written(cluster: &Cluster) -> bool {
    cluster.path("node1.conf").exists()
}

#[test]
fn drift_is_reported_and_repaired_only_by_policy() {
    let cluster = Cluster::new();
    let (code, output) = cluster.call(&["--once"]);
    assert!(code == Some(2) && !is_written(&cluster), "{output}");
    assert!(output.contains("healthy, drift in 1 task; the policy has no `repair`"), "{output}");
    assert!(output.contains("would change node1, node2: Write the configuration"), "{output}");

    cluster.write("policy.yml", "repair: [drift]\nmetrics: metrics.prom\n");
    let (code, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(code == Some(0) && is_written(&cluster), "{output}");
    assert!(output.contains("healthy, drift in 0 tasks; repaired"), "{output}");
    let metrics = cluster.read("metrics.prom");
    assert!(metrics.contains("windlass_reconcile_drift_tasks 0") && metrics.contains("budget_left 2"), "{metrics}");
    let (code, output) = cluster.call(&["--status"]);
    assert!(code == Some(0) && output.contains("apply") && output.contains("not paused"), "{output}");
}

#[test]
fn paused_reconciler_looks_but_does_not_repair() {
    let cluster = Cluster::new();
    cluster.write("policy.yml", "repair: [drift]\n");
    let (code, output) = cluster.call(&["--pause"]);
    assert!(code == Some(0) && output.contains("paused since"), "{output}");
    let (code, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(code == Some(2) && output.contains("repairs are paused") && !is_written(&cluster), "{output}");
    assert!(cluster.call(&["--status"]).1.contains("paused since"));
    cluster.call(&["--unpause"]);
    assert_eq!(cluster.call(&["--once", "--policy", "policy.yml"]).0, Some(0));
    assert!(is_written(&cluster));
}

#[test]
fn unhealthy_node_is_replaced_by_a_new_machine_after_its_time() {
    let cluster = Cluster::new();
    cluster.write("health.json", BROKEN);
    cluster.machines(r#"{"ansible_host": "192.0.2.7"}"#);
    cluster.write("policy.yml", "repair: [nodes]\nmachines: machines\nunhealthy_for: 1s\n");
    let (code, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(code == Some(2) && cluster.read("calls").is_empty(), "{output}");
    // Text of a host is printed and never evaluated.
    assert!(output.contains("node.kubelet node2: no answer {{ 1 + 1 }}"), "{output}");
    std::thread::sleep(Duration::from_millis(2100));
    let (_, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert_eq!(cluster.read("calls"), "release node2\nacquire node2\n", "{output}");
    assert_eq!(cluster.read("replaced"), "node2 192.0.2.7 True True\n", "{output}");
    assert!(cluster.read("machines.yml").contains("192.0.2.7"), "{output}");
}

/// The release of a machine cannot be undone, so the reconciler checks for itself that the node is down.
#[test]
fn node_is_replaced_only_with_evidence_of_its_own() {
    for (health, hosts, sentence) in [
        (CLAIMED, "node2 ansible_connection=local", "node2 calls itself unhealthy, but is reached"),
        (AWAY, "node2 ansible_connection=local", "node2 is reached again"),
        (AWAY, "node2 ansible_host=127.0.0.1 ansible_port=1", "replacing node2, which does not answer"),
    ] {
        let cluster = Cluster::new();
        cluster.write("health.json", health);
        cluster.write("hosts", &format!("node1 ansible_connection=local\n{hosts}\n"));
        cluster.machines(r#"{"ansible_host": "192.0.2.7"}"#);
        cluster.write("policy.yml", "repair: [nodes]\nmachines: machines\nunhealthy_for: 1s\n");
        cluster.call(&["--once", "--policy", "policy.yml"]);
        std::thread::sleep(Duration::from_millis(2100));
        let (_, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
        assert!(output.contains(sentence), "{output}");
        assert_eq!(cluster.read("calls").is_empty(), !sentence.starts_with("replacing"), "{output}");
    }
}

#[test]
fn machine_whose_address_another_file_overrides_is_not_used() {
    let cluster = Cluster::new();
    cluster.write("health.json", BROKEN);
    cluster.machines(r#"{"ansible_host": "192.0.2.7"}"#);
    cluster.write("policy.yml", "repair: [nodes]\nmachines: machines\nunhealthy_for: 1s\n");
    fs::create_dir(cluster.path("host_vars")).unwrap();
    cluster.write("host_vars/node2.yml", "ansible_host: 192.0.2.1\n");
    cluster.call(&["--once", "--policy", "policy.yml"]);
    std::thread::sleep(Duration::from_millis(2100));
    let (_, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(output.contains("another file sets `ansible_host` of node2"), "{output}");
    assert!(cluster.read("replaced").is_empty(), "{output}");
}

#[test]
fn playbook_that_cannot_run_is_an_error_and_nothing_is_repaired() {
    let cluster = Cluster::new();
    cluster.write("policy.yml", "repair: [drift]\n");
    cluster.write("playbooks/verify.yml", "- hosts: all\n  tasks:\n    - nosuchmodule: {}\n");
    let (code, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(code == Some(1) && output.contains("wrote no report") && output.contains("nosuchmodule"), "{output}");
    assert!(!is_written(&cluster));
}

#[test]
fn webhook_gets_each_new_report_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = Cluster::new();
    cluster.write("policy.yml", &format!("webhook: http://{}/\n", listener.local_addr().unwrap()));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        let mut bytes = [0; 4096];
        while !text.contains("\"drift\":") {
            let count = stream.read(&mut bytes).unwrap();
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        text
    });
    let (_, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    let report = server.join().unwrap();
    assert!(report.starts_with("POST / HTTP/1.1") && report.contains("Write the configuration"), "{report}\n{output}");
    // The server is gone, and an equal report is not sent again.
    let (_, output) = cluster.call(&["--once", "--policy", "policy.yml"]);
    assert!(!output.contains("WARNING"), "{output}");
}

#[test]
fn stopped_reconciler_stops_its_run_and_leaves_no_process() {
    let cluster = Cluster::new();
    let text = "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: touch ../begun; sleep 4711\n      args: {chdir: '{{ playbook_dir }}'}\n      check_mode: false\n";
    cluster.write("playbooks/verify.yml", text);
    let mut child = cluster.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !cluster.path("begun").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(!is_running(self::processes(), &cluster.path("")), "a process of the run is left");
}

fn processes() -> Vec<PathBuf> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Whether a process works in this folder or below it.
fn is_running(processes: Vec<PathBuf>, folder: &Path) -> bool {
    processes.iter().any(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
}
