//! Nodes and their kubelets: settings, labels, and workloads that become ready.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{play, program};

/// Names only pods of the workload, crashed ones first, and no container that is done or has to wait. If the workload
/// is ready at the second check, all hosts continue.
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

/// Manifests of such a control plane may have other settings. A control plane that joins now has the settings of this
/// run.
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

/// kubeadm gives up at the first request that is not answered in time. The role runs in a mount namespace, because the
/// module reads and writes in /etc.
#[test]
fn join_that_a_silent_api_server_ended_is_finished() {
    if !windlass_testing::has_all(&["root", "namespaces"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let kubeadm = "case \"$*\" in
'token create'*) echo bbbbbb.1111111111111111 ;;
join*)
    echo joined >>asked
    echo x | tee /etc/kubernetes/kubelet.conf >/etc/kubernetes/bootstrap-kubelet.conf
    echo 'error patching node: net/http: request canceled (Client.Timeout exceeded while awaiting headers)' >&2
    exit 1 ;;
esac";
    program(folder.path(), "kubeadm", &kubeadm.replace("asked", &format!("{at}/asked")));
    program(folder.path(), "kubectl", &format!("echo \"$*\" >>{at}/asked"));
    let playbook = "- hosts: cp2
  gather_facts: false
  roles: [cluster]
  tasks:
    - ansible.builtin.import_role: {name: worker, tasks_from: join}
";
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let bin = format!("bin_dir={at}");
    let inner = super::command(folder.path(), hosts, playbook, &["-e", &bin, "-e", "kube_version=1.36.4"]);
    let script = "set -eu
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
mount --bind /mnt/etc /etc
rm -rf /etc/kubernetes
mkdir /etc/kubernetes
\"$@\"
! test -e /etc/kubernetes/bootstrap-kubelet.conf
";
    let mut outer = Command::new("unshare");
    crate::ran::wrap(outer.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]), &inner);
    let output = outer.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked.matches("joined\n").count(), 1, "{asked}");
    assert!(asked.contains("annotate --overwrite node cp2 kubeadm.alpha.kubernetes.io/cri-socket="), "{asked}");
}

/// The machine of a replaced node may have another address. In check mode, so that the names of this machine stay.
#[test]
fn other_nodes_get_the_address_of_a_replaced_one() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  roles: [cluster]
  tasks:
    - ansible.builtin.import_role: {name: scale, tasks_from: others}
";
    let names = |more: &[&str]| {
        let options = [&["--check", "--diff", "-e", "kube_network_plugin=flannel"], more].concat();
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.9\n", playbook, &options);
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let text = names(&["-e", "replace_node=true"]);
    assert!(text.contains("+10.0.0.9 cp2.cluster.local cp2"), "{text}");
    let text = names(&[]);
    assert!(!text.contains("10.0.0.9"), "{text}");
}
