//! Addresses of nodes: networks that keep theirs, nodes that move, and hosts that report addresses of others.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{play, program};

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

/// Static pods and pods of users keep running. The marker of an interrupted run repeats the restart.
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

/// Otherwise, agents of networks would restart with the old address of the other family.
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

/// Once kubelet has the new addresses, it has requested a new certificate, and would not notice that the file is gone.
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

/// An approved request for the former address does not end the wait for the request with the new one.
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

/// Firewalls and routes of the other hosts would trust the address.
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
