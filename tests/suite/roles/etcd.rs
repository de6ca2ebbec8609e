//! Members of etcd, in pods and as services.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{play, program};

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

/// The other members would refuse its connections, so it would never start. The refusal must come before anything is
/// removed.
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
        code == Some(2) && text.contains("cp1 would connect to the other etcd members from 10.0.0.9. They would"),
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

/// The host's former member still answers at the old address, because check mode has not removed it.
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
        ["--start-at-task", "control_plane : Write kubeadm's configuration for the running control plane", "--check"];
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &[&more[..], &start[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    let config = fs::read_to_string(folder.path().join("config")).unwrap();
    let added = "    extraArgs:\n      - {name: initial-cluster-state, value: existing}\n";
    assert_eq!(config.matches(added).count(), 1, "{config}");
}

/// Without its data, a member whose manifest is written again would start a cluster of its own.
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

/// Otherwise, kube-proxy of the first control plane could watch the API while its etcd has no leader, and miss
/// services.
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
