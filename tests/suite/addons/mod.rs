//! Addons from upstream manifests: variables appear in the objects. Small manifests stand in for upstream's.

mod choices;
mod gcp;
mod hcloud;
mod nvidia;
mod oci_azure;
mod openstack;
mod scheduler_plugins;
mod upcloud;
mod upstream;
mod vsphere_aws;

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

/// Exit code, output, and the objects that the addon would apply; there is no cluster. In variables, `{here}` means the
/// folder of the manifest, and of a key of a cluster, `sa.key`.
fn install(addon: &str, manifest: &str, variables: &Value) -> (Option<i32>, String, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display().to_string();
    let inventory = "[kube_control_plane]\ncp1 ip=10.0.0.1\n[etcd]\ncp1\n[kube_node]\ncp1\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n\
                     [all:vars]\nansible_connection=local\nansible_architecture=x86_64\n";
    let play = format!(
        "- hosts: cp1\n  gather_facts: false\n  tasks:\n    - include_role: {{name: addon/{addon}, tasks_from: validate, public: true}}\n    \
         - include_role: {{name: addon/{addon}, tasks_from: install}}\n    \
         - copy: {{dest: {here}/out.json, content: \"{{{{ cluster_applied | to_json }}}}\"}}\n"
    );
    let variables = variables.to_string().replace("{here}", &here);
    for (name, content) in [
        ("hosts", inventory),
        ("play.yml", &play),
        ("manifest.yaml", manifest),
        ("v.json", &variables),
        ("sa.key", "key"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "-e", "@v.json", "-e", &format!("kube_config_dir={here}/none"), "play.yml"])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let objects = fs::read_to_string(folder.path().join("out.json")).unwrap_or_else(|_| "[]".to_owned());
    (output.status.code(), text, serde_json::from_str(&objects).unwrap())
}

#[track_caller]
fn applied(addon: &str, manifest: &str, variables: &Value) -> Vec<Value> {
    let (code, text, objects) = install(addon, manifest, variables);
    assert_eq!(code, Some(0), "{text}");
    objects
}

#[track_caller]
fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} in {objects:#?}"))
}

#[track_caller]
fn has(object: &Value, pointer: &str, wanted: &Value) {
    assert_eq!(object.pointer(pointer), Some(wanted), "{pointer} of {object:#}");
}

#[track_caller]
fn refused(addon: &str, manifest: &str, variables: &Value, sentence: &str) {
    let (code, text, _) = install(addon, manifest, variables);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
}

/// A text in a Secret.
#[track_caller]
fn secret(objects: &[Value], name: &str, key: &str) -> String {
    let data = object(objects, "Secret", name)["data"][key].as_str().unwrap();
    String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap()
}

/// Variables, with more of them.
fn with(mut variables: Value, more: Value) -> Value {
    variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    variables
}

const SUM: &str = "sha256:{{ lookup('file', '{here}/manifest.yaml', rstrip=false) | hash('sha256') }}";
