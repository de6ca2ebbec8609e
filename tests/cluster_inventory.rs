//! Inventories that `playbooks/cluster.yml` must refuse with a sentence, before it reaches for any host.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

const GROUPS: &str = "
[kube_control_plane]
cp1

[etcd]
cp1

[kube_node]
worker1

[k8s_cluster:children]
kube_control_plane
kube_node
";

/// What the playbook says of an inventory whose hosts nobody answers for.
fn refusal(inventory: &str, variables: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inventory");
    let nowhere = "[all:vars]\nansible_host=127.0.0.1\nansible_port=1\n";
    fs::write(&file, format!("{inventory}\n{nowhere}{variables}\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "playbooks/cluster.yml", "-i"])
        .arg(&file)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(!told.contains("unreachable=1"), "a host was reached for:\n{told}");
    told
}

#[track_caller]
fn refused(inventory: &str, variables: &str, sentence: &str) {
    let told = refusal(inventory, variables);
    assert!(told.contains(sentence), "it does not say `{sentence}`:\n{told}");
}

#[test]
fn without_the_groups() {
    refused("[servers]\ncp1\n", "", "The inventory has no host in the group `kube_control_plane`.");
}

#[test]
fn an_even_number_of_etcd_members() {
    let inventory = GROUPS.replace("[etcd]\ncp1", "[etcd]\ncp1\nworker1");
    refused(&inventory, "", "The group `etcd` has 2 hosts (cp1, worker1).");
}

#[test]
fn services_and_pods_with_the_same_addresses() {
    refused(GROUPS, "kube_service_addresses=10.233.64.0/20", "overlap; choose networks apart from each other.");
}

#[test]
fn a_network_that_is_none() {
    refused(GROUPS, "kube_pods_subnet=10.233.64.0", "kube_pods_subnet is `10.233.64.0`, which is no network");
}

#[test]
fn a_host_with_an_address_of_a_pod() {
    refused(
        &GROUPS.replacen("cp1", "cp1 ip=10.233.65.4", 1),
        "",
        "cp1 has the address 10.233.65.4, which lies in kube_pods_subnet",
    );
}

#[test]
fn a_network_plugin_that_does_not_exist() {
    refused(
        GROUPS,
        "kube_network_plugin=flanel",
        "kube_network_plugin is `flanel`, but must be one of: bridge, cni, none.",
    );
}

#[test]
fn a_release_that_is_none() {
    refused(GROUPS, "kube_version=v1.30", "kube_version is `v1.30`, but must be a release");
}
