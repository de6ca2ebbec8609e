//! Roles with lying hosts: their values reach files of other hosts and of the control machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A playbook on `cp1` and `cp2`, which are this machine, optionally in check mode.
fn command(folder: &Path, hosts: &str, playbook: &str, more: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let groups = "[etcd]\ncp1\ncp2\n[kube_node]\ncp1\ncp2\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n";
    let variables = format!(
        "[all:vars]\nansible_connection=local\nkube_config_dir={0}\nartifacts_dir={0}/here\n",
        folder.display()
    );
    fs::write(folder.join("hosts"), format!("[kube_control_plane]\n{hosts}{groups}{variables}")).unwrap();
    fs::write(folder.join("play.yml"), playbook).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command
        .args(["playbook", "-i", "hosts", "play.yml"])
        .args(more)
        .current_dir(folder)
        .env("WINDLASS_FAILURES", "ansible")
        .env("ANSIBLE_ROLES_PATH", root.join("roles"))
        .env("NO_COLOR", "1");
    command
}

/// Exit code and output of a playbook.
pub(crate) fn play(folder: &Path, hosts: &str, playbook: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = command(folder, hosts, playbook, more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn hostile_names_and_addresses_never_reach_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let lie = "a; touch b $(c) `d` | e & f > g \\\\ ' \\\" {{ 1 }}";
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  roles: [cluster]
  vars:
    kube_pod_range_lines: {{stdout_lines: ['cp1=10.0.0.0/24; touch x', cp2=10.0.1.0/24]}}
  tasks:
    - ansible.builtin.set_fact:
        ansible_default_ipv4: {{address: \"{lie}\"}}
        access_ip: !unsafe \"{lie}\"
        kube_override_hostname: !unsafe \"{lie}\"
        etcd_member_name: !unsafe \"{lie}\"
      delegate_to: cp2
      delegate_facts: true
    - ansible.builtin.copy:
        dest: {folder}/out
        content: \"{{{{ [kube_node_names, node_ips, node_access_ips, etcd_member_names, node_ips6, kube_pod_ranges] | to_json }}}}\"
",
        folder = folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ansible_host=10.0.0.2\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let out = fs::read_to_string(folder.path().join("out")).unwrap();
    assert!(out.contains("10.0.0.1") && out.contains("atouchb"), "{out}");
    assert!(!out.contains([';', '$', '`', '|', '&', '>', '\\', '\'']), "{out}");
    assert!(out.contains(r#""cp1": ["10.0.0.0/24"]"#) && out.contains(r#""cp2": ["10.0.1.0/24"]"#), "{out}");
}

#[test]
fn workers_are_no_members_of_etcd_in_pods() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    - ansible.builtin.assert:\n        \
         that: [\"etcd_clusters[0].members | dict2items | map(attribute='key') == groups['etcd']\"]\n";
    let variables = ["-e", "etcd_deployment_type=kubeadm"];
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n[kube_node]\nworker ip=10.0.0.3\n";
    let (code, text) = play(folder.path(), hosts, playbook, &variables);
    assert_eq!(code, Some(0), "{text}");
}

/// Control planes have the API server's port already.
#[test]
fn local_load_balancer_never_takes_the_port_of_the_api_server() {
    let folder = tempfile::tempdir().unwrap();
    for (port, taken) in [("6443", "8443"), ("7443", "7443")] {
        let playbook = format!(
            "- hosts: cp1\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    - ansible.builtin.assert:\n        \
             that: kube_apiserver_endpoint == '127.0.0.1:{taken}'\n"
        );
        let setting = format!("loadbalancer_apiserver_port={port}");
        let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
        let (code, text) = play(folder.path(), hosts, &playbook, &["-e", &setting]);
        assert_eq!(code, Some(0), "{text}");
    }
}

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

/// Left out is what controllers create again. Addresses, ports and volumes of others are not taken.
#[test]
fn objects_of_a_namespace_lose_what_the_server_sets() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {root}/tests/namespace/archive.yml
    - ansible.builtin.copy:
        dest: {folder}/objects
        content: \"{{{{ lookup('ansible.builtin.template', '{root}/roles/restore/templates/objects.json.j2') | from_json
          | to_nice_json }}}}\"
",
        root = root.display(),
        folder = folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let made = fs::read_to_string(folder.path().join("objects")).unwrap();
    let expected = fs::read_to_string(root.join("tests/namespace/expected.json")).unwrap();
    assert_eq!(made.trim(), expected.trim());
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
    let (node, pods) = (asked.find("delete node cp2"), asked.find(pods));
    assert!(node.is_some() && node < pods, "{asked}");
}

/// Only a workload's pods are named, those that crashed before others, and nothing that is done or has to wait. If the
/// workload is ready at the second look, all hosts continue.
#[test]
fn workload_that_is_not_ready_fails_with_the_reasons_of_its_pods() {
    let folder = tempfile::tempdir().unwrap();
    let pods = "host;kube-system;agent-1;node1;install;0;PodInitializing;;
host;kube-system;agent-2;node2;main;0;;;
host;kube-system;agent-3;node3;\"install\";4;\"CrashLoopBackOff\";;
host;kube-system;agent-4;node4;install;2;CrashLoopBackOff;;
host;kube-system;agent-5;node5;done;0;;0;
host;kube-system;other-1;node1;main;9;CrashLoopBackOff;;
host;kube-system;agent-6;;;0;Unschedulable;;\"0/3 nodes are available; no ports.\"
";
    fs::write(folder.path().join("pods"), pods).unwrap();
    let program = folder.path().join("kubectl");
    let script = "#!/bin/sh
case \"$*\" in
    *rollout*)
        [ -e FOLDER/never ] || ! rmdir FOLDER/soon 2>/dev/null || exit 0
        [ -e FOLDER/never ] || mkdir FOLDER/soon
        echo 'error: timed out waiting for the condition' >&2
        exit 1 ;;
    *'get pods --namespace=kube-system'*) cat FOLDER/pods ;;
    *'logs --namespace kube-system --container install --tail 5 --limit-bytes 20000 -- agent-3') echo 'FATAL no space left' ;;
    *'get events --namespace kube-system --field-selector involvedObject.name=agent-2,type=Warning'*)
        printf 'Unhealthy: old\\nUnhealthy: connection refused\\n' ;;
esac
";
    fs::write(&program, script.replace("FOLDER", &folder.path().display().to_string())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let playbook = "- hosts: cp1:cp2\n  gather_facts: false\n  tasks:\n    \
         - ansible.builtin.import_role: {name: cluster, tasks_from: objects_ready}\n      vars:\n        \
         cluster_workloads: [{kind: DaemonSet, name: agent, namespace: kube-system}]\n    \
         - ansible.builtin.debug: {msg: went on}\n";
    let bin = format!("bin_dir={}", folder.path().display());
    let play = || play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &bin]);
    let (code, text) = play();
    assert_eq!((code, text.matches("went on").count()), (Some(0), 2), "{text}");
    fs::write(folder.path().join("never"), "").unwrap();
    let (code, text) = play();
    assert_eq!(code, Some(2), "{text}");
    let reasons = [
        "daemonset agent is not ready: error: timed out waiting for the condition",
        "kube-system/agent-3 on node3, container install: CrashLoopBackOff, 4 restarts",
        "    FATAL no space left",
        "kube-system/agent-6 on no node: Unschedulable, 0 restarts",
        "    0/3 nodes are available; no ports.",
        "kube-system/agent-2 on node2, container main: running, but not ready, 0 restarts",
        "    Unhealthy: connection refused",
    ];
    let found: Vec<_> = reasons.iter().map(|reason| text.rfind(reason)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?} {text}");
    assert!(!text.contains("agent-4") && !text.contains("other-1") && !text.contains("went on"), "{text}");
}

/// The pod on a dead node never becomes ready, and Kubernetes replaces no other one meanwhile.
#[test]
fn daemonset_is_rolled_out_on_the_nodes_that_were_reached() {
    let folder = tempfile::tempdir().unwrap();
    // A kubelet words the other conditions, and forges no pod with them.
    let forged = r#"x\nu;old;cp2;;other;{\"status\":\"True\",\"type\":\"Ready\"}"#;
    let lines = |text: &str| {
        let conditions = |status: &str| {
            format!(r#";[{{"message":"{forged}","status":"False","type":"a"}},{{"status":"{status}","type":"Ready"}}]"#)
        };
        text.replace(";False\n", &(conditions("False") + "\n")).replace(";True\n", &(conditions("True") + "\n"))
    };
    fs::write(folder.path().join("later"), lines("u;old;cp1;now;agent-1;False\nu;new;cp2;;agent-3;True\n")).unwrap();
    fs::write(
        folder.path().join("pods"),
        lines("u;old;cp1;;agent-1;False\nu;old;cp2;;agent-2;True\n;x;cp2;;other;False\n"),
    )
    .unwrap();
    let script = "case \"$*\" in
    *'get daemonset agent'*) echo u 4 4 2 RollingUpdate ;;
    *'get controllerrevisions'*) printf 'u;old;9\\nu;new;10\\n;x;11\\n' ;;
    *'get pods'*) cat FOLDER/pods ;;
    *'delete pod agent-2'*) [ -e FOLDER/stuck ] || cp FOLDER/later FOLDER/pods ;;
    *) echo \"$@\" >> FOLDER/other; exit 1 ;;
esac";
    program(folder.path(), "kubectl", &script.replace("FOLDER", &folder.path().display().to_string()));
    let playbook = "- hosts: cp2
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: cluster, tasks_from: objects_ready}
      vars:
        first_kube_control_plane: cp2
        cluster_silent: [cp1]
        cluster_workloads: [{kind: DaemonSet, name: agent, namespace: kube-system}]
        cluster_rollout_seconds: 10
";
    let bin = format!("bin_dir={}", folder.path().display());
    let play = || play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &bin]);
    let (code, text) = play();
    assert_eq!(code, Some(0), "{text}");
    assert!(!folder.path().join("other").exists(), "{text}");

    fs::write(folder.path().join("stuck"), "").unwrap();
    fs::write(folder.path().join("pods"), lines("u;old;cp1;;agent-1;False\nu;old;cp2;;agent-2;True\n")).unwrap();
    let (code, text) = play();
    assert!(code == Some(2) && text.contains("outdated agent-2 cp2") && !text.contains("agent-1"), "{text}");
}

#[test]
fn hostile_facts_do_not_override_cluster_variables() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("library")).unwrap();
    let facts =
        r#"{"first_kube_control_plane": "localhost", "cluster_hosts": ["x"], "node_ips": {}, "main_ip": "6.6.6.6"}"#;
    let module = format!("#!/bin/sh\n# WANT_JSON\necho '{{\"changed\": false, \"ansible_facts\": {facts}}}'\n");
    fs::write(folder.path().join("library/liar"), module).unwrap();
    let playbook = "- hosts: cp2\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    - liar:\n    - ansible.builtin.assert:\n        \
         that: [first_kube_control_plane == 'cp1', \"cluster_hosts == ['cp1', 'cp2']\", main_ip == '10.0.0.2']\n";
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
}

/// apt on the host that resolves packages is a script that prints what the host likes.
#[test]
fn package_of_a_hostile_host_is_not_locked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let scripts = [
        ("apt-get", format!("#!/bin/sh\ncase $* in *print-uris*) cat {at}/addresses;; esac\n")),
        ("apt-cache", format!("#!/bin/sh\ncat {at}/descriptions\n")),
    ];
    for (name, text) in scripts {
        let program = folder.path().join(name);
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin'}}
  vars: {{common_required_pkgs: [socat], bridge_packages: [], host_time_packages: []}}
  tasks:
    - ansible.builtin.import_role: {{name: packages, tasks_from: system}}
    - ansible.builtin.import_role: {{name: packages}}
"
    );
    let facts = "ansible_pkg_mgr=apt ansible_os_family=Debian ansible_distribution=Debian \
                 ansible_distribution_release=bookworm ansible_architecture=x86_64";
    let hosts = format!("cp1 ip=10.0.0.1 {facts}\ncp2 ip=10.0.0.2 {facts}\n");
    let lock = folder.path().join("packages.json");
    let locked = |url: &str, depends: &str, file: &str, sum: &str| {
        fs::write(folder.path().join("addresses"), format!("'{url}' socat_1%3a1.7_amd64.deb 4\n")).unwrap();
        let fields = format!("Filename: {file}\nSize: 4\nSHA256: {sum}\nDepends: {depends}\n\n");
        let description = format!("Package: socat\nVersion: 1:1.7\nArchitecture: amd64\n{fields}");
        fs::write(folder.path().join("descriptions"), description).unwrap();
        play(folder.path(), &hosts, &playbook, &[])
    };
    let (url, depends, file) =
        ("http://example.com/pool/socat_1.7%2bb1.deb", "libc6 (>= 2.34), a | b", "pool/socat.deb");
    let sum = "0a".repeat(32);
    for (url, depends, file, sum) in [
        ("file:///etc/shadow", depends, file, sum.as_str()),
        ("http://user:secret@example.com/x.deb", depends, file, &sum),
        ("http://example.com/a/../../x.deb", depends, file, &sum),
        ("http://../x.deb", depends, file, &sum),
        (url, "libc6 {{ 1 }}", file, &sum),
        (url, depends, "pool/.deb", &sum),
        (url, depends, "pool/a b.deb", &sum),
        (url, depends, file, "0a"),
    ] {
        let (code, text) = locked(url, depends, file, sum);
        assert!(code == Some(2) && text.contains("cp1 answered with a line that describes no package"), "{text}");
        assert!(!lock.exists());
    }
    // Without a mirror, the reason is a sentence instead of the script.
    let apt = fs::read_to_string(folder.path().join("apt-get")).unwrap();
    fs::write(folder.path().join("apt-get"), "#!/bin/sh\necho \"E: Could not resolve 'deb.example'\" >&2\nexit 100\n")
        .unwrap();
    let (code, text) = locked(url, depends, file, &sum);
    let sentence = "Nothing was written. cp1 cannot resolve packages: apt-get update failed\\n  E: Could not resolve 'deb.example'";
    assert!(code == Some(2) && text.contains(sentence), "{text}");
    assert!(!text.contains("mktemp") && !lock.exists(), "{text}");
    fs::write(folder.path().join("apt-get"), apt).unwrap();
    let (code, text) = locked(url, depends, file, &sum);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(lock).unwrap().contains("\"url\": \"http://example.com/pool/socat_1.7%2bb1.deb\""));
}

