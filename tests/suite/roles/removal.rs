//! Reset, removal of components and removal of nodes: the state that they delete, and the state of others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{command, play, program};

/// The state before an upgrade has the keys of a cluster, and would come back in the next cluster of the hosts.
#[test]
fn reset_removes_the_state_that_an_upgrade_saved() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().join("backups");
    fs::create_dir_all(backups.join("rollback/etcd-pki")).unwrap();
    fs::write(backups.join("cluster.tar.gz.age"), "").unwrap();
    let playbook = format!(
        "- hosts: cp1\n  gather_facts: false\n  vars: {{upgrade_backup_dir: '{}'}}\n  tasks:\n    \
         - ansible.builtin.import_role: {{name: upgrade, tasks_from: remove}}\n",
        backups.display()
    );
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!backups.join("rollback").exists() && backups.join("cluster.tar.gz.age").exists());
    let reset = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/reset/tasks/main.yml")).unwrap();
    assert!(reset.contains("    name: upgrade\n    tasks_from: remove\n"), "{reset}");
}

/// Services would send requests to the pods of DaemonSets, which stay when their node is gone.
#[test]
fn removed_node_loses_its_pods() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kubectl");
    let asked = folder.path().join("asked");
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  tasks:\n    \
         - ansible.builtin.import_role: {name: remove_node, tasks_from: delete}\n";
    let bin = format!("bin_dir={}", folder.path().display());
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &["-e", "node=cp2", "-e", &bin]);
    assert_eq!(code, Some(0), "{text}");
    let asked = fs::read_to_string(asked).unwrap();
    let pods = "delete pod --field-selector=spec.nodeName=cp2 --all-namespaces";
    let (node, found) = (asked.find("delete node cp2"), asked.find(pods));
    assert!(node.is_some() && node < found, "{asked}");
    let line = asked.lines().find(|line| line.contains(pods)).unwrap();
    assert!(line.contains("--force --grace-period=0") && line.contains("--wait=false"), "{asked}");
}

/// A controller manager that took over from one on the dead host needs longer to call its node unknown.
#[test]
fn dead_host_with_ready_node_drained_only_while_its_lease_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: remove_node}
";
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2 remove_node_reached=\"{'unreachable': True}\"\n";
    let bin = format!("bin_dir={at}");
    let options = ["-e", "node=cp2", "-e", "allow_ungraceful_removal=true", "-e", &bin, "-e"];
    let options = [&options[..], &["{remove_node_silence: 1, remove_node_members: []}"]].concat();
    for (renewed, given_up) in [("2026-01-01T00:00:00Z", true), ("$(date +%N)", false)] {
        let lease = format!(r#"{{\"spec\": {{\"leaseDurationSeconds\": 1, \"renewTime\": \"{renewed}\"}}}}"#);
        let node = r#"{"metadata": {"name": "cp2"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;
        let script = format!(
            "echo \"$*\" >>{at}/asked
case \"$*\" in
*'get lease'*) echo \"{lease}\" ;;
*'get node'*) echo '{node}' ;;
*drain*) echo 'node/cp2 drained' ;;
*cordon*) echo 'node/cp2 cordoned' ;;
esac"
        );
        program(folder.path(), "kubectl", &script);
        fs::write(folder.path().join("asked"), "").unwrap();
        let (code, text) = play(folder.path(), hosts, playbook, &options);
        let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
        assert_eq!(code, Some(0), "{text}\n{asked}");
        let called = |verb: &str| asked.lines().any(|line| line.contains(verb));
        assert_eq!((called("cordon cp2"), called("drain cp2")), (given_up, !given_up), "{asked}\n{text}");
    }
}

/// The API servers of the others are not ready before etcd has elected a leader.
#[test]
fn reset_waits_until_other_control_planes_serve_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("admin.conf"), "").unwrap();
    let node = |number: i32| {
        format!(
            r#"{{"metadata": {{"name": "cp{number}", "labels": {{"node-role.kubernetes.io/control-plane": ""}}}}, "status": {{"addresses": [{{"type": "InternalIP", "address": "10.0.0.{number}"}}]}}}}"#
        )
    };
    let script = format!(
        "cd {at}; case \"$*\" in
*10.0.0.1:*readyz*) [ -e asked ] || {{ touch asked; exit 1; }}; echo ok ;;
*readyz*) echo ok ;;
*node-role*) echo '{{\"items\": [{}, {}, {}]}}' ;;
*) echo '{{\"items\": []}}' ;;
esac",
        node(1),
        node(2),
        node(3),
        at = folder.path().display()
    );
    program(folder.path(), "kubectl", &script);
    let playbook = "- hosts: cp3
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: reset, tasks_from: validate}
";
    let programs = format!("bin_dir={}", folder.path().display());
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\ncp3 ip=10.0.0.3\n";
    let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs]);
    assert!(code == Some(0) && folder.path().join("asked").exists(), "{text}");
}

