//! Runs in several pods: workers that come, go and come again, a lead that is lost, and strangers.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::{Cluster, Killed, eventually};
use crate::support::{Sshd, free_port};

/// Each task leaves a line with its number, its host and the pod that ran it. The gates are tasks of the lead.
const PLAYBOOK: &str = "- hosts: all
  gather_facts: false
  vars: {who: \"{{ inventory_hostname }} {{ lookup('env', 'POD_NAME') }}\"}
  tasks:
    - shell: echo 1 {{ who }} >> LINES
    - shell: 'echo gate >> GATES; until test -e OPEN; do sleep 0.1; done'
      delegate_to: localhost
      run_once: true
    - shell: echo 2 {{ who }} >> LINES
    - shell: echo 3 {{ who }} >> LINES; sleep {{ rest }}
    - shell: echo 4 {{ who }} >> LINES
";
const HOSTS: usize = 12;

/// A cluster, a host, and a run in three pods there.
struct Pods {
    cluster: Cluster,
    _sshd: Sshd,
    run: String,
    port: u16,
}

impl Pods {
    /// Starts a run whose third task takes some seconds. `None` where the servers are missing.
    fn start(rest: &str) -> Option<Pods> {
        if !windlass_testing::has_all(&["root", "sshd"]) {
            return None;
        }
        let (cluster, sshd) = (Cluster::start()?, Sshd::start(""));
        let path = |name: &str| cluster.at(name).display().to_string();
        let playbook = ["LINES", "GATES", "OPEN"]
            .iter()
            .fold(PLAYBOOK.to_owned(), |text, name| text.replace(name, &path(&name.to_lowercase())));
        fs::write(cluster.at("project/site.yml"), playbook).unwrap();
        fs::copy(sshd.path("id"), cluster.at("project/id")).unwrap();
        fs::write(path("known"), format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_public_key())).unwrap();
        let hosts: String = (1..=HOSTS).map(|number| format!("    web{number}:\n")).collect();
        let inventory = format!(
            "all:\n  hosts:\n{hosts}  vars:\n    ansible_host: 127.0.0.1\n    ansible_port: {}\n    \
             ansible_user: root\n    ansible_ssh_private_key_file: id\n    ansible_remote_tmp: {}\n    \
             ansible_ssh_args: -F none -o UserKnownHostsFile={} -o IdentityAgent=none\n",
            sshd.port,
            path("remote"),
            path("known"),
        );
        fs::write(cluster.at("project/hosts.yml"), inventory).unwrap();
        let run = cluster.begin_with(&["--shards", "3", "-f", "20", "--lock", "ignore", "-e", &format!("rest={rest}")]);
        Some(Pods { cluster, _sshd: sshd, run, port: free_port() })
    }

    /// The program of a pod; `of` follows the name of the run in the name of its Job.
    fn pod(&self, of: &str, name: &str) -> Command {
        self.cluster.pod_of(&self.cluster.job(&format!("windlass-{}{of}", self.run)), name, self.port)
    }

    fn lead(&self, name: &str) -> Killed {
        Killed::of(&mut self.pod("", name))
    }

    fn worker(&self, number: usize, name: &str) -> Killed {
        Killed::of(&mut self.pod(&format!("-worker-{number}"), name))
    }

    /// Output of a lead so far.
    fn output(&self, lead: &str) -> String {
        fs::read_to_string(self.cluster.at("pods").join(lead).join("work/output")).unwrap_or_default()
    }

    fn await_gate(&self, lead: &str) {
        eventually(&format!("the lead waits: {}", self.output(lead)), || {
            fs::read_to_string(self.cluster.at("gates")).is_ok().then_some(())
        });
    }

    fn open(&self) {
        fs::write(self.cluster.at("open"), "").unwrap();
    }

    /// Hosts and pods of a task, in the order of the hosts.
    fn ran(&self, task: &str) -> Vec<(String, String)> {
        let lines = self.cluster.lines().into_iter();
        let mut ran: Vec<_> = lines
            .filter_map(|line| {
                let mut words = line.split(' ').map(str::to_owned);
                (words.next()? == task).then_some((words.next()?, words.next()?))
            })
            .collect();
        ran.sort();
        ran
    }

    /// Number of hosts on which each pod ran a task. Every host has run it once.
    #[track_caller]
    fn once(&self, task: &str, hosts: usize) -> BTreeMap<String, usize> {
        let ran = self.ran(task);
        let names: std::collections::BTreeSet<_> = ran.iter().map(|(host, _)| host).collect();
        assert_eq!((names.len(), ran.len()), (hosts, hosts), "task {task}: {ran:?}");
        let mut pods = BTreeMap::new();
        ran.into_iter().for_each(|(_, pod)| *pods.entry(pod).or_default() += 1);
        pods
    }
}