/// The resolving host decides what all hosts of its system install, so a worker resolves only if no control plane can.
#[test]
fn packages_are_resolved_on_a_control_plane_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "apt-get", "echo \"E: no mirror\" >&2; exit 100");
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  environment: {{PATH: '{}:/usr/bin:/bin'}}
  vars: {{common_required_pkgs: [socat], bridge_packages: [], host_time_packages: []}}
  tasks:
    - ansible.builtin.import_role: {{name: packages, tasks_from: system}}
    - ansible.builtin.import_role: {{name: packages}}
",
        folder.path().display()
    );
    let facts = |release: &str| {
        format!(
            "ansible_pkg_mgr=apt ansible_os_family=Debian ansible_distribution=Debian \
             ansible_distribution_release={release} ansible_architecture=x86_64"
        )
    };
    let workers_first = ["-e", "packages_hosts=kube_node:kube_control_plane"];
    for (release, host) in [("bookworm", "cp2"), ("trixie", "cp1")] {
        let hosts = format!("cp2 ip=10.0.0.2 {}\n[kube_node]\ncp1 ip=10.0.0.1 {}\n", facts("bookworm"), facts(release));
        let (code, text) = play(folder.path(), &hosts, &playbook, &workers_first);
        assert!(code == Some(2) && text.contains(&format!("{host} cannot resolve packages")), "{text}");
    }
}

/// A kubelet may name any address as that of its pod, and root of every node would send a request there.
#[test]
fn probes_outside_of_the_pods_ranges_are_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let pod = |node: &str, address: &str, name: &str| {
        let containers = format!(r#"[{{"image":"a[b] c","name":"{name}","ready":true}}]"#);
        format!(r#"Pod {node} 0a-1  [{{"ip":"{address}"}},{{"ip":"fd00::1"}}] {containers}"#)
    };
    let forged = r"x\nPod cp2 0b-2  [{}] [{}]\u2028";
    let lines = [
        pod("cp1", "10.233.64.5", forged),
        pod("cp2", "169.254.169.254", "probe"),
        pod("other", "10.233.64.6", "probe"),
        "Service 10.233.0.9 0c-3 30001  ".to_owned(),
    ];
    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/verify/vars/main/network.yml");
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  roles: [cluster]
  vars: {{verify_image_port: 8080, verify_probe_lines: {{stdout: \"{{{{ lookup('ansible.builtin.file', 'lines') }}}}\"}}}}
  tasks:
    - ansible.builtin.include_vars: {}
    - ansible.builtin.set_fact: {{verify_reached: true}}
      delegate_to: \"{{{{ item }}}}\"
      delegate_facts: true
      loop: [cp1, cp2]
    - ansible.builtin.copy: {{dest: {}/targets, content: \"{{{{ verify_targets }}}}\"}}
",
        role.display(),
        folder.path().display()
    );
    fs::write(folder.path().join("lines"), lines.join("\n")).unwrap();
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let targets = fs::read_to_string(folder.path().join("targets")).unwrap();
    let targets: Vec<&str> = targets.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(
        targets,
        [
            "network.pod cp1 10.233.64.5:8080",
            "network.node cp1 10.233.64.5:8080",
            "network.service probe 10.233.0.9:80",
            "network.port cp1 10.0.0.1:30001",
            "network.port cp2 10.0.0.2:30001",
        ]
    );
}

/// A program for `PATH` or a variable of a role.
pub(crate) fn program(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// All nodes would lose their containers at the same time: `cluster.yml` changes them together.
#[test]
fn docker_below_running_containers_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    program(folder.path(), "docker", "echo 0123456789ab");
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin:/usr/sbin:/sbin'}}
  vars:
    container_manager: docker
    docker_bin_dir: {at}
    docker_packages: [windlass-no-such-package]
  tasks:
    - ansible.builtin.import_role: {{name: check, tasks_from: runtime}}
"
    );
    let checked = |systemctl: &str, markers: &str| {
        program(folder.path(), "systemctl", systemctl);
        let markers = format!("{{cluster_markers: {{files: {markers}}}}}");
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", &markers])
    };
    let marked = "[{path: /x/runtime-docker}]";
    let (code, text) = checked("exit 0", marked);
    assert!(code == Some(2) && text.contains("cp1 runs containers with Docker, which would stop"), "{text}");
    // Its node was drained and stopped.
    let (code, text) = checked("exit 3", marked);
    assert_eq!(code, Some(0), "{text}");
    // The host is not a node yet.
    let (code, text) = checked("exit 0", "[]");
    assert_eq!(code, Some(0), "{text}");
}

/// A restart ends all containers, and with them the API server of a control plane.
#[test]
fn docker_restarts_on_one_control_plane_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    program(folder.path(), "kubectl", &format!("echo ready >>{at}/log"));
    program(
        folder.path(),
        "systemctl",
        &format!(
            "case $1 in restart) echo restart >>{at}/log ;; esac; \
             echo LoadState=loaded; echo ActiveState=active; echo UnitFileState=enabled"
        ),
    );
    let playbook = format!(
        "- hosts: kube_control_plane
  gather_facts: false
  environment: {{PATH: '{at}:{{{{ lookup(\"env\", \"PATH\") }}}}'}}
  tasks:
    - ansible.builtin.command: echo changed
      register: docker_settings
    - ansible.builtin.include_role: {{name: runtime/docker, tasks_from: restart}}
      loop: [cp1, cp2]
      loop_control: {{loop_var: docker_turn}}
"
    );
    let place = format!("bin_dir={at}");
    let (code, text) = play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &["-e", &place]);
    assert_eq!(code, Some(0), "{text}");
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let each = "ready restart ready ";
    assert_eq!(log.replace('\n', " "), each.repeat(2), "{text}");
}

/// Its program would be replaced on all hosts at the same time, and the daemon would run on with parts of another
/// release.
#[test]
fn other_release_than_the_running_daemon_has_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    // GNU's sleep prints its release as daemons do.
    let mut daemon = Command::new("sleep").arg("300").spawn().unwrap();
    program(
        folder.path(),
        "systemctl",
        &format!("case \"$*\" in *containerd*) echo {} ;; *) echo 0 ;; esac", daemon.id()),
    );
    fs::write(folder.path().join("kubelet.conf"), "").unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin:/usr/sbin:/sbin'}}
  vars: {{kube_version: 1.33.1}}
  tasks:
    - ansible.builtin.import_role: {{name: check, tasks_from: running}}
"
    );
    let checked = |version: &str, markers: &str| {
        let variables = format!("{{containerd_version: '{version}', cluster_markers: {{files: {markers}}}}}");
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", &variables])
    };
    let printed = Command::new("sleep").arg("--version").output().unwrap().stdout;
    let line = String::from_utf8_lossy(&printed).lines().next().unwrap_or_default().to_owned();
    let release = line.rsplit(' ').next().unwrap().to_owned();
    let marked = "[{path: /x/runtime-containerd}]";
    let outcomes = [checked("99.1.2", marked), checked(&release, marked), checked("99.1.2", "[]")];
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let [(other, text), (same, _), (foreign, _)] = outcomes;
    let sentence = format!("cp1 runs containerd {release}, but containerd_version is 99.1.2");
    assert!(other == Some(2) && text.contains(&sentence) && text.contains("playbooks/upgrade.yml"), "{text}");
    assert_eq!((same, foreign), (Some(0), Some(0)), "only another release of the roles' containerd is refused");
}

#[test]
fn docker_refused_for_systems_without_its_packages() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  vars: {container_manager: docker, docker_version: latest}\n  tasks:\n    \
         - ansible.builtin.import_role: {name: check, tasks_from: runtime}\n";
    let amazon = ["-e", "ansible_distribution=Amazon", "-e", "ansible_os_family=RedHat"];
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &amazon);
    assert!(code == Some(2) && text.contains("cp1 runs Amazon, but the repository of Docker has packages"), "{text}");
}

const GOOD_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawsarhYJKwYBBAHaRw8BAQdAMfkAJaPYXmukQ0TnNeDldb2pZYZP2j4fLtkD
GhuWMVC0BGdvb2SIkAQTFggAOBYhBPaU9eIimDfAlHaV5TSNo+cYim+pBQJrCxqu
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEDSNo+cYim+pW/gBAJTkrFB5
3YuN5JDU9PrAvITgWGCzJ1Oqm3BL36KLytOHAP44VpopBYza0jrYFYVwgKhH0Ihu
EDiuZCAGqOEDB9HbAg==
=oWmF
-----END PGP PUBLIC KEY BLOCK-----
";
const GOOD_FINGERPRINT: &str = "F694F5E2229837C0947695E5348DA3E7188A6FA9";
const EVIL_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawsarhYJKwYBBAHaRw8BAQdAg6tizm+mejVtgUzUqTvpKdM9fG0Z5+1KKmvu
L3ZUZzm0BGV2aWyIkAQTFggAOBYhBKrgBx9/pgoYY2rF+rIgesMG/eWMBQJrCxqu
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJELIgesMG/eWM50oA/iVGWDCZ
f5cgqVUd6FjkmjQ8blQor5nMJoKs0L0n0Z4JAP0cbTI+wVXYsqv3J/hq8/TqonoY
v3FiKqwECgF7fBoEAw==
=NsC1
-----END PGP PUBLIC KEY BLOCK-----
";

/// gpg reads blocks of public keys alone, but apt trusts keys in blocks of any name.
#[test]
fn key_in_a_block_that_gpg_skips_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let installed = folder.path().join("docker.gpg");
    let playbook = "- hosts: cp1\n  gather_facts: false\n  vars: {container_manager: docker, ansible_distribution: Debian}\n  tasks:\n    \
         - ansible.builtin.include_role: {name: runtime/docker, tasks_from: key}\n";
    let variables = format!(
        "{{docker_debian_repo_gpgkey: 'file://{at}/key.asc', docker_debian_repo_repokey: {GOOD_FINGERPRINT},
          docker_key_file: {at}/docker.gpg}}"
    );
    let fetched = |key: &str| {
        fs::write(folder.path().join("key.asc"), key).unwrap();
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &variables])
    };
    for key in [format!("{GOOD_KEY}{EVIL_KEY}"), EVIL_KEY.to_owned(), "no key".to_owned()] {
        let (code, text) = fetched(&key);
        assert!(code == Some(2) && text.contains("so it was not trusted"), "{text}");
        assert!(!installed.exists());
    }
    let hidden = EVIL_KEY.replace("PGP PUBLIC KEY BLOCK", "X");
    let (code, text) = fetched(&format!("{hidden}{GOOD_KEY}"));
    assert_eq!(code, Some(0), "{text}");
    let bytes = fs::read(&installed).unwrap();
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    assert!(has(b"good") && !has(b"evil") && !has(b"-----BEGIN"));
    let (code, text) = fetched(&format!("{hidden}{GOOD_KEY}"));
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
}

#[test]
fn kubeconfig_with_exec_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let start = ["--start-at-task", "Fetch the kubeconfig"];
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let config = |user: &str| {
        format!("clusters: [{{name: c, cluster: {{\n  server: https://x:1\n}}}}]\nusers:\n- name: a\n  user: {user}\n")
    };
    let here = folder.path().join("here/admin.conf");

    for user in ["{exec: {command: sh}}", "{token: x, auth-provider: {name: gcp}}", "{client-key: /etc/shadow}"] {
        fs::write(folder.path().join("admin.conf"), config(user)).unwrap();
        let (code, text) = play(folder.path(), hosts, playbook, &start);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("only certificates, keys and tokens may be copied") && !here.exists(), "{text}");
    }
    // Whatever else the file has stays on the host, such as a proxy that would see the requests.
    let hostile = "clusters: [{name: c, cluster: {server: 'https://x:1', certificate-authority-data: eQ==, proxy-url: 'http://evil',
      insecure-skip-tls-verify: true, certificate-authority: /etc/shadow}}]\nusers:\n- name: a\n  user: {client-certificate-data: eA==,
      client-key-data: \"eA==\\n  exec: {command: sh}\"}\ncontexts: [{name: x, context: {cluster: evil, user: evil}}]\ncurrent-context: evil
extensions: [{name: e, extension: {exec: sh}}]\n";
    fs::write(folder.path().join("admin.conf"), hostile).unwrap();
    let (code, text) = play(folder.path(), hosts, playbook, &start);
    assert_eq!(code, Some(0), "{text}");
    let written = fs::read_to_string(here).unwrap();
    for line in [
        "server: https://10.0.0.1:6443",
        "certificate-authority-data: eQ==",
        "client-certificate-data: eA==",
        "current-context: a@c",
    ] {
        assert!(written.contains(line), "{line}: {written}");
    }
    assert!(!["evil", " exec", "insecure", "shadow", "proxy"].iter().any(|word| written.contains(word)), "{written}");
}