/// The script finds a program that prints rules, and one that keeps what it reads.
#[test]
fn nodelocaldns_removal_other_rules_stay() {
    let folder = tempfile::tempdir().unwrap();
    let save = "#!/bin/sh
[ \"$2\" = raw ] || exit 0
cat <<END
*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -d 192.0.2.1/32 -m comment --comment \"mine\" -j NOTRACK
-A PREROUTING -d 169.254.25.10/32 -p udp -m udp --dport 53 -m comment --comment \"NodeLocal DNS Cache: skip conntrack\" -j NOTRACK
COMMIT
END
";
    let restore = format!("#!/bin/sh\necho \"$@\" > {0}/read\ncat >> {0}/read\n", folder.path().display());
    for (name, text) in [("iptables-save", save), ("iptables-restore", restore.as_str())] {
        let program = folder.path().join(name);
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/roles/addon/nodelocaldns/files/clean.sh"))
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .output()
        .unwrap();
    let shown = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(shown, ("iptables raw\n".into(), "".into()));
    let expected = "--noflush
*raw
-D PREROUTING -d 169.254.25.10/32 -p udp -m udp --dport 53 -m comment --comment \"NodeLocal DNS Cache: skip conntrack\" -j NOTRACK
COMMIT
";
    assert_eq!(fs::read_to_string(folder.path().join("read")).unwrap(), expected);
}

/// The script runs in a network and a file system of its own. It finds programs that print rules and keep what they
/// read.
#[test]
fn kube_router_removal_takes_rules_of_forwarding() {
    if !windlass_testing::has_all(&["root", "namespaces", "ip"]) {
        return;
    }
    let script = "set -eu
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /mnt
mount -t sysfs sysfs /sys
mkdir /var/lib/kube-router
cat > /mnt/iptables-save <<'END'
#!/bin/sh
[ \"$2\" = filter ] || exit 0
cat <<'RULES'
*filter
:KUBE-ROUTER-FORWARD - [0:0]
-A FORWARD -j KUBE-ROUTER-FORWARD
-A FORWARD -o eth0 -m comment --comment \"allow outbound node port traffic on node interface with which node ip is associated\" -j ACCEPT
-A FORWARD -o kube-bridge -m comment --comment \"allow inbound traffic to pods\" -j ACCEPT
-A FORWARD -i kube-bridge -m comment --comment \"allow outbound traffic from pods\" -j ACCEPT
-A FORWARD -o eth0 -m comment --comment \"allow mine\" -j ACCEPT
COMMIT
RULES
END
printf '#!/bin/sh\\ncat > /mnt/read\\n' > /mnt/iptables-restore
chmod +x /mnt/iptables-save /mnt/iptables-restore
PATH=/mnt:$PATH sh \"$0\"
cat /mnt/read
";
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/roles/network/kube_router/files/clean.sh");
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "sh", "-c", script, program])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let expected = "iptables filter
removed
*filter
:KUBE-ROUTER-FORWARD - [0:0]
-D FORWARD -j KUBE-ROUTER-FORWARD
-D FORWARD -o eth0 -m comment --comment \"allow outbound node port traffic on node interface with which node ip is associated\" -j ACCEPT
-D FORWARD -o kube-bridge -m comment --comment \"allow inbound traffic to pods\" -j ACCEPT
-D FORWARD -i kube-bridge -m comment --comment \"allow outbound traffic from pods\" -j ACCEPT
-X KUBE-ROUTER-FORWARD
COMMIT
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{errors}");
}

/// The script runs in a network and a file system of its own, on links and rules like Cilium's and beside others.
#[test]
fn cilium_removal_other_links_and_rules_stay() {
    if !windlass_testing::has_all(&["root", "namespaces", "ip"]) {
        return;
    }
    let script = "set -eu
mount -t tmpfs tmpfs /run
if [ -d /etc/cni ]; then mount -t tmpfs tmpfs /etc/cni; fi
mount -t sysfs sysfs /sys
ip link set lo up
ip link add cilium_host type veth peer name cilium_net
ip link add lxc0123456789ab type veth peer name pod
ip link add other0 type veth peer name other1
ip rule add pref 100 lookup local
ip rule delete pref 0
ip rule add pref 1 fwmark 0xd00/0xf00 lookup 200
ip rule add pref 1 fwmark 0xe00/0xf00 lookup 200
ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004
ip -6 rule add pref 9 fwmark 0x200/0xf00 lookup 2004
ip rule add pref 112 to 192.0.2.0/25 lookup 202
ip rule add pref 112 to 192.0.2.128/25 lookup 202
ip rule add pref 112 to 198.51.100.0/24 lookup 77
ip rule add pref 150 to 203.0.113.0/24 lookup 202
ip rule add pref 160 fwmark 0x7 lookup 200
ip link set other0 up
ip address add 192.0.2.130/32 dev other0
ip route add 192.0.2.140/32 dev other0 table 200
ip route add local 192.0.2.130/32 dev other0 table 200 proto kernel
ip route add local 0.0.0.0/0 dev lo table 2004 proto kernel
ip link set other1 up
ip address add 192.0.2.150/28 dev other0
ip route add 10.233.65.0/24 via 192.0.2.151 dev other0 proto kernel
ip route add 10.233.66.0/24 via 192.0.2.151 dev other0 proto static
ip -6 address add fd00:1::1/64 dev other0 nodad
ip -6 route add fd00:2::/64 via fd00:1::2 dev other0 proto kernel
sh \"$0\"
sh \"$0\"
ip rule show | tr -s '\\t ' ' '
ip -6 rule show | tr -s '\\t ' ' '
ip route show table 200 | cut -d ' ' -f 1
ip route show table 2004 2>/dev/null || true
ip route show | cut -d ' ' -f 1
ip -6 route show dev other0 | cut -d ' ' -f 1
ls /sys/class/net
";
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/roles/network/cilium/files/clean.sh");
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "sh", "-c", script, program])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let expected = [
        "removed",
        "0: from all lookup local",
        "112: from all to 198.51.100.0/24 lookup 77",
        "150: from all to 203.0.113.0/24 lookup 202",
        "160: from all fwmark 0x7 lookup 200",
        "32766: from all lookup main",
        "32767: from all lookup default",
        "0: from all lookup local",
        "32766: from all lookup main",
        "192.0.2.140",
        "10.233.66.0/24",
        "192.0.2.144/28",
        "fd00:1::/64",
        "fe80::/64",
        "lo",
        "other0",
        "other1",
    ];
    assert_eq!(lines, expected, "{errors}");
}