#[test]
fn replaced_worker_takes_its_hosts_again_and_no_task_runs_twice() {
    let Some(pods) = Pods::start("15") else { return };
    let first = pods.worker(1, "worker-1");
    let second = pods.worker(2, "worker-2");
    let mut lead = pods.lead("lead");
    pods.await_gate("lead");
    let before = pods.once("1", HOSTS);
    assert_eq!(before.len(), 3, "{before:?}");
    drop(first);
    eventually("the loss is seen", || pods.output("lead").contains("process 2 of the run was lost").then_some(()));
    let _again = pods.worker(1, "worker-1-again");
    eventually("the worker is back", || pods.output("lead").contains("process 2 of the run takes").then_some(()));
    pods.open();
    eventually("the third task runs everywhere", || (pods.ran("3").len() == HOSTS).then_some(()));
    // Its tasks under way go on, and the lead takes their results.
    drop(second);
    assert_eq!(lead.0[0].wait().unwrap().code(), Some(0));
    let after = pods.once("2", HOSTS);
    assert_eq!(after.get("worker-1-again"), before.get("worker-1"), "{after:?}");
    assert_eq!(pods.once("3", HOSTS), after);
    let last = pods.once("4", HOSTS);
    assert!(!last.contains_key("worker-2"), "{last:?}");
    let attached = pods.cluster.windlass(&["engine", "attach", &pods.run]);
    let text = String::from_utf8_lossy(&attached.stdout);
    assert!(attached.status.success(), "{text}");
    let listed = pods.cluster.windlass(&["engine", "list"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).matches(&pods.run).count(), 1, "{listed:?}");
    assert!(pods.cluster.windlass(&["engine", "delete", &pods.run]).status.success());
    for (kind, version) in [("Job", "batch/v1"), ("Service", "v1"), ("NetworkPolicy", "networking.k8s.io/v1")] {
        assert_eq!(pods.cluster.objects(kind, version).len(), 0, "{kind}");
    }
}

#[test]
fn run_of_a_lost_lead_goes_on_with_the_next_one_and_no_stranger_joins() {
    let Some(pods) = Pods::start("0") else { return };
    let mut workers = [pods.worker(1, "worker-1"), pods.worker(2, "worker-2")];
    let lead = pods.lead("lead");
    pods.await_gate("lead");
    assert_eq!(pods.once("1", HOSTS).len(), 3);
    // Others in the namespace speak no TLS, or have another key.
    let mut stranger = TcpStream::connect(("127.0.0.1", pods.port)).unwrap();
    stranger.write_all(b"\x00\x00\x00\x10{\"reached\":1}     ").unwrap();
    let mut foreign = pods.pod("-worker-1", "foreign");
    let mut key = Command::new("openssl");
    key.args(["genpkey", "-algorithm", "ed25519", "-outform", "DER", "-out"]);
    assert!(key.arg(pods.cluster.at("pods/foreign/keys/0/shard-key")).status().unwrap().success());
    let foreign = foreign.output().unwrap();
    let error = String::from_utf8_lossy(&foreign.stderr);
    assert!(!foreign.status.success() && error.contains("sent no welcome"), "{foreign:?}");
    // The lead stores its outcomes every second, so these tasks do not run again.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!pods.output("lead").contains("was lost"), "{}", pods.output("lead"));
    drop(lead);
    for worker in &mut workers {
        assert_eq!(worker.0[0].wait().unwrap().code(), Some(1), "it does nothing without the lead");
    }
    pods.open();
    let _workers = [pods.worker(1, "worker-1-again"), pods.worker(2, "worker-2-again")];
    let mut next = pods.lead("next");
    assert!(next.0[0].wait().unwrap().success(), "{}", pods.output("next"));
    pods.once("1", HOSTS);
    for task in ["2", "3", "4"] {
        let ran = pods.once(task, HOSTS);
        assert_eq!(ran.into_keys().collect::<Vec<_>>(), ["next", "worker-1-again", "worker-2-again"]);
    }
    let attached = pods.cluster.windlass(&["engine", "attach", &pods.run]);
    assert!(attached.status.success(), "{attached:?}");
}