#[test]
fn kubectl_for_the_control_machine_never_comes_from_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let hosts = "cp1 ip=10.0.0.1 ansible_architecture=x86_64\ncp2 ip=10.0.0.2\n";
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let files = folder.path().join("files/example.com");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("kubectl"), "#!/bin/sh\necho \"kubectl $*\"\n").unwrap();
    let variables = |sum: &str| {
        format!(
            "{{kubectl_localhost: true, download_from: controller, files_dir: {}/files, download_retries: 0,
              kubectl_download_url: 'https://example.com/kubectl', kubectl_checksum: 'sha256:{sum}'}}",
            folder.path().display()
        )
    };
    let wrong = variables(&"0".repeat(64));
    let start = ["--start-at-task", "Fetch the kubeconfig", "-e"];
    let (code, text) = play(folder.path(), hosts, playbook, &[&start[..], &[wrong.as_str()]].concat());
    let here = folder.path().join("here");
    assert!(code == Some(2) && text.contains("did not match") && !here.join("kubectl").exists(), "{text}");

    let right = variables("5903d7d4e5a680ea7b7ed89f5059f20ddcac22cc14bdf8257a0901053d9ea05f");
    let (code, text) = play(folder.path(), hosts, playbook, &[&start[..], &[right.as_str()]].concat());
    assert_eq!(code, Some(0), "{text}");
    let output = Command::new(here.join("kubectl.sh")).args(["get", "nodes"]).output().unwrap();
    let expected = format!("kubectl --kubeconfig {}/admin.conf get nodes\n", here.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn failed_download_of_a_role_is_repeated() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        // A mirror that fails, one that sends half of the file, and a whole one.
        for answer in [
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nkub",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nkubect",
        ] {
            let mut stream = server.accept().unwrap().0;
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let variables = format!(
        "{{kubectl_localhost: true, download_from: url, download_retries: 2,
          kubectl_download_url: 'http://127.0.0.1:{port}/kubectl',
          kubectl_checksum: 'sha256:62a553ab9728438957c8003a19df5d1663c1db7bff31c254fe0dc4f8cf9c3889'}}"
    );
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let arguments = ["--start-at-task", "Fetch the kubeconfig", "-e", variables.as_str()];
    let hosts = "cp1 ip=10.0.0.1 ansible_architecture=x86_64\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("FAILED - RETRYING").count(), 2, "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("here/kubectl")).unwrap(), "kubect");
    serving.join().unwrap();
}

/// A run for another host, such as a new worker, may not replace kubectl by that of its architecture.
#[test]
fn kubectl_follows_the_architecture_of_the_first_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let kubectl = folder.path().join("here/kubectl");
    let run = |architecture: &str, checksums: &str| {
        for name in ["amd64", "arm64"] {
            let below = folder.path().join("files/dl.k8s.io/release/v1.34.1/bin/linux").join(name);
            fs::create_dir_all(&below).unwrap();
            fs::write(below.join("kubectl"), format!("{name}\n")).unwrap();
        }
        let hosts = format!("cp1 ip=10.0.0.1 {architecture}\ncp2 ip=10.0.0.2 ansible_architecture=aarch64\n");
        let playbook = "- hosts: cp2\n  gather_facts: false\n  roles: [kubeconfig]\n";
        let variables = format!(
            "{{kubectl_localhost: true, download_from: controller, files_dir: {}/files, download_retries: 0,
              kube_version: 1.34.1, kubectl_checksums: {checksums}}}",
            folder.path().display()
        );
        play(folder.path(), &hosts, playbook, &["--start-at-task", "Fetch the kubeconfig", "-e", variables.as_str()])
    };
    let sum = "sha256:d54d20eadbec9c9cc5ac6e0e371abc96d64a0d724d1cf45297fab6098026a69d";
    let known = format!("{{amd64: {{1.34.1: '{sum}'}}, arm64: {{}}}}");
    let (code, text) = run("", &known);
    assert!(code == Some(0) && !kubectl.exists(), "{text}");
    let (code, text) = run("ansible_architecture=../arm64", &known);
    assert!(code == Some(0) && !kubectl.exists(), "{text}");
    let (code, text) = run("ansible_architecture=x86_64", "{amd64: {}}");
    assert!(code == Some(2) && text.contains("There is no checksum for https://dl.k8s.io/"), "{text}");
    assert!(!kubectl.exists());
    let (code, text) = run("ansible_architecture=x86_64", &known);
    assert_eq!((code, fs::read_to_string(&kubectl).ok().as_deref()), (Some(0), Some("amd64\n")), "{text}");
}

#[test]
fn login_of_a_chart_repository_is_not_on_a_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let helm = format!(
        "#!/bin/sh\necho \"$@\" >> {0}\ncase \"$1 $2\" in 'repo add') cat >> {0} ;; *) echo '[]' ;; esac\n",
        calls.display()
    );
    for (name, content) in [("helm", helm.as_str()), ("admin.conf", "")] {
        fs::write(folder.path().join(name), content).unwrap();
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir(folder.path().join("components")).unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: chart}
      vars:
        cluster_objects_name: custom_cni
        cluster_helm: []
        cluster_chart: {name: n, namespace: x, ref: r/n, repository_name: r, repository_url: 'https://c.example.com',
          repository_username: ann, repository_password: s3cret9}
";
    let programs = format!("bin_dir={}", folder.path().display());
    let (_, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-v", "-e", &programs]);
    assert!(!text.contains("s3cret9"), "{text}");
    let called = fs::read_to_string(calls).unwrap();
    let expected = "repo add r https://c.example.com --username=ann --password-stdin --force-update\ns3cret9";
    assert!(called.contains(expected), "{called}\n{text}");
}

/// In check mode, so that the resolver of this machine stays.
#[test]
fn resolver_of_a_host_configured_where_it_is_managed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin'}}
  vars: {{dns_mode: manual, manual_dns_server: 10.9.0.1, enable_nodelocaldns: false}}
  tasks:
    - ansible.builtin.import_role: {{name: resolver, tasks_from: validate}}
    - ansible.builtin.import_role: {{name: resolver}}
    - ansible.builtin.import_role: {{name: resolver, tasks_from: hosts}}
"
    );
    let changed = |manager: &str, mode: &str| {
        let active = format!("*is-active*{manager}.service*) exit 0 ;;");
        let shown = "*show*) printf 'LoadState=loaded\\nActiveState=active\\n' ;;";
        program(folder.path(), "systemctl", &format!("case \"$*\" in {active} {shown} *) exit 3 ;; esac"));
        let mode = format!("resolvconf_mode={mode}");
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2\n", &playbook, &["--check", "-e", &mode]);
        assert_eq!(code, Some(0), "{text}");
        let mut task = "";
        let mut changed = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("TASK [resolver : ") {
                Some(name) => task = name.split(']').next().unwrap(),
                None if line.starts_with("changed: ") => changed.push(task.to_owned()),
                None => {}
            }
        }
        changed
    };
    let upstream = "Write the servers for names outside of the cluster";
    for (manager, tasks) in [
        (
            "systemd-resolved",
            &[
                "Create the folder of systemd-resolved",
                "Write the settings of systemd-resolved",
                "Check whether systemd-resolved runs with older settings",
                "Restart systemd-resolved with its settings",
            ][..],
        ),
        ("NetworkManager", &["Write the settings of NetworkManager", "Reload NetworkManager"]),
        ("none", &["Back up the host's resolv.conf", "Write the host's resolv.conf"]),
    ] {
        let found = changed(manager, "host_resolvconf");
        assert_eq!(found, [&[upstream][..], tasks].concat(), "{manager}");
        assert!(changed(manager, "none").is_empty(), "{manager}");
    }
}

#[test]
fn variables_of_kubelet_csr_approver_reach_its_chart() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let helm = format!(
        "echo \"$HELM_NAMESPACE: $@\" >> {at}/calls
case $1 in --version=*) for word; do case $word in -f=*) cat ${{word#-f=}} >> {at}/calls ;; esac; done ;; *) echo '[]' ;; esac"
    );
    program(folder.path(), "helm", &helm);
    fs::write(folder.path().join("admin.conf"), "").unwrap();
    fs::create_dir(folder.path().join("components")).unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: addon/kubelet_csr_approver, tasks_from: '{{ item }}', public: true}
      loop: [validate, install]
";
    let run = |more: &str| {
        let _ = fs::remove_file(folder.path().join("calls"));
        let variables = format!(
            "{{bin_dir: {at}, cluster_helm: [], kubelet_rotate_server_certificates: true, kubelet_csr_approver_namespace: certs,
              kubelet_csr_approver_chart_version: 1.2.3, kubelet_csr_approver_values: {{providerRegex: ^node-, replicas: 3}}, {more}}}"
        );
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &variables]);
        (code, text, fs::read_to_string(folder.path().join("calls")).unwrap_or_default())
    };
    let repository =
        "kubelet_csr_approver_repository_name: own, kubelet_csr_approver_repository_url: 'https://charts.example.com'";
    let (code, text, calls) = run(repository);
    assert_eq!(code, Some(0), "{text}");
    let upgrade = calls.lines().find(|line| line.contains(" upgrade ")).unwrap_or_default();
    assert!(calls.contains(": repo add own https://charts.example.com\n"), "{calls}");
    assert!(upgrade.starts_with("certs: --version=1.2.3 upgrade "), "{calls}");
    assert!(upgrade.ends_with(" kubelet-csr-approver own/kubelet-csr-approver"), "{calls}");
    assert!(calls.contains(r#"{"providerRegex":"^node-","replicas":3}"#), "{calls}");

    // A chart without a repository.
    let none = "kubelet_csr_approver_repository_name: '', kubelet_csr_approver_chart_ref: /srv/approver";
    let (code, text, calls) = run(&format!("{none}, kubelet_csr_approver_repository_url: ''"));
    assert_eq!(code, Some(0), "{text}");
    assert!(!calls.contains("repo add") && calls.contains(" kubelet-csr-approver /srv/approver\n"), "{calls}");
    let (code, text, calls) = run(none);
    assert!(code == Some(2) && text.contains("but Helm needs both for a repository") && calls.is_empty(), "{text}");
}

/// Two control planes with files of their own.
fn control_planes(folder: &Path, files: &[&str]) -> String {
    for name in files {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), "").unwrap();
    }
    let at = folder.display();
    format!("cp1 ip=10.0.0.1 kube_config_dir={at}/cp1\ncp2 ip=10.0.0.2 kube_config_dir={at}/cp2\n")
}

const FIND: &str = "- hosts: kube_control_plane
  gather_facts: false
  tasks:
    - ansible.builtin.find: {paths: '{{ kube_config_dir }}/components', file_type: any, get_checksum: true}
      register: cluster_markers
";

/// While the first control plane was away, another one had installed them. It must not remove them once the first is
/// back.
#[test]
fn addons_of_a_former_first_control_plane_stay() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/runtime-x", "cp2/components/addon-coredns"]);
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}\n      \
         vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("included: addon/coredns for cp1") && !text.contains("Delete CoreDNS"), "{text}");
    // If it is no longer wanted, the first control plane removes it once.
    let (code, text) = play(folder.path(), &hosts, &playbook, &["-e", "dns_mode=none"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Delete CoreDNS"), "{text}");
    assert!(text.contains("ok: [cp1 -> cp2]"), "its record is deleted on all control planes:\n{text}");
}

/// Its record would go, and its objects would stay for ever.
#[test]
fn addon_is_not_forgotten_while_the_api_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/addon-metrics_server", "cp2/admin.conf"]);
    program(folder.path(), "kubectl", "echo connection refused >&2; exit 1");
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}\n      \
         vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    let variables = format!("{{dns_mode: none, bin_dir: '{}'}}", folder.path().display());
    let (code, text) = play(folder.path(), &hosts, &playbook, &["-e", &variables]);
    assert!(
        code == Some(2) && text.contains("addon/metrics_server is no longer chosen, but the API did not answer"),
        "{text}"
    );
    assert!(folder.path().join("cp1/components/addon-metrics_server").exists());
}

/// Otherwise nothing would know what to delete once the control plane with the records is replaced.
#[test]
fn records_of_objects_follow_to_other_control_planes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-b.yaml", "cp2/components/release-a.yaml"]);
    fs::write(folder.path().join("cp2/components/release-a.yaml"), "release").unwrap();
    let newer = fs::File::create(folder.path().join("cp2/components/objects-b.yaml")).unwrap();
    newer.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    fs::write(folder.path().join("cp1/components/objects-b.yaml"), "old").unwrap();
    let playbook = format!("{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: records}}\n");
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(file("cp1/components/release-a.yaml"), "release", "{text}");
    assert_eq!(file("cp1/components/objects-b.yaml"), "", "{text}");
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert!(code == Some(0) && text.contains("changed=0") && !text.contains("changed=1"), "{text}");
}