#[test]
fn migration_names_its_nodes_or_that_none_is_to_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    fs::create_dir_all(folder.path().join("components")).unwrap();
    for marker in ["runtime-containerd", "network-bridge"] {
        fs::write(folder.path().join("components").join(marker), "").unwrap();
    }
    let steps = folder.path().join("roles/steps/tasks/migrate");
    fs::create_dir_all(&steps).unwrap();
    fs::write(steps.join("due.yml"), "- set_fact: {migrate_network_due: \"{{ inventory_hostname == changes }}\"}\n")
        .unwrap();
    let backup = folder.path().join("roles/backup/tasks");
    fs::create_dir_all(&backup).unwrap();
    fs::write(backup.join("before.yml"), "- debug: {msg: backed up}\n").unwrap();
    program(folder.path(), "kubectl", "true");
    let place = format!("bin_dir={at}");
    let reported = |role: &str, more: &[&str]| {
        let playbook = format!(
            "- hosts: k8s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.find: {{paths: '{at}/components'}}
      register: cluster_markers
    - ansible.builtin.import_role: {{name: {role}, tasks_from: backup}}
"
        );
        let options = ["--check", "-e", "kube_network_plugin=bridge", "-e", "migrate_network_role=steps"];
        let options = [&options[..], &["-e", "{cluster_silent_nodes: []}", "-e", place.as_str()], more].concat();
        let (code, text) = play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &options);
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let text = reported("migrate_runtime", &[]);
    assert!(
        text.contains("There is nothing to do: every node already has the runtime") && !text.contains("backed"),
        "{text}"
    );
    let text = reported("migrate_runtime", &["-e", "container_manager=crio"]);
    assert!(text.contains("The runtime changes on cp1, cp2.") && text.contains("backed up"), "{text}");
    let text = reported("migrate_network", &["-e", "changes=none"]);
    assert!(text.contains("There is nothing to do, unless an earlier run was interrupted"), "{text}");
    let text = reported("migrate_network", &["-e", "changes=cp2"]);
    assert!(text.contains("The routing changes on cp2."), "{text}");
}

