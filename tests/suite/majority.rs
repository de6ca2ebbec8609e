//! Playbooks that remove members of a real etcd, in check mode. They are refused, with the count, if the majority would
//! be lost.
//!
//! Three members run on 127.0.0.1 to 127.0.0.3. Without etcd, etcdctl and openssl, the tests run nothing.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use windlass_testing::unpacked;

/// A kubectl for three control planes; those with addresses in `silent` do not answer.
const KUBECTL: &str = r#"#!/bin/sh
folder=$(dirname "$0")
for word; do case "$word" in --server=*) ! grep -qxF -e "$word" "$folder/silent" || exit 1 ;; esac; done
case "$*" in
*readyz*) echo ok ;;
*node-role.kubernetes.io/control-plane*) cat "$folder/nodes.json" ;;
*) echo '{"items": []}' ;;
esac
"#;

struct Cluster {
    folder: tempfile::TempDir,
    members: Vec<Child>,
}

impl Cluster {
    /// Starts three members, the hosts `cp1` to `cp3`; `None` without the programs.
    fn start() -> Option<Cluster> {
        let (etcd, etcdctl, _) = (unpacked("etcd")?, unpacked("etcdctl")?, unpacked("openssl")?);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        certificates(folder.path());
        let ports: Vec<TcpListener> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let [client, peer] = [0, 1].map(|number: usize| ports[number].local_addr().unwrap().port());
        drop(ports);
        let all: Vec<String> = (1..=3).map(|number| format!("cp{number}=http://127.0.0.{number}:{peer}")).collect();
        let members = (1..=3).map(|number| {
            let (client, peer) =
                (format!("https://127.0.0.{number}:{client}"), format!("http://127.0.0.{number}:{peer}"));
            Command::new(&etcd)
                .args(["--name", &format!("cp{number}"), "--data-dir"])
                .arg(at(&format!("data{number}")))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &all.join(","), "--client-cert-auth", "--trusted-ca-file"])
                .arg(at("ssl/ca.pem"))
                .arg("--cert-file")
                .arg(at("ssl/admin-cp1.pem"))
                .arg("--key-file")
                .arg(at("ssl/admin-cp1-key.pem"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        let cluster = Cluster { members: members.collect(), folder };
        fs::create_dir(cluster.at("bin")).unwrap();
        fs::create_dir(cluster.at("kube")).unwrap();
        symlink(etcdctl, cluster.at("bin/etcdctl")).unwrap();
        fs::write(cluster.at("bin/kubectl"), KUBECTL).unwrap();
        fs::set_permissions(cluster.at("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        let node = |number: i32| {
            format!(
                r#"{{"metadata": {{"name": "cp{number}", "labels": {{"node-role.kubernetes.io/control-plane": ""}}}}, "status": {{"addresses": [{{"type": "InternalIP", "address": "127.0.0.{number}"}}]}}}}"#
            )
        };
        fs::write(cluster.at("bin/nodes.json"), format!(r#"{{"items": [{}, {}, {}]}}"#, node(1), node(2), node(3)))
            .unwrap();
        fs::write(cluster.at("bin/silent"), "").unwrap();
        fs::write(cluster.at("kube/admin.conf"), "x").unwrap();
        let mut inventory = String::from("[kube_control_plane]\n");
        for number in 1..=3 {
            writeln!(inventory, "cp{number} ip=127.0.0.{number}").unwrap();
        }
        let root = cluster.folder.path().display();
        write!(
            inventory,
            "[etcd]\ncp[1:3]\n[kube_node]\ncp[1:3]\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\n\
             ansible_connection=local\netcd_client_port={client}\netcd_cert_dir={root}/ssl\nbin_dir={root}/bin\n\
             kube_config_dir={root}/kube\n"
        )
        .unwrap();
        fs::write(cluster.at("hosts"), inventory).unwrap();
        cluster.healthy(client);
        Some(cluster)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn healthy(&self, port: u16) {
        let deadline = Instant::now() + Duration::from_secs(90);
        let endpoints =
            format!("--endpoints=https://127.0.0.1:{port},https://127.0.0.2:{port},https://127.0.0.3:{port}");
        loop {
            let mut command = Command::new(self.at("bin/etcdctl"));
            command.env("ETCDCTL_API", "3").arg(&endpoints).arg("--cacert").arg(self.at("ssl/ca.pem"));
            command.arg("--cert").arg(self.at("ssl/admin-cp1.pem")).arg("--key").arg(self.at("ssl/admin-cp1-key.pem"));
            if command.args(["endpoint", "health"]).output().unwrap().status.success() {
                return;
            }
            assert!(Instant::now() < deadline, "etcd does not become healthy");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn kill(&mut self, number: usize) {
        self.members[number - 1].kill().unwrap();
        self.members[number - 1].wait().unwrap();
    }

    /// Exit code and output of a playbook in check mode.
    fn play(&self, playbook: &str, more: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "--check", "-i"])
            .arg(self.at("hosts"))
            .arg(format!("playbooks/{playbook}.yml"))
            .args(more)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    #[track_caller]
    fn refused(&self, playbook: &str, more: &[&str], sentence: &str) {
        let (code, text) = self.play(playbook, more);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
        let done = [
            "Drain the nodes",
            "Remove the node from the cluster",
            "Stop kubelet",
            "Remove the nodes' members from etcd",
        ];
        assert!(done.iter().all(|task| !text.contains(task)), "something was begun:\n{text}");
    }

    #[track_caller]
    fn allowed(&self, playbook: &str, more: &[&str]) {
        let (code, text) = self.play(playbook, more);
        assert!(code == Some(0) && text.contains("Stop kubelet"), "{text}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn certificates(folder: &Path) {
    let script = "mkdir ssl && cd ssl &&
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca-key.pem -out ca.pem &&
        openssl req -new -newkey rsa:2048 -nodes -subj /CN=x -keyout key.pem -out csr.pem &&
        echo subjectAltName=IP:127.0.0.1,IP:127.0.0.2,IP:127.0.0.3 > names &&
        openssl x509 -req -days 2 -in csr.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -extfile names -out cert.pem &&
        for host in cp1 cp2 cp3; do cp cert.pem admin-$host.pem; cp key.pem admin-$host-key.pem; done";
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn part_of_a_cluster_reset_or_removed_only_while_the_majority_stays() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.allowed("reset", &["--limit", "cp3"]);
    cluster.refused(
        "reset",
        &["--limit", "cp2,cp3"],
        "3 of 3 members are healthy, and stopping them would leave 1 healthy of 3",
    );
    cluster.allowed("reset", &[]);
    // Neither asks for a confirmation: check mode changes nothing.
    cluster.allowed("remove_node", &["-e", "node=cp3", "-e", "backup_before_changes=false"]);

    cluster.kill(2);
    let count = "2 of 3 members are healthy, and removing it would leave 1 healthy of 2, where 2 are needed";
    cluster.refused("remove_node", &["-e", "node=cp3"], count);
    cluster.refused("reset", &["--limit", "cp3"], "First repair or remove cp2 (does not answer)");
    // Without its first host, the play that queries etcd has no host; the reset queries on its own.
    cluster.refused(
        "remove_node",
        &["-e", "node=cp3", "--limit", "cp3", "--tags", "all"],
        "2 of 3 members are healthy",
    );
    cluster.allowed("reset", &["--limit", "cp2"]);
    cluster.allowed("reset", &[]);
    let (_, text) = cluster.play("reset", &["--limit", "cp3", "-e", "allow_unsafe_quorum=true"]);
    assert!(text.contains("`allow_unsafe` overrides a refusal"), "{text}");
}

#[test]
fn control_plane_reset_or_removed_only_while_others_serve() {
    let Some(cluster) = Cluster::start() else { return };
    fs::write(cluster.at("bin/silent"), "--server=https://127.0.0.1:6443\n").unwrap();
    let count = "2 of 3 control planes are healthy, and stopping it would leave 1 healthy of 2, where 2 are needed";
    cluster.refused("remove_node", &["-e", "node=cp3"], count);
    cluster.refused("reset", &["--limit", "cp3"], count);
    cluster.allowed("reset", &[]);
}

/// A play on the members with what the diagnosis of playbooks/recover.yml would have found. cp2 leads.
const DEFRAGMENT: &str = "
- hosts: etcd
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.set_fact:
        recover_judgement: {full: [], serving: {etcd: '{{ serving | split }}'}}
        recover_state: \"{{ {'etcd.size': 52428800, 'etcd.used': 10485760} | combine({'etcd.leads': 'yes'} if inventory_hostname == 'cp2' else {}) }}\"
        recover_reached: true
        recover_stamp: now
    - ansible.builtin.include_role: {name: recover, tasks_from: defragment_healthy}
      vars: {etcd_cluster: '{{ etcd_clusters | first }}'}
";

#[test]
fn healthy_etcd_defragmented_one_member_after_the_other() {
    let Some(cluster) = Cluster::start() else { return };
    let etcdctl = |words: &str| {
        let port = fs::read_to_string(cluster.at("hosts")).unwrap();
        let port = port.lines().find_map(|line| line.strip_prefix("etcd_client_port=")).unwrap().to_owned();
        let mut command = Command::new(cluster.at("bin/etcdctl"));
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints=https://127.0.0.1:{port}"));
        for (option, file) in [("--cacert", "ca"), ("--cert", "admin-cp1"), ("--key", "admin-cp1-key")] {
            command.arg(option).arg(cluster.at(&format!("ssl/{file}.pem")));
        }
        command.args(words.split_whitespace()).stdin(fs::File::open(cluster.at("value")).unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    fs::write(cluster.at("value"), vec![b'x'; 1_000_000]).unwrap();
    for _ in 0..20 {
        etcdctl("put large");
    }
    etcdctl("del large");
    let size = || {
        let status = etcdctl("endpoint status --write-out=json");
        let digits = status.split("\"dbSize\":").nth(1).unwrap().split(|one: char| !one.is_ascii_digit()).next();
        digits.unwrap().parse::<u64>().unwrap()
    };
    fs::write(cluster.at("play.yml"), DEFRAGMENT).unwrap();
    let play = |serving: &str, more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "play.yml", "-e"])
            .arg(format!("serving='{serving}'"))
            .args(more)
            .current_dir(cluster.folder.path())
            .env("ANSIBLE_ROLES_PATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("roles"))
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let before = size();
    let (code, text) = play("cp1 cp2", &[]);
    assert!(code == Some(2) && text.contains("cp3 does not serve together with the others"), "{text}");
    let (code, text) = play("cp1 cp2 cp3", &["--check"]);
    assert!(code == Some(0) && text.contains("cp2, the leader: 50 MiB, 10 MiB in use, gives 40 MiB back"), "{text}");
    // The database may still grow.
    assert!(size() >= before, "check mode gives space back");

    let (code, text) = play("cp1 cp2 cp3", &[]);
    assert_eq!(code, Some(0), "{text}");
    let turns: Vec<usize> = ["cp1", "cp3", "cp2"]
        .iter()
        .map(|turn| {
            let tasks = text.split("TASK [").filter(|task| task.contains("Defragment the etcd member"));
            tasks.enumerate().find(|(_, task)| task.contains(&format!("changed: [{turn}]"))).unwrap().0
        })
        .collect();
    assert!(turns.is_sorted() && turns[0] < turns[2], "the leader is not the last: {turns:?} {text}");
    assert!(size() < before / 4, "{} of {before} bytes are left", size());
}

/// Starts a member with the settings in `etcd-bootstrap.env` of `folder`, as its service does.
fn member(folder: &Path, etcd: &Path, [client, peer]: [u16; 2]) -> Child {
    let settings = fs::read_to_string(folder.join("config/etcd-bootstrap.env")).unwrap();
    let settings = settings.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| !name.starts_with('#'));
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("https://127.0.0.1:{peer}"));
    Command::new(etcd)
        .envs(settings)
        .args(["--name", "cp1", "--data-dir"])
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer, "--peer-auto-tls"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether the member answers, before it exits or the time is up.
fn serves(child: &mut Child, etcdctl: &Path, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the member neither serves nor exits");
        let mut command = Command::new(etcdctl);
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints=http://127.0.0.1:{port}"));
        if command.args(["endpoint", "health"]).output().unwrap().status.success() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    false
}

/// The disk of the only member is not mounted when its host starts.
#[test]
fn emptied_member_does_not_start_a_new_cluster() {
    let (Some(etcd), Some(etcdctl)) = (unpacked("etcd"), unpacked("etcdctl")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|number: usize| listeners[number].local_addr().unwrap().port());
    drop(listeners);
    fs::create_dir(at("config")).unwrap();
    fs::create_dir(at("data")).unwrap();
    fs::set_permissions(at("data"), fs::Permissions::from_mode(0o700)).unwrap();
    let root = folder.path().display();
    fs::write(
        at("hosts"),
        format!(
            "[kube_control_plane]\ncp1 ip=127.0.0.1 ansible_connection=local\n[etcd]\ncp1\n[kube_node]\ncp1\n[k8s_cluster:children]\n\
             kube_control_plane\nkube_node\n[all:vars]\netcd_data_dir={root}/data\netcd_config_dir={root}/config\n\
             etcd_peer_port={}\n",
            ports[1]
        ),
    )
    .unwrap();
    let play = |playbook: &str| {
        fs::write(at("play.yml"), format!("- hosts: cp1\n  gather_facts: false\n  tasks:\n{playbook}")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "play.yml"])
            .current_dir(folder.path())
            .env("ANSIBLE_ROLES_PATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("roles"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let record = "    - ansible.builtin.import_role: {name: etcd, tasks_from: record}\n      \
                  vars: {etcd_cluster: '{{ etcd_known_clusters | first }}'}\n";

    let first = format!("ETCD_INITIAL_CLUSTER=cp1=https://127.0.0.1:{}\nETCD_INITIAL_CLUSTER_STATE=new\n", ports[1]);
    fs::write(at("config/etcd-bootstrap.env"), first).unwrap();
    let mut running = member(folder.path(), &etcd, ports);
    assert!(serves(&mut running, &etcdctl, ports[0]), "a new cluster does not start");
    play(record);
    running.kill().unwrap();
    running.wait().unwrap();
    let mut running = member(folder.path(), &etcd, ports);
    assert!(serves(&mut running, &etcdctl, ports[0]), "a member does not start with its data");
    running.kill().unwrap();
    running.wait().unwrap();

    fs::rename(at("data/member"), at("kept")).unwrap();
    for _ in 0..2 {
        let mut emptied = member(folder.path(), &etcd, ports);
        assert!(!serves(&mut emptied, &etcdctl, ports[0]), "the emptied member serves an empty database");
    }
    assert!(!at("data/member/wal").exists(), "what it leaves would be taken for data");
    fs::remove_dir_all(at("data/member")).unwrap();
    fs::rename(at("kept"), at("data/member")).unwrap();
    let mut running = member(folder.path(), &etcd, ports);
    assert!(serves(&mut running, &etcdctl, ports[0]), "the member does not start once its disk is back");
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(play(record).contains("changed=0"), "a second run changes something");
}