/// Otherwise the control plane would delete those objects again when it returns, or bring the records back on all.
#[test]
fn records_deleted_while_a_control_plane_was_away_are_deleted_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(folder.path().join(name));
    let old = ["cp1/components/addon-metrics_server", "cp1/components/objects-b.yaml", "cp1/components/objects-c.yaml"];
    let hosts = control_planes(folder.path(), &old);
    control_planes(folder.path(), &["cp2/components/records-9", "cp2/components/records-10"]);
    // The clock of the host that returns may be wrong.
    fs::write(folder.path().join("cp2/components/objects-c.yaml"), "current").unwrap();
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    fs::File::create(folder.path().join("cp1/components/objects-c.yaml")).unwrap().set_modified(future).unwrap();
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: records}}
    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}
      vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    for (options, changed) in [(&["--check"][..], true), (&[], true), (&[], false)] {
        let (code, text) = play(folder.path(), &hosts, &playbook, &[options, &["-e", "dns_mode=none"]].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("Remove the component") && text.contains("changed=0"), "{text}");
        assert_eq!(text.matches("changed=0").count(), if changed { 1 } else { 2 }, "only cp1 changes: {text}");
    }
    assert!(file("cp1/components/addon-metrics_server").is_err() && file("cp1/components/objects-b.yaml").is_err());
    assert!(file("cp1/components/records-10").is_ok());
    assert_eq!(file("cp1/components/objects-c.yaml").unwrap(), "current");
    assert_eq!(file("cp2/components/objects-c.yaml").unwrap(), "current");
}

/// A file of the control machine, or of another host, would become a record on all control planes.
#[test]
fn path_that_a_control_plane_reports_names_no_record_on_another_host() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-b.yaml", "cp2/components/objects-c.yaml"]);
    let secret = folder.path().join("secret.yaml");
    fs::write(&secret, "secret of the control machine").unwrap();
    let lie = format!(
        "    - ansible.builtin.set_fact:
        cluster_markers: {{files: [{{path: \"/x\\nlocalhost={}\\ncp2=/x/objects-z.yaml\", mtime: 9999999999.0, checksum: x}}]}}
      when: inventory_hostname == 'cp2'\n",
        secret.display()
    );
    let records = "    - ansible.builtin.include_role: {name: cluster, tasks_from: records}\n";
    let (_, text) = play(folder.path(), &hosts, &format!("{FIND}{lie}{records}"), &[]);
    assert!(!text.contains("-> localhost") && text.contains("-> cp2"), "{text}");
    let copied = fs::read_dir(folder.path().join("cp1/components")).unwrap();
    for file in copied {
        assert!(!fs::read_to_string(file.unwrap().path()).unwrap().contains("secret"), "{text}");
    }
}

/// A run that was killed leaves objects, and the addon may be disabled before the next one.
#[test]
fn objects_are_recorded_before_they_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-x.yaml"]);
    let config = "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],
        contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c, users: [{name: u, user: {token: t}}]}";
    fs::write(folder.path().join("cp1/admin.conf"), config).unwrap();
    let record = folder.path().join("cp1/components/objects-x.yaml");
    fs::write(&record, "[{apiVersion: v1, kind: ConfigMap, name: old, namespace: default}]").unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: objects}
      vars:
        cluster_objects_name: x
        cluster_objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: default}}]
";
    // Nothing answers, so it tries again until it is killed.
    let mut run = command(folder.path(), &hosts, playbook, &[]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let recorded = || fs::read_to_string(&record).unwrap();
    while !recorded().contains("name: new") {
        assert!(run.try_wait().unwrap().is_none(), "it ended without a record of the new object");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(recorded().contains("name: old"), "{}", recorded());
}

#[test]
fn release_of_a_chart_is_recorded_before_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/admin.conf", "cp1/components/runtime-x"]);
    let calls = folder.path().join("calls");
    let script = "case \"$1\" in upgrade|install) exit 1 ;; uninstall) echo \"$@\" >> CALLS ;;
        *) echo '[{\"name\":\"n\",\"namespace\":\"x\",\"revision\":\"1\",\"status\":\"failed\",\"chart\":\"n-1\",\"app_version\":\"1\"}]' ;; esac";
    program(folder.path(), "helm", &script.replace("CALLS", &calls.display().to_string()));
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: '{{ step }}'}
      vars: {cluster_objects_name: c, cluster_helm: [], cluster_chart: {name: n, namespace: x, ref: r}, cluster_objects_api: {rc: 0}}
";
    let programs = format!("bin_dir={}", folder.path().display());
    let (code, text) = play(folder.path(), &hosts, playbook, &["-e", &programs, "-e", "step=chart"]);
    assert_eq!(code, Some(2), "{text}");
    let record = folder.path().join("cp1/components/release-c.yaml");
    assert!(record.exists(), "{text}");
    let (code, text) = play(folder.path(), &hosts, playbook, &["-e", &programs, "-e", "step=chart_delete"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(calls).unwrap_or_default().contains("uninstall"), "{text}");
    assert!(!record.exists(), "{text}");
    // The run did not reach cp2, which may have the record too.
    assert!(folder.path().join("cp1/components/records-1").exists(), "{text}");
}

#[test]
fn networks_and_addresses_of_a_running_cluster_stay() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::create_dir_all(folder.path().join("components")).unwrap();
    let write = |name: &str, text: &str| fs::write(manifests.join(name), format!("    - {text}\n")).unwrap();
    write("kube-apiserver.yaml", "--service-cluster-ip-range=10.233.0.0/18");
    write("kube-controller-manager.yaml", "--cluster-cidr=10.233.64.0/18");
    write("etcd.yaml", "--initial-advertise-peer-urls=https://10.0.0.1:2380");
    fs::write(folder.path().join("components/network-bridge"), "").unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.find: {paths: \"{{ cluster_markers_dir }}\", file_type: any}
      register: cluster_markers
    - ansible.builtin.set_fact: {check_machine: {stdout_lines: [\"{{ joined | default('node') }}\"]}}
    - ansible.builtin.import_role: {name: check, tasks_from: kept}
";
    let checked = |address: &str, more: &str| {
        let hosts = format!("cp1 ip={address}\ncp2 ip=10.0.0.2\n");
        play(folder.path(), &hosts, playbook, &["-e", "etcd_deployment_type=kubeadm", "-e", more])
    };
    let (code, text) = checked("10.0.0.1", "{}");
    assert_eq!(code, Some(0), "{text}");
    // IPv6 in addition takes nothing away.
    let (code, text) = checked("10.0.0.1", "{ipv6_stack: true}");
    assert_eq!(code, Some(0), "{text}");
    // A first run that did not get far leaves the choice open.
    let (code, text) = checked("10.0.0.1", "{kube_network_plugin: calico, joined: none}");
    assert_eq!(code, Some(0), "{text}");
    for (name, address, change, sentence) in [
        (
            "network_plugin",
            "10.0.0.1",
            "kube_network_plugin: calico",
            "The network plugin of cp1 is bridge in the running",
        ),
        ("service_network", "10.0.0.1", "kube_service_addresses: 10.96.0.0/16", "is 10.233.0.0/18 in the running"),
        ("pod_network", "10.0.0.1", "kube_pods_subnet: 10.97.0.0/16", "but 10.97.0.0/16 in the inventory"),
        (
            "etcd_addresses",
            "10.0.0.9",
            "dns_mode: none",
            "exchange the address on the host, and run playbooks/scale.yml -e node=cp1",
        ),
    ] {
        let (code, text) = checked(address, &format!("{{{change}}}"));
        assert!(code == Some(2) && text.contains(sentence), "{text}");
        let (code, text) = checked(address, &format!("{{{change}, allowed_cluster_changes: [{name}]}}"));
        assert_eq!(code, Some(0), "{text}");
    }
    write("kube-apiserver.yaml", "--advertise-address=10.0.0.8");
    let (code, text) = checked("10.0.0.1", "{}");
    assert!(
        code == Some(2) && text.contains("The address of the API server of cp1 is 10.0.0.8 in the running"),
        "{text}"
    );
    assert!(text.contains("exchange the address on the host, and run playbooks/scale.yml -e node=cp1"), "{text}");
    for kept in [
        "allowed_cluster_changes: [control_plane_addresses]",
        "kube_kubeadm_apiserver_extra_args: {advertise-address: 10.0.0.8}",
    ] {
        let (code, text) = checked("10.0.0.1", &format!("{{{kept}}}"));
        assert_eq!(code, Some(0), "{text}");
    }
    // kubeadm writes the short form.
    write("kube-apiserver.yaml", "--advertise-address=fd97::1");
    write("etcd.yaml", "--initial-advertise-peer-urls=https://[fd97::1]:2380");
    let only = "{ipv4_stack: false, ipv6_stack: true, allowed_cluster_changes: [service_network, pod_network]}";
    let options = ["-e", "etcd_deployment_type=kubeadm", "-e", only];
    for (address, code) in [("FD97:0::1", 0), ("fd97::9", 2)] {
        let hosts = format!("cp1 ip6={address}\ncp2 ip6=fd97::2\n");
        let (ended, text) = play(folder.path(), &hosts, playbook, &options);
        assert!(ended == Some(code) && (code == 0 || text.contains("Restore ip6; or")), "{text}");
    }
    // In check mode, playbooks/replace_node.yml has not removed it.
    let replaced = ["-e", "etcd_deployment_type=kubeadm", "-e", "{replace_node: true, node: cp1}", "--check"];
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.9\ncp2 ip=10.0.0.2\n", playbook, &replaced);
    assert_eq!(code, Some(0), "{text}");
}

/// Static pods and pods of users keep running; a marker of an interrupted run makes it happen again.
#[test]
fn node_that_moved_restarts_pods_of_daemon_sets_in_its_network() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let script = format!(
        "case \"$*\" in *'get node'*) echo 10.0.0.2 10.0.0.1 ;; *'get pods'*) printf 'kube-system proxy DaemonSet\\nx own ReplicaSet\\ny static Node\\n' ;;
        *) echo \"$@\" >> {} ;; esac",
        calls.display()
    );
    program(folder.path(), "kubectl", &script);
    fs::create_dir_all(folder.path().join("components")).unwrap();
    let marker = folder.path().join("components/node-moves");
    fs::write(&marker, "").unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.find: {paths: \"{{ kube_config_dir }}/components\", file_type: any}
      register: cluster_markers
    - ansible.builtin.import_role: {name: node, tasks_from: moved}
      when: cluster_node_moves
";
    let programs = format!("bin_dir={}", folder.path().display());
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs]);
    assert_eq!(code, Some(0), "{text}");
    let deleted = fs::read_to_string(&calls).unwrap();
    assert!(deleted.contains("--namespace kube-system delete pod proxy "), "{deleted}");
    assert_eq!(deleted.lines().count(), 1, "{deleted}");
    assert!(!marker.exists());
    let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs]);
    assert!(code == Some(0) && text.contains("changed=0 "), "{text}");
}

/// Agents of networks would start again with the other one's old address.
#[test]
fn node_that_moved_restarts_pods_only_once_it_reports_both_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; echo \"$*\" >>calls
case \"$*\" in
*'get node'*) if [ -e asked ]; then echo 10.0.0.1 fd97::1; else touch asked; echo 10.0.0.1 fd97::9; fi ;;
*'get pods'*) echo kube-system proxy DaemonSet ;;
esac",
        folder.path().display()
    );
    program(folder.path(), "kubectl", &script);
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: node, tasks_from: moved}
";
    let more = ["-e", &format!("bin_dir={}", folder.path().display()), "-e", "ipv6_stack=true"];
    let hosts = "cp1 ip=10.0.0.1 ip6=FD97:0::1\ncp2 ip=10.0.0.2 ip6=fd97::2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &more);
    assert_eq!(code, Some(0), "{text}");
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let asked = calls.lines().take_while(|call| !call.contains("delete pod")).filter(|call| call.contains("get node"));
    assert_eq!(asked.count(), 2, "{calls}");
}

/// kubelet has requested the new one already, and would not miss it before it restarts.
#[test]
fn serving_certificate_of_a_node_that_moves_removed_only_while_kubelet_has_the_old_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: kubelet, tasks_from: moves}
";
    for (before, removed) in [("10.0.0.1,fd97::9", true), ("10.0.0.1,fd97::1", false)] {
        let kept = format!("{{check_kept: {{stdout_lines: ['node {before}']}}}}");
        let both = "{ipv6_stack: true, kubelet_rotate_server_certificates: true}";
        let hosts = "cp1 ip=10.0.0.1 ip6=fd97::1\ncp2 ip=10.0.0.2 ip6=fd97::2\n";
        let (code, text) = play(folder.path(), hosts, playbook, &["-e", &kept, "-e", both, "--check"]);
        assert_eq!(code, Some(0), "{text}");
        let (_, after) = text.split_once("Remove the serving certificate").unwrap();
        assert_eq!(!after.contains("skipping: [cp1]"), removed, "{before}: {text}");
    }
}

/// A request that was approved for the address before does not end the wait for the one with the new address.
#[test]
fn serving_certificate_of_a_node_that_moved_is_approved_again() {
    for (old, new, variables) in [
        ("IP:10.0.0.9", "IP:10.0.0.1", "{}"),
        ("IP:10.0.0.1,IP:fd97::9", "IP:10.0.0.1,IP:fd97::1", "{ipv6_stack: true}"),
        ("IP:fd97::9", "IP:fd97::1", "{ipv4_stack: false, ipv6_stack: true}"),
    ] {
        let (code, text, calls) = approvals(&[("csr-old", old, "Approved")], &[("csr-new", new, "")], variables);
        assert!(code == Some(0) && text.contains("changed=1 "), "{text}");
        assert!(calls.contains("csr-new/approval") && !calls.contains("csr-old/approval"), "{calls}");
    }
}