/// The run was killed after all nodes had lost the former network, and before they had released its configuration.
#[test]
fn migration_killed_at_its_end_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let state = folder.path().join("network-migration");
    for directory in [&state, &folder.path().join("components")] {
        fs::create_dir_all(directory).unwrap();
    }
    for (name, content) in [("uses", "macvlan\n"), ("bridge.cni", "10-x"), ("macvlan.cni", "20-y"), ("other.cni", "z")]
    {
        fs::write(state.join(name), content).unwrap();
    }
    fs::write(folder.path().join("components/network-macvlan"), "").unwrap();
    program(folder.path(), "kubectl", "true");
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.find: {{paths: '{at}/components'}}
      register: cluster_markers
    - ansible.builtin.import_role: {{name: migrate_network, tasks_from: backup}}
    - ansible.builtin.import_role: {{name: migrate_network, tasks_from: begin}}
    - ansible.builtin.import_role: {{name: migrate_network}}
    - ansible.builtin.debug: {{msg: 'removes {{{{ migrate_network_replaced }}}}'}}
"
    );
    let bin = format!("bin_dir={at}");
    let options = ["-e", "kube_network_plugin=macvlan", "-e", "{cluster_silent_nodes: []}", "-e", &bin];
    let (code, text) = play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &options);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("unless an earlier run was interrupted, which this one ends"), "{text}");
    assert!(text.contains("removes bridge") && !text.contains("changed: ["), "{text}");
    // Once it has finished, there is no state either.
    fs::remove_dir_all(&state).unwrap();
    let (code, text) = play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &options);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("every node already has macvlan. This playbook changes the settings of bridge only"),
        "{text}"
    );
    assert!(!text.contains("changed: ["), "{text}");
}

