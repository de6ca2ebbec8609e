//! The report of playbooks/cis.yml: its table of checks, and its results on a host with a control plane's files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use windlass_yaml::{Options, Source, parse};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const FIELDS: [&str; 20] = [
    "id", "level", "title", "group", "only", "was", "paths", "program", "flag", "also", "field", "query", "expect",
    "refuse", "except", "default", "instead", "optional", "manual", "remedy",
];

/// All checks of the table.
fn checks() -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["control_plane", "etcd", "configuration", "nodes", "policies"] {
        let path = Path::new(ROOT).join("roles/cis/vars/main").join(format!("{name}.yml"));
        let loaded = parse(Source::new(name.to_owned(), fs::read_to_string(path).unwrap()), &Options::default());
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        let document = loaded.documents[0].to_json();
        let (_, table) = document.as_object().unwrap().iter().next().unwrap();
        all.extend(table.as_array().unwrap().clone());
    }
    all
}

#[test]
fn every_check_is_complete() {
    for check in checks() {
        let has = |field: &str| check.get(field).is_some();
        for field in check.as_object().unwrap().keys() {
            assert!(FIELDS.contains(&field.as_str()), "`{field}` is unknown: {check}");
        }
        assert!(has("id") && has("title") && has("remedy"), "incomplete: {check}");
        assert!(
            ["kube_control_plane", "etcd", "k8s_cluster", "cluster"].contains(&check["group"].as_str().unwrap()),
            "{check}"
        );
        let sources = ["paths", "program", "query"].into_iter().filter(|source| has(source)).count();
        assert_eq!(
            sources,
            usize::from(has("expect") || has("refuse")),
            "nothing to compare, or with nothing: {check}"
        );
        assert!(sources == 1 || check["manual"] == true, "neither read nor manual: {check}");
        assert!(!(has("expect") && has("refuse")), "either `expect` or `refuse`: {check}");
    }
}

#[test]
fn each_benchmark_has_its_checks_once() {
    for (benchmark, count) in [("1.10", 130), ("1.11", 133), ("1.12", 131)] {
        let mut seen = BTreeMap::new();
        for check in checks() {
            if check.get("only").is_some_and(|only| !only.as_array().unwrap().contains(&json!(benchmark))) {
                continue;
            }
            let id =
                check.pointer(&format!("/was/{benchmark}/id")).unwrap_or(&check["id"]).as_str().unwrap().to_owned();
            let former = seen.insert(id, check["title"].clone());
            assert!(former.is_none(), "{benchmark} has {check} and {former:?}");
        }
        assert_eq!(seen.len(), count, "{benchmark}");
    }
}

#[test]
fn control_plane_judged_by_manifests_and_modes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let flags = "authorization-mode=Node,RBAC profiling audit-log-maxage=7 kubelet-client-certificate=/a etcd-certfile=/b \
        etcd-keyfile={{lookup('pipe','touch${IFS}evil')}} enable-admission-plugins=NodeRestriction,AlwaysAdmit";
    let flags: String = flags.split_whitespace().map(|flag| format!("    - --{flag}\n")).collect();
    write(
        "kubernetes/manifests/kube-apiserver.yaml",
        &format!("spec:\n  containers:\n  - command:\n    - kube-apiserver\n{flags}"),
        0o644,
    );
    write("kubernetes/admin.conf", "", 0o600);
    write("kubernetes/ssl/ca.key", "", 0o640);
    let groups = "[etcd]\ncp1\n[kube_node]\ncp1\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n";
    let variables =
        format!("[all:vars]\nansible_connection=local\nkube_config_dir={}/kubernetes\n", folder.path().display());
    write("hosts", &format!("[kube_control_plane]\ncp1\n{groups}{variables}"), 0o644);

    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "--check"])
        .arg(Path::new(ROOT).join("playbooks/cis.yml"))
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("changed=0"), "{text}");
    assert!(text.contains(" checks on 1 host, "), "{text}");
    assert!(text.contains("1.1.1    1     fail    Manifest of the API server is for root only"), "{text}");
    assert!(!folder.path().join("evil").exists(), "a value of a host was evaluated");

    let report: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("cis.json")).unwrap()).unwrap();
    let checks = report["checks"].as_array().unwrap();
    for (id, status) in [
        ("1.1.1", "fail"),
        ("1.1.3", "manual"),
        ("1.1.7", "skip"),
        ("1.1.13", "pass"),
        ("1.1.21", "manual"),
        ("1.2.2", "pass"),
        ("1.2.4", "fail"),
        ("1.2.6", "pass"),
        ("1.2.8", "pass"),
        ("1.2.10", "fail"),
        ("1.2.14", "pass"),
        ("1.2.15", "fail"),
        ("1.2.17", "fail"),
        ("1.2.21", "pass"),
        ("1.2.23", "pass"),
        ("3.1.1", "manual"),
    ] {
        let check = checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(check["status"], status, "{check:#}");
    }
}