/// The addresses are facts of the host, and the request has headers that openssl obeys and Go ignores.
#[test]
fn serving_certificate_of_a_host_that_reports_other_addresses_is_not_approved() {
    let facts = "{ansible_default_ipv4: {address: 10.233.0.1}, ansible_default_ipv6: {address: 'fd97::5'}, \
                 ansible_all_ipv4_addresses: [10.233.0.1], ipv6_stack: true}";
    let attacks = [
        ("csr-service", "IP:10.233.0.1", ""),
        ("csr-api", "DNS:kubernetes.default.svc", ""),
        ("csr-plane", "IP:10.0.0.2", ""),
        ("csr-ipv6", "IP:fd97::5", ""),
        ("csr-headers", "DNS:kubernetes", "headers"),
    ];
    let (code, text, calls) = approvals(&attacks, &[("csr-own", "IP:10.0.0.1", "")], facts);
    assert_eq!(code, Some(0), "{text}");
    assert!(calls.contains("csr-own/approval"), "{calls}");
    for (name, ..) in attacks {
        assert!(!calls.contains(&format!("{name}/approval")) && text.contains(name), "{calls}{text}");
    }
}

/// Code and output of the role's approval, and the calls of kubectl. Requests of cp1 have a name, an alternative name
/// and a condition; the later ones appear at the second query.
fn approvals(
    first: &[(&str, &str, &str)],
    later: &[(&str, &str, &str)],
    variables: &str,
) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let lines = |requests: &[(&str, &str, &str)]| -> String {
        requests.iter().map(|(name, names, condition)| format!("request {name} {names} {condition}\n")).collect()
    };
    let script = format!(
        r#"cd {at}; echo "$@" >> calls
comma=
request() {{
    content=$(openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key \
        -subj /O=system:nodes/CN=system:node:cp1 -addext "subjectAltName=DNS:cp1,$2" 2>/dev/null)
    conditions=
    case "$3" in
    headers) content=$(printf '%s\n' "$content" | sed '1a Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n') ;;
    ?*) conditions="{{\"type\": \"$3\"}}" ;;
    esac
    cat <<END
$comma{{"metadata": {{"name": "$1", "uid": "u", "resourceVersion": "1"}},
 "spec": {{"signerName": "kubernetes.io/kubelet-serving", "username": "system:node:cp1", "groups": ["system:nodes"],
 "usages": ["digital signature", "server auth"], "request": "$(printf '%s\n' "$content" | base64 -w 0)"}},
 "status": {{"conditions": [$conditions]}}}}
END
    comma=,
}}
case "$*" in
*replace*) cat >/dev/null ;;
*certificatesigningrequests*)
    echo '{{"items": ['
    {}
    if [ -e asked ]; then
    {}
    :; fi; touch asked
    echo ']}}' ;;
esac"#,
        lines(first),
        lines(later)
    );
    program(folder.path(), "kubectl", &script);
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: node, tasks_from: certificates}
";
    let programs = format!("bin_dir={at}");
    let hosts = "cp1 ip=10.0.0.1 ip6=FD97:0::1\ncp2 ip=10.0.0.2 ip6=fd97::2\n";
    let hosts =
        if variables.contains("ansible_default_ipv4") { "cp1 ansible_host=10.0.0.1\ncp2 ip=10.0.0.2\n" } else { hosts };
    let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs, "-e", variables]);
    (code, text, fs::read_to_string(folder.path().join("calls")).unwrap_or_default())
}

/// Firewalls and routes of the others would trust the address.
#[test]
fn address_that_a_host_reports_falsely_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = |hosts: &str, facts: &str, more: &str| {
        let playbook = format!(
            "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {facts}
      delegate_to: cp2
      delegate_facts: true
    - ansible.builtin.include_role: {{name: cluster, tasks_from: addresses}}
"
        );
        play(folder.path(), hosts, &playbook, &["-e", more])
    };
    let own = "cp1 ip=10.0.0.1 access_ip=10.9.9.9\ncp2 ansible_host=192.0.2.2\n";
    let four = |address: &str| format!("{{ansible_default_ipv4: {{address: '{address}'}}}}");
    let (code, text) = run(own, &four("192.0.2.2"), "{}");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(own, &four("10.0.0.2"), "{}");
    assert_eq!(code, Some(0), "{text}");
    for (address, sentence) in [
        ("10.0.0.1", "cp2 reports 10.0.0.1, the address of cp1."),
        ("10.9.9.9", "cp2 reports 10.9.9.9, the address of cp1."),
        ("10.233.0.1", "cp2 reports 10.233.0.1, which no node can have."),
        ("10.233.64.7", "cp2 reports 10.233.64.7, which no node can have."),
        ("127.0.0.1", "cp2 reports 127.0.0.1, which no node can have."),
        ("169.254.1.1", "cp2 reports 169.254.1.1, which no node can have."),
        ("0.0.0.0", "cp2 reports 0.0.0.0, which no node can have."),
        ("any", "cp2 reports something that is no address."),
        ("10.0.0.0/8", "cp2 reports"),
    ] {
        let (code, text) = run(own, &four(address), "{}");
        assert!(code == Some(2) && text.contains(sentence), "{address}: {text}");
    }
    let (code, text) = run(own, "{ansible_default_ipv4: {address: [10.0.0.1]}}", "{}");
    assert!(code == Some(2) && text.contains("cp2 reports something that is no address."), "{text}");
    let six = "{ansible_default_ipv6: {address: 'FD97:0::1'}, ansible_default_ipv4: {address: 10.0.0.2}}";
    let both = "cp1 ip=10.0.0.1 ip6=fd97::1\ncp2\n";
    let (code, text) = run(both, six, "{ipv6_stack: true}");
    assert!(code == Some(2) && text.contains("cp2 reports fd97::1, the address of cp1."), "{text}");
    let rotated = "{kubelet_rotate_server_certificates: true}";
    let (code, text) = run(own, &four("192.0.2.2"), rotated);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(own, &four("10.0.0.2"), rotated);
    assert!(code == Some(2) && text.contains("cp2 reports 10.0.0.2, which the inventory does not have."), "{text}");
}

/// Whoever takes a worker over would find the token, and register further nodes with it.
#[test]
fn worker_keeps_no_token_even_if_it_does_not_join() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let script = format!(
        "echo \"$*\" >>{at}/calls
case \"$*\" in
*'token list'*) echo '{{\"token\": \"aaaaaa.0000000000000000\", \"usages\": [\"authentication\", \"signing\"],
    \"groups\": [\"system:bootstrappers:kubeadm:default-node-token\"]}}' ;;
*'token create'*) echo bbbbbb.1111111111111111 ;;
esac"
    );
    program(folder.path(), "kubeadm", &script);
    program(folder.path(), "kubectl", &script);
    let playbook = "- hosts: cp2
  gather_facts: false
  roles: [worker]
  post_tasks:
    - ansible.builtin.debug: {msg: reached}
";
    let programs = format!("bin_dir={at}");
    // The variable ends the run between the configuration and the join.
    let more =
        ["-e", &programs, "-e", "{kubeadm_use_file_discovery: false, kubeadm_join_phases_skip: '{{ missing }}'}"];
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &more);
    assert!(code == Some(2) && text.contains("Join the node"), "{text}");
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.contains("--ttl=1800s") && !calls.contains("token list"), "{calls}");
    assert!(calls.contains("delete secret --ignore-not-found bootstrap-token-bbbbbb"), "{calls}{text}");
    assert!(!folder.path().join("kubeadm-join.yaml").exists(), "{text}");
    assert!(!text.contains("1111111111111111"), "{text}");
}

/// The record is a ConfigMap. The node is as the inventory has it, so only removals are calls.
#[test]
fn labels_and_taints_that_left_the_inventory_are_removed_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let program = "#!/bin/sh
cd @FOLDER@ || exit 1
case \"$*\" in
*'get configmap'*) cat record 2>/dev/null || : ;;
*apply*) cat >record ;;
*'get node'*) cat node ;;
*) echo \"$*\" >>calls ;;
esac
";
    let file = folder.path().join("kubectl");
    fs::write(&file, program.replace("@FOLDER@", folder.path().to_str().unwrap())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let node = r#"{"metadata":{"name":"cp1","labels":{"disk":"ssd","own":"x"},"annotations":{"a.b/c":"x"}},
        "spec":{"taints":[{"key":"db","value":"yes","effect":"NoSchedule"},{"key":"own","effect":"NoSchedule"}]}}"#;
    fs::write(folder.path().join("node"), node).unwrap();
    let programs = format!("bin_dir={}", folder.path().display());
    let run = |variables: &str| {
        fs::write(folder.path().join("calls"), "").unwrap();
        let playbook = "- hosts: cp1\n  gather_facts: false\n  roles: [node]\n";
        let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
        let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs, "-e", variables]);
        assert_eq!(code, Some(0), "{text}");
        (fs::read_to_string(folder.path().join("calls")).unwrap(), text)
    };
    let all = "{node_labels: {disk: ssd}, node_annotations: {a.b/c: x}, node_taints: ['db=yes:NoSchedule']}";
    let (calls, _) = run(all);
    assert_eq!(calls, "");
    let (_, text) = run(all);
    assert!(text.contains("changed=0 "), "{text}");
    let (calls, _) = run("{node_labels: {disk: ssd}}");
    assert!(calls.contains("annotate node cp1 a.b/c- ") && calls.contains("taint node cp1 db:NoSchedule- "), "{calls}");
    assert!(!calls.contains("disk") && !calls.contains("own"), "{calls}");
    let (calls, _) = run("{}");
    assert!(calls.contains("label node cp1 disk- ") && !calls.contains("own"), "{calls}");
    let (_, text) = run("{}");
    assert!(text.contains("changed=0 "), "{text}");
}

#[test]
fn unsuitable_host_refused() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster:etcd\n  gather_facts: false\n  tasks:\n    - ansible.builtin.import_role: {name: check, tasks_from: hosts}\n";
    let hosts = "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n";
    let servers = folder.path().join("resolv.conf");
    let resolv_conf = format!("resolv_conf={} etcd_data_dir={}", servers.display(), folder.path().display());
    let checked = |more: &[&str]| {
        let more: Vec<&str> = ["-e", resolv_conf.as_str(), "-e", "kube_version=1.36.4", "-e", "skip_downloads=true"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        play(folder.path(), hosts, playbook, &more)
    };
    let allowed = ["-e", "kube_cgroup_v1_allowed=true"];

    fs::write(&servers, "search example.com\n").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("resolv.conf of cp1 has no name server"), "{text}");
    let (code, text) = checked(&["-e", "kube_cgroup_v1_allowed=true", "-e", "dns_mode=none"]);
    assert_eq!(code, Some(0), "{text}");

    fs::write(&servers, "nameserver 127.0.0.1\nnameserver ::1\n").unwrap();
    let (code, text) = checked(&allowed);
    let sentence = "resolv.conf of cp1 has only 127.0.0.1 and ::1 as name servers, where CoreDNS would query itself";
    assert!(code == Some(2) && text.contains(sentence) && text.contains("set upstream_dns_servers"), "{text}");
    let servers_set = "{kube_cgroup_v1_allowed: true, upstream_dns_servers: [192.0.2.53]}";
    assert_eq!(checked(&["-e", servers_set]).0, Some(0));

    fs::write(&servers, "nameserver 127.0.0.1\nnameserver 192.0.2.53\n").unwrap();
    let (code, text) = checked(&allowed);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("is not a directory"), "a new host has no records, without a warning: {text}");
    // The outcome depends on this machine's version of control groups.
    let (code, text) = checked(&[]);
    match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        true => assert_eq!(code, Some(0), "{text}"),
        false => assert!(code == Some(2) && text.contains("cp1 has version 1 of control groups, with"), "{text}"),
    }
    let addresses = "{ansible_all_ipv4_addresses: [127.0.0.1], ansible_all_ipv6_addresses: []}";
    let (code, text) = checked(&[&allowed[..], &["-e", addresses]].concat());
    assert!(
        code == Some(2) && text.contains("No interface of cp2 has 127.0.0.2, the address of the inventory"),
        "{text}"
    );
    // kubeadm would refuse them half-way.
    let one = "cp1 has one processor, but kubeadm makes no control plane with fewer than two";
    let small = "cp1 has 1600 MiB of memory, but needs 1700";
    let old = "kube_proxy_mode is nftables, with which kube-proxy needs Linux 5.13 or later, but cp1 runs 5.10.0-8";
    for (facts, sentence) in [
        ("{ansible_processor_nproc: 1}", one),
        ("{ansible_memtotal_mb: 1600}", small),
        ("{kube_proxy_mode: nftables, ansible_kernel: 5.10.0-8-amd64}", old),
        ("{ansible_processor_nproc: 1, kubeadm_ignore_preflight_errors: [NumCPU]}", ""),
        ("{ansible_memtotal_mb: 1600, kubeadm_ignore_preflight_errors: [all]}", ""),
        ("{kube_proxy_mode: nftables, ansible_kernel: 5.13.0-1.el9}", ""),
    ] {
        let (code, text) = checked(&[&allowed[..], &["-e", facts]].concat());
        let expected = if sentence.is_empty() { Some(0) } else { Some(2) };
        assert!(code == expected && text.contains(sentence), "{facts}: {text}");
    }

    let swap = [&allowed[..], &["-e", "kubelet_fail_swap_on=false"]].concat();
    let (code, text) = checked(&swap);
    match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        true => assert_eq!(code, Some(0), "{text}"),
        false => assert!(code == Some(2) && text.contains("Set kubelet_swap_behavior to NoSwap"), "{text}"),
    }
    for suitable in ["kubelet_swap_behavior=NoSwap", "kube_version=1.29.5"] {
        let (code, text) = checked(&[&swap[..], &["-e", suitable]].concat());
        assert_eq!(code, Some(0), "{text}");
    }

    fs::create_dir(folder.path().join("components")).unwrap();
    fs::write(folder.path().join("components/runtime-containerd"), "").unwrap();
    let (code, text) = checked(&allowed);
    assert_eq!(code, Some(0), "{text}");
    let other = ["-e", "kube_cgroup_v1_allowed=true", "-e", "container_manager=crio"];
    let (code, text) = checked(&other);
    assert!(code == Some(2) && text.contains("cp1 runs containerd, but container_manager is"), "{text}");
    let (code, text) = checked(&[&other[..], &["-e", "migrate_runtime=true"]].concat());
    assert_eq!(code, Some(0), "{text}");

    let applied = folder.path().join("kubeadm-config.applied.yaml");
    let established = folder.path().join("established");
    for (content, lost) in [("# Of somebody else\n", false), ("kubernetesVersion: v1.36.4\n", true)] {
        fs::write(&applied, content).unwrap();
        let (code, text) = checked(&allowed);
        let sentence = "cp1, cp2 ran a cluster, but no member of etcd has its data in";
        assert!(lost == text.contains(sentence) && lost == (code == Some(2)), "{text}");
        assert!(!lost || text.contains("playbooks/recover.yml") && text.contains("playbooks/restore.yml"), "{text}");
    }
    fs::write(&established, "").unwrap();
    for (release, sentence) in [("v1.35.1", "cp1 runs Kubernetes 1.35.1, but kube_version is 1.36.4"), ("v1.36.4", "")]
    {
        fs::write(&applied, format!("kubernetesVersion: {release}\n")).unwrap();
        let (code, text) = checked(&allowed);
        let refused = code == Some(2) && text.contains(sentence) && text.contains("playbooks/upgrade.yml");
        assert!(refused != sentence.is_empty(), "{text}");
    }
    let marker = folder.path().join("upgrade");
    fs::write(&marker, "").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("cp1 is in the middle of an upgrade"), "{text}");
    let (code, text) = checked(&[&allowed[..], &["-e", "upgrade_cluster_setup=true"]].concat());
    assert_eq!(code, Some(0), "{text}");
    fs::remove_file(&marker).unwrap();

    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(folder.path().join("manifests/etcd.yaml"), "").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("shows that etcd runs in a pod on cp1"), "{text}");
}