/// A pod that starts while its node changes over creates the bridge again. One with ports belongs to the new network.
#[test]
fn bridge_without_pods_removed_from_a_node_with_another_network() {
    if !windlass_testing::has_all(&["root", "namespaces", "ip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: network/bridge, tasks_from: migrate/left}
";
    let inner = command(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", playbook, &[]);
    let script = "set -e
ip link set lo up
\"$@\"
ip link add cni0 type bridge
\"$@\"
ip link add cni0 type bridge
ip link add pod0 type veth peer name pod1
ip link set pod0 master cni0
\"$@\"
ip link show cni0 >/dev/null
";
    let mut outer = Command::new("unshare");
    outer.args(["--net", "sh", "-c", script, "sh"]);
    outer.arg(inner.get_program()).args(inner.get_args()).current_dir(folder.path());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("changed: [cp1]").count(), 1, "{text}");
}

/// podman keeps its networks in the same folders, and root may have kubeconfigs of other clusters.
#[test]
fn reset_leaves_files_of_others_in_shared_folders() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files = [
        (
            "etc/cni/net.d/87-podman.conflist",
            r#"{"cniVersion": "0.4.0","name": "podman", "plugins": [{"type": "bridge"}]}"#,
        ),
        (
            "etc/cni/net.d/00-windlass-migration.conflist",
            r#"{"cniVersion": "0.4.0","name": "windlass", "plugins": []}"#,
        ),
        ("run/kube-network-migration", "1\n"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", "2\n"),
        ("opt/cni/bin/loopback", ""),
        ("opt/cni/bin/own", ""),
        ("var/lib/cni/networks/podman/10.88.0.2", ""),
        ("var/lib/cni/networks/windlass/10.233.64.2", ""),
        ("var/lib/cni/results/podman-0123-eth0", ""),
        ("var/lib/cni/results/windlass-0123-eth0", ""),
        (
            "root/.kube/config",
            "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\nusers:\n- name: x\ncontexts:\n- context:\n    user: kubernetes-admin\n",
        ),
        ("root/.kube/config.before-windlass", "mine"),
    ];
    for (name, content) in files {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), content).unwrap();
    }
    let reset = |kubeconfig: &str| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/reset/files/shared.sh");
        let output = Command::new("sh").arg(script).arg(kubeconfig).arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // A worker never got a kubeconfig.
    reset("no");
    assert!(fs::read_to_string(at("root/.kube/config")).unwrap().contains("kubernetes-admin"));
    reset("yes");
    for (name, kept) in [
        ("etc/cni/net.d/87-podman.conflist", true),
        ("etc/cni/net.d/00-windlass-migration.conflist", false),
        ("run/kube-network-migration", false),
        ("opt/cni/bin/loopback", false),
        ("opt/cni/bin/own", true),
        ("var/lib/cni/networks/podman/10.88.0.2", true),
        ("var/lib/cni/networks/windlass", false),
        ("var/lib/cni/results/podman-0123-eth0", true),
        ("var/lib/cni/results/windlass-0123-eth0", false),
        ("root/.kube/config.before-windlass", false),
    ] {
        assert_eq!(at(name).exists(), kept, "{name}");
    }
    assert_eq!(fs::read_to_string(at("root/.kube/config")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(at("proc/sys/net/ipv4/conf/all/rp_filter")).unwrap(), "1\n");
    assert_eq!(reset("yes"), "", "a second reset finds nothing");

    for name in ["etc/cni/net.d/87-podman.conflist", "opt/cni/bin/own", "root/.kube/config"] {
        fs::remove_file(at(name)).unwrap();
    }
    reset("yes");
    for name in ["etc/cni", "opt/cni", "var/lib/cni", "root/.kube"] {
        assert!(!at(name).exists(), "{name} is empty and stays");
    }
}

#[test]
fn kubeconfig_of_another_cluster_recognised_before_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = |server: &str, authority: &str| {
        format!(
            "- cluster:\n    certificate-authority-data: {authority}\n    server: https://{server}:6443\n  name: x\n"
        )
    };
    let file =
        |clusters: &str| format!("apiVersion: v1\nclusters:\n{clusters}contexts:\nkind: Config\nusers:\n- name: x\n");
    fs::write(folder.path().join("admin.conf"), file(&cluster("10.0.0.1", "AA"))).unwrap();
    let foreign = |content: &str| {
        fs::write(folder.path().join("config"), content).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/control_plane/files/foreign.sh");
        let output =
            Command::new("sh").arg(script).args(["admin.conf", "config"]).current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap() == "foreign\n"
    };
    assert!(!foreign(&file(&cluster("10.0.0.1", "AA"))));
    assert!(!foreign(&file(&cluster("10.0.0.1", "rotated"))));
    assert!(!foreign(&file(&cluster("lb.example.com", "AA"))));
    assert!(!foreign(""));
    assert!(foreign(&file(&cluster("10.9.9.9", "BB"))));
    assert!(foreign(&file(&(cluster("10.0.0.1", "AA") + &cluster("10.9.9.9", "BB")))));
    assert!(foreign(&file("- cluster:\n    server: https://10.9.9.9:6443\n  name: y\n")));
}

#[test]
fn migration_of_the_runtime_does_not_delete_pods_without_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    fs::create_dir_all(folder.path().join("components")).unwrap();
    fs::write(folder.path().join("components/runtime-containerd"), "").unwrap();
    let backup = folder.path().join("roles/backup/tasks");
    fs::create_dir_all(&backup).unwrap();
    fs::write(backup.join("before.yml"), "- debug: {msg: backed up}\n").unwrap();
    program(
        folder.path(),
        "kubectl",
        "printf '%s\\n' shop/alone=cp2=Running= shop/done=cp2=Succeeded= shop/owned=cp2=Running=ReplicaSet \
         shop/elsewhere=w9=Running=",
    );
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.find: {{paths: '{at}/components'}}
      register: cluster_markers
    - ansible.builtin.import_role: {{name: migrate_runtime, tasks_from: backup}}
"
    );
    let migrated = |more: &[&str]| {
        let options = ["-e", "{cluster_silent_nodes: []}", "-e", "container_manager=crio", "-e"];
        let place = format!("bin_dir={at}");
        let options = [&options[..], &[place.as_str()], more].concat();
        play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &options)
    };
    let (code, text) = migrated(&[]);
    let refusal = "Nothing was changed. shop/alone has no controller, so a drain deletes it";
    assert!(code == Some(2) && text.contains(refusal) && !text.contains("backed up"), "{text}");
    let (code, text) = migrated(&["-e", "migrate_runtime_delete_pods=true"]);
    assert!(code == Some(0) && text.contains("backed up"), "{text}");
    // Without the list, nobody knows which pods would be lost.
    program(folder.path(), "kubectl", "exit 1");
    let (code, text) = migrated(&[]);
    assert!(code == Some(2) && !text.contains("backed up"), "{text}");
}