/// The others would refuse its connections, and it would never start. Nothing may be removed before.
#[test]
fn new_member_of_etcd_that_connects_from_another_address_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  any_errors_fatal: true
  environment: {{PATH: '{at}:{{{{ lookup(\"env\", \"PATH\") }}}}'}}
  tasks:
    - ansible.builtin.import_role: {{name: check, tasks_from: rejoin}}
      vars: {{check_rejoining: [cp1]}}
    - ansible.builtin.debug: {{msg: removed}}
"
    );
    let checked = |source: &str, more: &str| {
        program(folder.path(), "ip", &format!("echo \"$4 dev eth0 src {source} uid 0\""));
        let facts = "{ansible_all_ipv4_addresses: [10.0.0.1, 10.0.0.9], ansible_all_ipv6_addresses: []}";
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", facts, "-e", more])
    };
    let (code, text) = checked("10.0.0.9", "{}");
    assert!(
        code == Some(2) && text.contains("cp1 would connect to the other members of etcd from 10.0.0.9. They would"),
        "{text}"
    );
    assert!(text.contains("Nothing was done, because cp1 has failed a check.") && !text.contains("removed"), "{text}");
    for (source, more) in [
        ("10.0.0.1", "{}"),
        ("10.0.0.9", "{etcd_cert_alt_ips: [10.0.0.9]}"),
        ("10.0.0.9", "{ignore_assert_errors: true}"),
        // A router translates it.
        ("10.0.0.9", "{access_ip: 192.0.2.1}"),
    ] {
        let (code, text) = checked(source, more);
        assert!(code == Some(0) && text.contains("removed"), "{source} {more}: {text}");
    }

    let sources = || {
        let output = Command::new("sh")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/check/files/machine.sh"))
            .arg("0")
            .env("PATH", format!("{at}:{}", std::env::var("PATH").unwrap()))
            .env("MEMBERS", "10.0.0.2")
            .env("ETCD_DATA", folder.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with("source ")).count()
    };
    assert_eq!(sources(), 1);
    // One that has joined only opens its data.
    fs::create_dir_all(folder.path().join("member/wal")).unwrap();
    assert_eq!(sources(), 0);
}

/// Its former member still answers at the old address, because check mode has not removed it.
#[test]
fn member_of_etcd_with_another_address_not_awaited_in_check_mode() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    fs::create_dir_all(folder.path().join("member/wal")).unwrap();
    fs::write(folder.path().join("established"), "").unwrap();
    let script =
        r#"case "$*" in *10.0.0.9*) exit 1 ;; esac; echo '[{"endpoint": "https://10.0.0.2:2379", "health": true}]'"#;
    program(folder.path(), "etcdctl", script);
    let script = "case $1 in is-active) exit 3 ;; esac; echo LoadState=loaded; echo ActiveState=active; echo UnitFileState=enabled";
    program(folder.path(), "systemctl", script);
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:{{{{ lookup(\"env\", \"PATH\") }}}}'}}
  tasks:
    - ansible.builtin.import_role: {{name: etcd, tasks_from: members}}
      vars: {{etcd_cluster: '{{{{ etcd_known_clusters | first }}}}'}}
"
    );
    let folders = format!("{{bin_dir: {at}, etcd_data_dir: {at}, etcd_config_dir: {at}, etcd_cert_dir: {at}}}");
    let more = ["--check", "-e", &folders, "-e", "{replace_node: true, node: cp1}"];
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.9\ncp2 ip=10.0.0.2\n", &playbook, &more);
    assert!(code == Some(0) && !text.contains("RETRYING"), "{text}");
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

/// Without its data, the member would begin a cluster of its own.
#[test]
fn changed_settings_of_a_member_in_a_pod_join_the_running_cluster() {
    if !windlass_testing::has_all(&["root", "namespaces"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(folder.path().join("kubeadm-config.yaml"), "").unwrap();
    program(folder.path(), "kubeadm", &format!("[ \"$3\" != etcd ] || cp \"$6\" {at}/config"));
    program(folder.path(), "kubectl", "true");
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: control_plane, tasks_from: change}
      vars: {control_plane_in_turn: cp1}
";
    let programs = format!("bin_dir={at}");
    let more = ["-e", &programs, "-e", "etcd_deployment_type=kubeadm", "-e", "kube_version=1.33.1"];
    let start =
        ["--start-at-task", "control_plane : Write kubeadm's configuration for a control plane that runs", "--check"];
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &[&more[..], &start[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    let config = fs::read_to_string(folder.path().join("config")).unwrap();
    let added = "    extraArgs:\n      - {name: initial-cluster-state, value: existing}\n";
    assert_eq!(config.matches(added).count(), 1, "{config}");
}

#[test]
fn registry_servers_have_an_order_of_each_host() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  roles: [cluster]
  tasks:
    - ansible.builtin.copy:
        dest: {}/{{{{ inventory_hostname }}}}
        content: \"{{{{ [registry_servers, registry_mirrors, registry_addresses] | to_json }}}}\"
",
        folder.path().display(),
    );
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n[registry]\nr1 access_ip=10.0.0.11 ip=10.1.0.11\n\
                 r2 ansible_host='fd00::2;x'\nr3 ip=10.0.0.13 registry_state=absent\n";
    let addresses = r#"["10.0.0.11", "fd00::2x"]"#;
    let (first, second) = (r#""10.0.0.11:5050""#, r#""[fd00::2x]:5050""#);
    let servers = format!("[{first}, {second}]");
    let cases = [
        ("{}", servers.as_str(), format!("[{second}, {first}]"), servers.clone(), addresses),
        ("{registry_state: absent}", "[]", "[]".to_owned(), "[]".to_owned(), "[]"),
    ];
    for (variables, servers, of_cp1, of_cp2, addresses) in cases {
        let (code, text) = play(folder.path(), hosts, &playbook, &["-e", variables]);
        assert_eq!(code, Some(0), "{text}");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("cp1"), format!("[{servers}, {of_cp1}, {addresses}]"), "{variables}");
        assert_eq!(read("cp2"), format!("[{servers}, {of_cp2}, {addresses}]"), "{variables}");
    }
}

/// Otherwise the namespace of probes that `verify` has deleted appears, and is a change in the next snapshot.
#[test]
fn objects_that_are_being_deleted_not_in_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  vars_files: [{}/roles/snapshot/vars/main.yml]
  vars:
    deleted: '2026-01-01T00:00:00Z'
    snapshot_namespaces_excluded: []
    snapshot_read:
      results:
        - resources:
            - {{kind: Namespace, metadata: {{name: probes, deletionTimestamp: '{{{{ deleted }}}}'}}}}
            - {{kind: Namespace, metadata: {{name: shop}}}}
        - resources:
            - {{kind: Secret, metadata: {{name: s, namespace: probes}}}}
            - {{kind: Secret, metadata: {{name: s, namespace: shop}}}}
            - {{kind: Secret, metadata: {{name: old, namespace: shop, deletionTimestamp: '{{{{ deleted }}}}'}}}}
            - {{kind: Secret, metadata: {{name: default-token-1, namespace: shop}}}}
        - skipped: true
  tasks:
    - ansible.builtin.copy:
        dest: {}/out
        content: \"{{{{ [snapshot_objects | map(attribute='metadata.name'), snapshot_namespaces | map(attribute=0)] | to_json }}}}\"
",
        env!("CARGO_MANIFEST_DIR"),
        folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let out = fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(out, r#"[["shop", "s", "s"], ["shop"]]"#);
}

#[test]
fn certificates_settings_valid_on_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: certificates, tasks_from: validate}
    - ansible.builtin.debug: {var: auto_renew_certificates_systemd_calendar}
";
    // Only cp1 is a control plane.
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\n", playbook, &[]);
    assert!(code == Some(0) && text.matches(" 03:00:00").count() == 2, "{text}");
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &[]);
    assert!(code == Some(0) && text.contains(" 03:10:00"), "{text}");
}

/// Its manifests may have other settings. A control plane that joins has this run's.
#[test]
fn joined_control_plane_without_a_record_gets_the_settings_of_this_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: kube_control_plane
  gather_facts: false
  roles: [{{role: control_plane, when: false}}]
  vars:
    facts:
      cp1: {{record: true, due: true, api: 0}}
      cp2: {{record: false, due: false, action: none}}
      cp3: {{record: false, due: false, action: join}}
      cp4: {{record: true, due: false}}
      cp5: {{record: true, due: true, api: 1}}
    mine: \"{{{{ facts[inventory_hostname] }}}}\"
  tasks:
    - ansible.builtin.set_fact:
        kubeadm_configuration: {{results: [{{}}, {{stat: {{exists: \"{{{{ mine.record }}}}\"}}}}]}}
        kubeadm_change_due: \"{{{{ mine.due }}}}\"
        kubeadm_own_api: {{rc: \"{{{{ mine.api | default(1) }}}}\"}}
        kubeadm_joined: \"{{{{ {{'action': mine.action}} if mine.action is defined else {{}} }}}}\"
    - ansible.builtin.copy:
        dest: {}/out
        content: \"{{{{ [kubeadm_changed, kubeadm_missing, kubeadm_joined_before] | to_json }}}}\"
      run_once: true
",
        folder.path().display(),
    );
    let hosts: String = (1..=5).map(|number| format!("cp{number} ip=10.0.0.{number}\n")).collect();
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let out = fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(out, r#"[["cp5", "cp1"], ["cp2", "cp3"], ["cp2"]]"#);
}

/// Without its data, a member whose manifest was written again started a cluster of its own.
#[test]
fn manifests_of_running_members_do_not_start_a_new_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let config = "etcd:\n  local:\n    dataDir: /d\n    extraArgs:\n      ARG\napiServer:\n  extraArgs:\n    ARG\n";
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  roles: [{{role: control_plane, when: false}}]
  tasks:
    - ansible.builtin.shell: '{{{{ control_plane_for_running_members }}}} {0}/in > {0}/out'
",
        folder.path().display(),
    );
    for (version, argument, added, further) in [
        ("v1beta2", "a: b", "initial-cluster-state: existing", "initial-cluster: \"cp1=https://10.0.0.1:2380\""),
        (
            "v1beta4",
            "- {name: a, value: b}",
            "- {name: initial-cluster-state, value: existing}",
            "- {name: initial-cluster, value: \"cp1=https://10.0.0.1:2380\"}",
        ),
    ] {
        let config = config.replace("ARG", argument);
        fs::write(folder.path().join("in"), &config).unwrap();
        let variables = format!("kubeadm_api_version={version}");
        let flags = r#"{"control_plane_member_flags": {"initial-cluster": "\"cp1=https://10.0.0.1:2380\""}}"#;
        for (more, added) in [("{}", added.to_owned()), (flags, format!("{added}\n      {further}"))] {
            let options = ["-e", &variables, "-e", more];
            let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\n", &playbook, &options);
            assert_eq!(code, Some(0), "{text}");
            let expected = config.replacen("    extraArgs:\n", &format!("    extraArgs:\n      {added}\n"), 1);
            assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), expected);
        }
    }
}

/// kube-proxy of the first control plane watched the API while its etcd had no leader, and missed services.
#[test]
fn kube_proxy_waits_for_members_of_etcd_in_pods() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: all
  gather_facts: false
  roles: [{{role: kube_proxy, when: false}}]
  tasks:
    - ansible.builtin.set_fact:
        kubeadm_configuration: {{results: [{{stat: {{exists: true}}}}, {{stat: {{exists: \"{{{{ inventory_hostname in before }}}}\"}}}}]}}
        kubeadm_initialised: {{changed: \"{{{{ before | length == 0 }}}}\"}}
    - ansible.builtin.copy:
        dest: {}/out
        content: \"{{{{ [kube_proxy_after_etcd, kube_proxy_fresh, kube_proxy_missed] | to_json }}}}\"
      run_once: true
",
        folder.path().display(),
    );
    for (kind, before, expected) in [
        ("kubeadm", "[]", "[true, false, false]"),
        ("kubeadm", "[cp1]", "[true, false, true]"),
        ("kubeadm", "[cp1, cp2]", "[true, false, false]"),
        ("host", "[]", "[false, true, false]"),
        ("host", "[cp1]", "[false, false, false]"),
    ] {
        let variables = format!("{{etcd_deployment_type: {kind}, before: {before}}}");
        let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
        let (code, text) = play(folder.path(), hosts, &playbook, &["-e", &variables]);
        assert_eq!(code, Some(0), "{text}");
        let out = fs::read_to_string(folder.path().join("out")).unwrap();
        assert_eq!(out, expected, "{kind} {before}");
    }
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

/// The role runs in a file system of its own, on the file that kubeadm 1.34 writes, and without one.
#[test]
fn flags_that_kubelet_no_longer_has_are_removed() {
    if !windlass_testing::has_all(&["root", "namespaces"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    \
                    - ansible.builtin.import_role: {name: kubelet, tasks_from: removed}\n";
    fs::write(folder.path().join("play.yml"), playbook).unwrap();
    let script = "set -eu
mount -t tmpfs tmpfs /var/lib
\"$0\" playbook play.yml -e kube_version=1.35.6 >&2
mkdir /var/lib/kubelet
cd /var/lib/kubelet
echo 'KUBELET_KUBEADM_ARGS=\"--x=y --pod-infra-container-image=registry.k8s.io/pause:3.10.1 --node-ip=10.0.0.1\"' > kubeadm-flags.env
for release in 1.34.9 1.35.6; do
    (cd - > /dev/null && \"$0\" playbook play.yml -e kube_version=$release >&2)
    cat kubeadm-flags.env
done
";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, env!("CARGO_BIN_EXE_windlass")])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/roles"))
        .env("WINDLASS_JOURNAL_DIR", folder.path().join("journals"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let expected =
        "KUBELET_KUBEADM_ARGS=\"--x=y --pod-infra-container-image=registry.k8s.io/pause:3.10.1 --node-ip=10.0.0.1\"
KUBELET_KUBEADM_ARGS=\"--x=y --node-ip=10.0.0.1\"
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{errors}");
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
fn kubelet_that_does_not_stay_up_fails_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = |name: &str, text: &str| {
        let program = folder.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    stand_in("sleep", "exit 0");
    let fatal = "E1127 06:00:00 run.go:72] command failed, unknown swap behavior";
    stand_in("journalctl", &format!("echo '{fatal}'; seq 100 | sed 's/^/goroutine /'"));
    // The process that each look at the service finds: one that lives, none, one that came and went, a new one.
    let stays_up = |processes: &str| {
        fs::write(folder.path().join("processes"), processes).unwrap();
        stand_in("systemctl", "head -n 1 processes; [ \"$(wc -l <processes)\" = 1 ] || sed -i 1d processes");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/kubelet/files/stays-up.sh");
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        Command::new("sh").arg(script).current_dir(&folder).env("PATH", path).output().unwrap()
    };
    for processes in ["7\n", "0\n7\n8\n0\n9\n9\n"] {
        assert!(stays_up(processes).status.success(), "{processes}");
    }
    let crashing: String = (1..20).map(|pid| format!("{pid}\n")).collect();
    for processes in ["0\n", "7\n0\n7\n0\n8\n0\n8\n0\n9\n0\n9\n0\n", &crashing] {
        let output = stays_up(processes);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("unknown swap behavior"), "{processes}: {said}");
        assert!(!said.contains("goroutine"), "{said}");
    }
}

/// The judgement of recover.yml about three control planes with members in pods, by the lines of their probes.
fn recovery(states: &str) -> serde_json::Value {
    recovery_of("kubeadm", states)
}

/// The same with another `etcd_deployment_type`. cp3 is the first member.
fn recovery_of(deployment: &str, states: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/recover");
    let playbook = format!(
        "- hosts: kube_control_plane
  gather_facts: false
  roles: [{{role: recover, when: false}}]
  vars:
    states: {{{states}}}
  tasks:
    - ansible.builtin.set_fact:
        recover_reached: true
        recover_state: \"{{{{ {{'certificates.lacking': '', 'api.serves': 'yes'}} | combine(states[inventory_hostname]) }}}}\"
    - ansible.builtin.copy:
        dest: {0}/out
        content: \"{{{{ lookup('ansible.builtin.template', '{1}/templates/judge.j2') }}}}\"
      run_once: true
",
        folder.path().display(),
        role.display(),
    );
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\ncp3 ip=10.0.0.3\n[etcd]\ncp3\n";
    let deployment = format!("etcd_deployment_type={deployment}");
    let (code, text) = play(folder.path(), hosts, &playbook, &["-e", &deployment]);
    assert_eq!(code, Some(0), "{text}");
    serde_json::from_str(&fs::read_to_string(folder.path().join("out")).unwrap()).unwrap()
}

const SERVES: &str =
    "{etcd.process: active, etcd.data: 'yes', etcd.answers: 'yes', etcd.revision: '9', etcd.majority: 'yes'}";
const EMPTY: &str = "{etcd.process: waiting, etcd.data: 'no'}";

#[test]
fn survivor_in_a_pod_is_recovered_after_a_confirmation() {
    // kubelet ends a member that has no leader, although the member has not failed.
    let found = recovery(&format!("cp1: {{etcd.process: waiting, etcd.data: 'yes'}}, cp2: {EMPTY}, cp3: {EMPTY}"));
    assert_eq!(found["lost"], serde_json::json!({"etcd": ["cp1"]}), "{found}");
    assert!(found["refused"][0].as_str().unwrap().contains("recover_confirm_quorum_loss=true"), "{found}");
}

#[test]
fn member_in_a_pod_without_data_joins_the_others() {
    let found = recovery(&format!("cp1: {EMPTY}, cp2: {SERVES}, cp3: {SERVES}"));
    assert_eq!(found["join"], serde_json::json!({"etcd": ["cp1"]}), "{found}");
    assert_eq!(found["refused"], serde_json::json!([]), "{found}");
}

#[test]
fn member_in_a_pod_whose_manifest_is_gone_starts_again() {
    let stopped = "{etcd.process: inactive, etcd.data: 'yes', etcd.manifest: missing}";
    let found = recovery(&format!("cp1: {stopped}, cp2: {stopped}, cp3: {EMPTY}"));
    assert_eq!(found["start"], serde_json::json!({"cp1": ["etcd"], "cp2": ["etcd"]}), "{found}");
    assert_eq!(found["lost"], serde_json::json!({}), "{found}");
}

/// Right after the damage of one member, the others elect a leader, and the damaged one has not failed yet.
#[test]
fn state_of_etcd_that_is_still_changing_is_looked_at_again() {
    let starts = "{etcd.process: active, etcd.data: 'yes'}";
    for (states, unsettled) in [
        (format!("cp1: {EMPTY}, cp2: {starts}, cp3: {starts}"), true),
        (format!("cp1: {starts}, cp2: {SERVES}, cp3: {SERVES}"), true),
        (format!("cp1: {EMPTY}, cp2: {SERVES}, cp3: {SERVES}"), false),
        (format!("cp1: {SERVES}, cp2: {SERVES}, cp3: {SERVES}"), false),
        (format!("cp1: {starts}, cp2: {EMPTY}, cp3: {EMPTY}"), false),
    ] {
        assert_eq!(recovery(&states)["unsettled"], unsettled, "{states}");
    }

    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/recover/tasks");
    for (settles_at, looks) in [(0, 0), (2, 2), (9, 6)] {
        let folder = tempfile::tempdir().unwrap();
        for name in ["settled.yml", "again.yml"] {
            fs::copy(role.join(name), folder.path().join(name)).unwrap();
        }
        let look = format!(
            "- ansible.builtin.set_fact:
    recover_judgement: {{unsettled: \"{{{{ seen | int + 1 < {settles_at} }}}}\"}}
    seen: \"{{{{ seen | int + 1 }}}}\"
"
        );
        fs::write(folder.path().join("diagnose.yml"), look).unwrap();
        let playbook = format!(
            "- hosts: cp1
  gather_facts: false
  vars: {{recover_looks: 6, recover_looks_apart: 0}}
  tasks:
    - ansible.builtin.set_fact: {{seen: 0, recover_judgement: {{unsettled: \"{{{{ {settles_at} > 0 }}}}\"}}}}
    - ansible.builtin.import_tasks: settled.yml
    - ansible.builtin.assert: {{that: seen | int == {looks}}}
"
        );
        let (code, text) = play(folder.path(), "cp1\n", &playbook, &[]);
        assert_eq!(code, Some(0), "{text}");
    }
}

/// Its network was to be checked.
#[test]
fn member_that_is_not_installed_is_installed_by_cluster_yml() {
    let found = recovery(&format!("cp1: {{}}, cp2: {SERVES}, cp3: {SERVES}"));
    assert!(found["findings"].to_string().contains("run playbooks/cluster.yml, which installs it"), "{found}");
}

/// Its API server serves an empty database, and the survivor would have been joined to it.
#[test]
fn member_that_started_a_cluster_of_its_own_is_refused() {
    let anew = "{etcd.process: active, etcd.data: 'yes', etcd.majority: 'yes', etcd.strangers: cp2 cp3}";
    let survivor = "{etcd.process: active, etcd.data: 'yes'}";
    let found = recovery(&format!("cp1: {anew}, cp2: {EMPTY}, cp3: {survivor}"));
    assert!(found["refused"][0].as_str().unwrap().contains("etcd on cp1 is another cluster than on cp3"), "{found}");
}

/// Nothing issued them again, and a member that runs without them was taken for one whose network is broken.
#[test]
fn lost_certificates_of_a_member_in_a_pod_are_issued_by_the_authority_of_the_others() {
    let lost = "{etcd.process: active, etcd.data: 'yes', certificates.lacking: etcd/ca.crt etcd/ca.key, \
                etcd-certificates.broken: etcd/server etcd/peer}";
    let signed = |authorities| SERVES.replace('}', &format!(", etcd-certificates.authorities: '{authorities}'}}"));

    let found = recovery(&format!("cp1: {lost}, cp2: {}, cp3: {}", signed("aa"), signed("aa")));
    assert_eq!(found["keys"], serde_json::json!(["cp1"]), "{found}");
    assert_eq!(found["keepers"], serde_json::json!(["cp2", "cp3"]), "{found}");
    assert_eq!(
        (&found["refused"], &found["unsettled"]),
        (&serde_json::json!([]), &serde_json::json!(false)),
        "{found}"
    );
    let findings = found["findings"].to_string();
    assert!(findings.matches("etcd/ca.crt").count() == 1 && !findings.contains("and does not serve"), "{findings}");

    // Members that nobody can reach any more have their data, and are no lost majority.
    let found = recovery(&format!("cp1: {lost}, cp2: {lost}, cp3: {}", signed("aa").replace("etcd.majority", "x")));
    assert_eq!(
        (&found["keys"], &found["lost"]),
        (&serde_json::json!(["cp1", "cp2"]), &serde_json::json!({})),
        "{found}"
    );
    assert_eq!(found["refused"], serde_json::json!([]), "{found}");

    // Certificates of all members end on the same day.
    let ended = "{etcd.process: active, etcd.data: 'yes', etcd-certificates.ended: etcd/server etcd/peer}";
    let found = recovery(&format!("cp1: {ended}, cp2: {ended}, cp3: {ended}"));
    assert_eq!(found["keys"], serde_json::json!(["cp1", "cp2", "cp3"]), "{found}");
    assert_eq!(
        (&found["refused"], &found["unsettled"]),
        (&serde_json::json!([]), &serde_json::json!(false)),
        "{found}"
    );

    for (first, second) in [("aa", "bb"), ("aa bb", "aa")] {
        let found = recovery(&format!("cp1: {lost}, cp2: {}, cp3: {}", signed(first), signed(second)));
        assert!(found["refused"][0].as_str().unwrap().contains("2 authorities of etcd: one on cp2"), "{found}");
    }
    // A container keeps the folder that was replaced, also if a run ended before it restarted the member.
    let replaced = "{etcd.process: active, etcd.data: 'yes', etcd.detached: 'yes'}";
    let found = recovery(&format!("cp1: {replaced}, cp2: {}, cp3: {}", signed("aa"), signed("aa")));
    assert_eq!((&found["keys"], &found["renew"]), (&serde_json::json!(["cp1"]), &serde_json::json!([])), "{found}");
    assert_eq!(found["findings"][0]["does"], "restarts it", "{found}");

    let found = recovery(&format!("cp1: {lost}, cp2: {lost}, cp3: {lost}"));
    assert!(found["refused"][0].as_str().unwrap().contains("cp3 lacks etcd/ca.crt etcd/ca.key"), "{found}");
}

/// The run was refused, with the advice to correct the network between the hosts.
#[test]
fn ended_certificates_of_all_members_as_services_are_issued_by_their_authority() {
    let member = |ended: &str, authority: &str| {
        format!(
            "{{etcd.process: activating, etcd.data: 'yes', etcd-certificates.broken: '', \
             etcd-certificates.ended: {ended}, etcd-certificates.authorities: {authority}}}"
        )
    };
    let judged = |[cp1, cp2, cp3]: [&str; 3]| recovery_of("host", &format!("cp1: {cp1}, cp2: {cp2}, cp3: {cp3}"));
    let (ended, last, good) = (member("member.pem", "aa"), member("ca.pem member.pem", "aa"), member("''", "aa"));
    let none = serde_json::json!([]);

    for (states, keys, donor) in [
        ([&ended, &ended, &ended], "cp1 cp2 cp3", "cp3"),
        // A run that was killed has issued them on one host.
        ([&ended, &good, &ended], "cp1 cp3", "cp2"),
        // The authority was signed again there.
        ([&last, &ended, &last], "cp1 cp2 cp3", "cp2"),
    ] {
        let found = judged(states.map(String::as_str));
        let keys: Vec<&str> = keys.split(' ').collect();
        assert_eq!((&found["keys"], &found["ended"]), (&serde_json::json!(keys), &serde_json::json!(keys)), "{found}");
        assert_eq!((&found["refused"], &found["renew"]), (&none, &none), "{found}");
        assert_eq!((&found["unsettled"], &found["lost"]), (&false.into(), &serde_json::json!({})), "{found}");
        let does = format!("issues them again on {donor} with the same authority");
        assert!(found["donor"] == donor && found["findings"].to_string().contains(&does), "{found}");
    }

    let found = judged([&last, &last, &last].map(String::as_str));
    let advice = "Sign it again with its own key on cp3: `cd /etc/ssl/etcd/ssl && openssl x509 -in ca.pem -signkey";
    assert!(found["refused"][0].as_str().unwrap().contains(advice), "{found}");

    let other = member("member.pem", "bb");
    let found = judged([&other, &ended, &ended].map(String::as_str));
    assert!(
        found["refused"][0].as_str().unwrap().contains("2 authorities: one on cp3, cp2, another one on"),
        "{found}"
    );
}

/// The members were refused, with the advice to correct the network between the hosts.
#[test]
fn members_with_an_older_authority_in_memory_are_restarted() {
    let stale = "{etcd.process: active, etcd.data: 'yes', etcd.stale: 'yes', etcd-certificates.broken: '', \
                 etcd-certificates.ended: '', etcd-certificates.authorities: aa}";
    let found = recovery_of("host", &format!("cp1: {stale}, cp2: {stale}, cp3: {stale}"));
    assert_eq!(found["keys"], serde_json::json!(["cp1", "cp2", "cp3"]), "{found}");
    assert_eq!((&found["refused"], &found["unsettled"]), (&serde_json::json!([]), &false.into()), "{found}");
    assert!(found["findings"].to_string().contains("restarts etcd"), "{found}");
}

/// The authority of the first complete member was copied, although another one served.
#[test]
fn certificates_of_members_with_different_authorities_are_not_copied() {
    let member =
        |rest: &str| format!("{{etcd.process: active, etcd.data: 'yes', etcd-certificates.ended: '', {rest}}}");
    let lost = member("etcd-certificates.broken: ca.pem");
    let serving = member("etcd.majority: 'yes', etcd-certificates.broken: '', etcd-certificates.authorities: aa");
    let wrong = member("etcd-certificates.broken: '', etcd-certificates.authorities: bb");
    let found = recovery_of("host", &format!("cp1: {lost}, cp2: {serving}, cp3: {wrong}"));
    assert!(found["refused"][0].as_str().unwrap().contains("2 authorities"), "{found}");
}

/// The archive has no authority of etcd where kubeadm expects it, and the other way round.
#[test]
fn archive_of_services_is_not_restored_into_pods() {
    let folder = tempfile::tempdir().unwrap();
    let content = folder.path().join(".restore/content");
    fs::create_dir_all(&content).unwrap();
    let inventory = r#"{"nodes": {"cp1": "cp1"}, "addresses": {}, "variables": {"etcd_deployment_type": "host"}}"#;
    fs::write(content.join("inventory.json"), inventory).unwrap();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  roles: [{role: restore, when: false}]\n  tasks:\n    \
                    - ansible.builtin.import_role: {name: restore, tasks_from: foreign}\n";
    let backups = format!("backup_dir={}", folder.path().display());
    for (kind, expected) in [("host", Some(0)), ("kubeadm", Some(2))] {
        let kind = format!("etcd_deployment_type={kind}");
        let options = ["-e", &backups, "-e", &kind];
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &options);
        assert_eq!(code, expected, "{text}");
        assert_eq!(text.contains("the archive is of a cluster with host"), expected == Some(2), "{text}");
    }
}

const SUBSCRIPTION_MANAGER: &str = r#"#!/usr/bin/env python3
import os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open("/proc/self/cmdline") as line, open(folder + "/processes", "a") as processes:
    processes.write(line.read())
with open(folder + "/calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
if sys.argv[1] == "register" and "expired" in sys.argv:
    sys.exit("no organization has the key expired")
sys.exit(1 if sys.argv[1] == "identity" else 0)
"#;

/// The program in place of subscription-manager records its arguments, and those that other users could see.
#[test]
fn secrets_that_register_a_host_stay_out_of_processes_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("subscription-manager");
    fs::write(&program, SUBSCRIPTION_MANAGER).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: \"{}:{{{{ lookup('env', 'PATH') }}}}\"}}
  roles: [{{role: host, when: false}}]
  tasks:
    - ansible.builtin.import_role: {{name: host, tasks_from: validate}}
    - ansible.builtin.include_role: {{name: host, tasks_from: subscribe}}
",
        folder.path().display(),
    );
    let register = |variables: &str| play(folder.path(), "cp1\ncp2\n", &playbook, &["-e", variables, "-vvv"]);
    let account =
        "{rh_subscription_username: me, rh_subscription_password: \"s3'cr et\", rh_subscription_usage: Production}";
    let (code, text) = register(account);
    assert_eq!(code, Some(0), "{text}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let expected = "identity\nregister --username me --password s3'cr et\nsyspurpose usage --set Production\n";
    assert_eq!(read("calls"), expected);
    assert!(!read("processes").contains("s3'cr") && !text.contains("s3'cr"), "{text}");

    let (code, text) = register("{rh_subscription_org_id: 17, rh_subscription_activation_key: expired}");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cp1 was not registered: no organization has the key ***"), "{text}");
    let (code, text) = register("{rh_subscription_username: me}");
    assert!(
        code == Some(2) && text.contains("set either rh_subscription_username and rh_subscription_password"),
        "{text}"
    );
}

/// A dead first control plane must neither keep a change from the others nor be the one they are changed through.
#[test]
fn running_cluster_is_changed_without_an_unreachable_first_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: find}
- hosts: reached
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: [through, \"{{ first_kube_control_plane | default('cp1') }}\", \"{{ first_etcd | default('cp1') }}\", without, \"{{ cluster_silent | default([]) | join }}\"]
";
    let programs = format!("bin_dir={}", folder.path().display());
    let found = |hosts: &str| {
        let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs]);
        (code, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let gone = "ansible_connection=ssh ansible_port=1";
    let known = format!("cp1 {gone} ansible_host=127.0.0.1 ip=10.0.0.1\ncp2\n");

    let (code, text) = found(&known);
    let all = r#"[cp1] => { "msg": [ "through", "cp1", "cp1", "without", "" ] }"#;
    assert!(
        code == Some(0) && text.contains(all),
        "a cluster that nothing serves would be made without a host: {text}"
    );

    for program in ["kubectl", "etcdctl"] {
        let file = folder.path().join(program);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (code, text) = found(&known);
    let chosen = r#"[cp2] => { "msg": [ "through", "cp2", "cp2", "without", "cp1" ] }"#;
    assert!(code == Some(0) && text.contains(chosen) && !text.contains("[cp1] => {"), "{code:?} {text}");
    let (code, text) = found("cp1 ip=10.0.0.1\ncp2\n");
    assert!(
        code == Some(0) && text.contains(r#"[cp2] => { "msg": [ "through", "cp1", "cp1", "without", "" ] }"#),
        "{text}"
    );
    for unknown in ["", "ansible_host=127.0.0.1"] {
        let (code, text) = found(&format!("cp1 {gone} {unknown}\ncp2\n"));
        let refused = "the inventory does not have the address that the cluster uses. Set its variable ip,";
        assert!(code == Some(2) && text.contains(refused), "{text}");
    }

    // The only member of etcd that answers is new, and would begin another cluster.
    fs::write(folder.path().join("etcdctl"), "#!/bin/sh\nexit 1\n").unwrap();
    let (code, text) = found(&known);
    assert!(code == Some(0) && text.contains(all), "{text}");
}

/// From 3.6 on, `etcdctl` restores no snapshots; before 3.5, archives have no `etcdutl`.
#[test]
fn archive_of_etcd_unpacked_has_the_program_that_restores() {
    // The role gives the programs to root.
    if !windlass_testing::has("root") {
        return;
    }
    for (version, programs) in [("3.4.23", "etcd etcdctl"), ("3.6.14", "etcd etcdctl etcdutl")] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        let script = format!(
            "mkdir -p bin releases etcd-v{version}-linux-amd64 && cd etcd-v{version}-linux-amd64 && touch README.md {programs} && cd .. &&
            tar -czf etcd.tar.gz etcd-v{version}-linux-amd64 && sha256sum etcd.tar.gz | cut -d' ' -f1"
        );
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        let checksum = String::from_utf8(output.stdout).unwrap();
        let playbook = format!(
            "- hosts: cp1
  gather_facts: false
  vars:
    image_arch: amd64
    etcd_version: {version}
    etcd_download_url: file://{place}/etcd.tar.gz
    etcd_checksum: sha256:{checksum}
    bin_dir: {place}/bin
    local_release_dir: {place}/releases
  roles: [cluster]
  tasks:
    - ansible.builtin.include_role: {{name: artifacts}}
      vars:
        artifacts_wanted: \"{{{{ catalog_artifacts | dict2items | selectattr('key', 'eq', 'etcd') }}}}\"
",
            checksum = checksum.trim(),
        );
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2\n", &playbook, &[]);
        assert_eq!(code, Some(0), "{text}");
        let unpacked = fs::read_dir(folder.path().join("bin")).unwrap().map(|file| file.unwrap().file_name());
        let mut unpacked: Vec<String> = unpacked.map(|name| name.into_string().unwrap()).collect();
        unpacked.sort();
        assert_eq!(unpacked.join(" "), programs, "{text}");
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2\n", &playbook, &[]);
        assert!(code == Some(0) && text.contains("changed=0 "), "{text}");
    }
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
        let options = [&options[..], &["-e", "{cluster_silent_nodes: []}"], more].concat();
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

/// A field of Protobuf with a string or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number * 8 + 2, u8::try_from(content.len()).unwrap()];
    bytes.extend(content);
    bytes
}

/// A DaemonSet of kube-system with an argument and a port, as an API server writes it to etcd.
fn stored_daemon_set(argument: &str) -> Vec<u8> {
    let ports = field(6, &[0x18, 80]);
    let container = [field(1, b"main"), field(4, argument.as_bytes()), ports].concat();
    let spec = field(2, &field(3, &field(2, &field(2, &container))));
    let raw = field(2, &[field(1, &field(1, b"x")), spec].concat());
    [b"k8s\0".to_vec(), field(1, &field(1, b"apps/v1")), raw].concat()
}

/// 10.0.0.1 is a part of 10.0.0.10, whose object is not of the archive's cluster. In Protobuf, what follows a string
/// may be a digit too: 2 is the tag of a container's ports.
#[test]
fn objects_with_a_longer_address_not_forgotten_in_a_clone() {
    let folder = tempfile::tempdir().unwrap();
    let objects = [
        ("one", "--server=10.0.0.1", true),
        ("two", "--server=10.0.0.10", false),
        ("three", "--server=https://10.0.0.1:6443/", true),
        ("four", "110.0.0.1", false),
        ("five", "10.0.0.1.9", false),
        ("six", "https://[fd00::1]:6443", true),
        ("seven", "fd00::1:5", false),
        ("eight", "10.0.0.1-10.0.0.9", true),
    ];
    let mut stored = String::new();
    for (name, argument, _) in &objects {
        let value: String = stored_daemon_set(argument)
            .iter()
            .map(|byte| match byte {
                b'\n' => "\\n".to_owned(),
                b'"' | b'\\' => format!("\\{}", char::from(*byte)),
                32..127 => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            })
            .collect();
        stored += &format!("\"Key\" : \"/registry/daemonsets/kube-system/{name}\"\n\"Value\" : \"{value}\"\n");
    }
    fs::write(folder.path().join("stored"), stored).unwrap();
    fs::write(folder.path().join("settings"), "").unwrap();
    let here = folder.path().display();
    program(
        folder.path(),
        "etcdctl",
        &format!("case $* in del*) echo 0 ;; *'/daemonsets/ -w'*) cat {here}/stored ;; esac"),
    );
    let output = Command::new("sh")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/restore/files/forget.sh"))
        .args(["/registry", "true", "10.0.0.1", "fd00::1"])
        .env("PATH", format!("{here}:{}", std::env::var("PATH").unwrap()))
        .env("ETCDCTL_SETTINGS", folder.path().join("settings"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for (name, argument, named) in objects {
        let removed = text.contains(&format!("removed: daemonsets/kube-system/{name},"));
        assert_eq!(removed, named, "{argument}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
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
}
