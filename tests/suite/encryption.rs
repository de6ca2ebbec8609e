//! Encryption of stored objects: settings that would leave them unreadable, and the script that rewrites them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::roles::{play, program};

const HOSTS: &str = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";
/// The names that follow from these keys.
const KEY: &str = "key-3eb1bd43";
const OTHER_KEY: &str = "key-4ba68aa8";

/// Exit code and output of the check of both control planes, which run if `manifest`, with a record.
fn checked(folder: &Path, manifest: bool, record: &str, settings: &str) -> (Option<i32>, String) {
    let playbook = "- hosts: kube_control_plane\n  gather_facts: false\n  any_errors_fatal: true\n  tasks:\n    \
        - ansible.builtin.import_role: {name: control_plane, tasks_from: encryption}\n";
    let marker = folder.join("encryption.applied");
    let _ = fs::remove_dir_all(folder.join("manifests"));
    fs::create_dir(folder.join("manifests")).unwrap();
    if manifest {
        fs::write(folder.join("manifests/kube-apiserver.yaml"), "").unwrap();
    }
    fs::write(marker, record).unwrap();
    let settings = format!("{{cluster_silent: [], kube_encrypt_secret_data: true, {settings}}}");
    let token = format!("kube_encrypt_token={TOKEN}");
    play(folder, HOSTS, playbook, &["-e", &token, "-e", &settings])
}

#[test]
fn settings_that_leave_stored_objects_unreadable_refused() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("secretbox {KEY} secrets,configmaps\nreads secrets,configmaps {KEY}\n");
    let begun = format!("identity  secrets\nbegun secretbox {KEY} secrets\nreads secrets {KEY}\n");
    let plugin = "kms kms:old/v2 secrets\nreads secrets kms:old/v2\n".to_owned();
    let both = "kube_encryption_resources: [secrets, configmaps]";
    let kms =
        "kube_encryption_algorithm: kms, kube_encryption_kms: {apiVersion: v2, name: NAME, endpoint: 'unix:///a/b'}";
    let (new, old) = (kms.replace("NAME", "new"), kms.replace("NAME", "old"));
    let refused = [
        (&key, "", "Objects of configmaps are stored encrypted, but kube_encryption_resources does not have it"),
        (&key, "kube_encryption_algorithm: identity", "Objects of configmaps are stored encrypted"),
        (&key, "kube_encryption_resources: ['*.apps']", "Objects of secrets and configmaps are stored"),
        (&key, "kube_encrypt_secret_data: false", "but objects are stored encrypted (secretbox key-3eb1bd43 secrets"),
        // An interrupted run may have stored objects with settings that were never recorded as applied.
        (
            &begun,
            "kube_encrypt_secret_data: false",
            "but objects are stored encrypted (secretbox key-3eb1bd43 secrets)",
        ),
        (&begun, "kube_encryption_resources: [configmaps]", "Objects of secrets are stored encrypted"),
        (&plugin, "", "are encrypted by the plugin old/v2 (name and version of its API), which is neither"),
        (&plugin, &new, "are encrypted by the plugin old/v2"),
        (&plugin, &old.replace("v2", "v1"), "are encrypted by the plugin old/v2"),
    ];
    for (record, settings, sentence) in refused {
        let (code, text) = checked(folder.path(), true, record, settings);
        assert!(code == Some(2) && text.contains(sentence), "{record}{settings}: {text}");
        assert_eq!(&fs::read_to_string(folder.path().join("encryption.applied")).unwrap(), record);
    }
    let further = "kube_encryption_further_kms: {apiVersion: v2, name: old, endpoint: 'unix:///c/d'}";
    let read = plugin.replace("reads secrets", &format!("reads secrets {KEY} kms:new/v2"));
    for (record, settings) in [
        (&key, both.to_owned()),
        (
            &key.replace(",configmaps", ""),
            "kube_encryption_algorithm: identity, kube_encryption_resources: ['*.*']".to_owned(),
        ),
        (&key.replace(",configmaps", ",*."), "kube_encryption_resources: ['*.']".to_owned()),
        (&key.replace("secretbox", "identity").replacen(KEY, "", 1), "kube_encrypt_secret_data: false".to_owned()),
        (&plugin, old.clone()),
        (&read, further.to_owned()),
        (&read, format!("{new}, {further}")),
        // The record of an earlier release.
        (&"kms old secrets\n".to_owned(), old),
    ] {
        let (code, text) = checked(folder.path(), true, record, &settings);
        assert_eq!(code, Some(0), "{record}{settings}: {text}");
    }
}

/// The API servers of the others have no key, or no settings for the resource, before they have restarted.
#[test]
fn encryption_that_other_control_planes_cannot_read_yet_refused() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("encryption.applied");
    let remedy = "Run the playbook once with -e kube_encryption_algorithm=identity, which";
    let (code, text) = checked(folder.path(), true, "", "");
    assert!(code == Some(2) && text.contains(remedy) && text.contains("cannot read yet"), "{text}");
    // A new cluster encrypts from the start, also after an interruption.
    let (code, text) = checked(folder.path(), false, "", "");
    assert_eq!(code, Some(0), "{text}");
    let record = fs::read_to_string(&marker).unwrap();
    assert_eq!(record, format!("begun secretbox {KEY} secrets\nreads secrets {KEY}\n"));
    let (code, text) = checked(folder.path(), true, &record, "");
    assert_eq!(code, Some(0), "{text}");
    // A run with identity that was interrupted has taught nothing that is certain.
    let (code, text) = checked(folder.path(), true, "", "kube_encryption_algorithm: identity");
    assert_eq!(code, Some(0), "{text}");
    let record = fs::read_to_string(&marker).unwrap();
    assert_eq!(record, "begun identity  secrets\n");
    let (code, text) = checked(folder.path(), true, &record, "");
    assert!(code == Some(2) && text.contains(remedy), "{text}");
    let taught = format!("identity  secrets\nreads secrets {KEY}\n");
    let (code, text) = checked(folder.path(), true, &taught, "");
    assert_eq!(code, Some(0), "{text}");
    let more = "kube_encryption_resources: [secrets, configmaps]";
    let encrypted = format!("secretbox {KEY} secrets\nreads secrets {KEY}\n");
    let (code, text) = checked(folder.path(), true, &encrypted, more);
    assert!(code == Some(2) && text.contains("cannot read yet (configmaps)") && text.contains(remedy), "{text}");
    let rotated = encrypted.replace(KEY, OTHER_KEY);
    let (code, text) = checked(folder.path(), true, &rotated, &format!("kube_encrypt_further_tokens: [{OTHER}]"));
    let exchange = "add the new one to kube_encrypt_further_tokens and run the playbook; then exchange the two";
    assert!(code == Some(2) && text.contains(exchange), "{text}");
}

/// Exit code, standard error and what was stored, by a kubectl that knows six resources.
fn rewritten(folder: &Path, resources: &[&str]) -> (Option<i32>, String, String) {
    let stored = folder.join("stored");
    let _ = fs::remove_file(&stored);
    let output = Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/roles/control_plane/files/rewrite.sh"))
        .arg(folder.join("kubectl"))
        .arg("/root/admin.conf")
        .args(resources)
        .env("REWRITE_TRIES", "2")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text, fs::read_to_string(stored).unwrap_or_default())
}

/// The old key may be removed after the record of a rewrite.
#[test]
fn resources_of_wildcards_rewritten_and_failures_are_no_rewrite() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
shift 2
case "$*" in
    'api-resources --verbs=list,update --output=name')
        [ ! -e FOLDER/unlisted ] || { echo 'error: unable to retrieve the complete list of server APIs' >&2; exit 1; }
        printf '%s\n' configmaps events secrets deployments.apps daemonsets.apps events.events.k8s.io policies.example.org ;;
    'get apiservices.'*) echo example.org ;;
    'get absent '*) echo "error: the server doesn't have a resource type \"absent\"" >&2; exit 1 ;;
    'get '*' --output name') case $2 in daemonsets.apps) ;; *) echo "$2/a" ;; esac ;;
    'get '*' --output json')
        [ "$2" != "$(cat FOLDER/unread 2>/dev/null)" ] || { echo 'Error from server: timeout' >&2; exit 1; }
        echo "$2" ;;
    'replace --filename '*)
        cat "$3" >> FOLDER/stored
        [ ! -e FOLDER/errors ] || { cat FOLDER/errors >&2; exit 1; } ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac"#;
    program(folder.path(), "kubectl", &script.replace("FOLDER", &folder.path().display().to_string()));
    let stored = |resources: &[&str]| {
        let (code, text, stored) = rewritten(folder.path(), resources);
        assert_eq!((code, text.as_str()), (Some(0), ""), "{resources:?}");
        stored.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(stored(&["secrets", "absent"]), "secrets");
    assert_eq!(stored(&["*.apps", "secrets"]), "deployments.apps secrets");
    assert_eq!(stored(&["*."]), "configmaps events secrets");
    assert_eq!(stored(&["*.*"]), "configmaps deployments.apps events secrets");

    // Objects that changed or vanished meanwhile were stored by the API server itself.
    let conflict = "Error from server (Conflict): error when replacing \"x\": Operation cannot be fulfilled\n";
    fs::write(folder.path().join("errors"), conflict).unwrap();
    assert_eq!(stored(&["secrets"]), "secrets");
    fs::write(folder.path().join("errors"), format!("{conflict}Error from server (Forbidden): no\n")).unwrap();
    let (code, text, _) = rewritten(folder.path(), &["secrets"]);
    assert!(
        code == Some(1) && text.contains("Not all secrets could be stored again: ") && text.contains("no"),
        "{text}"
    );
    fs::write(folder.path().join("errors"), "").unwrap();
    assert_eq!(rewritten(folder.path(), &["secrets"]).0, Some(1), "a program that was killed has stored nothing");
    fs::remove_file(folder.path().join("errors")).unwrap();

    fs::write(folder.path().join("unread"), "secrets").unwrap();
    let (code, text, _) = rewritten(folder.path(), &["configmaps", "secrets"]);
    assert!(code == Some(1) && text.contains("Not all secrets could be stored again: Error from server"), "{text}");
    fs::write(folder.path().join("unlisted"), "").unwrap();
    let (code, text, stored) = rewritten(folder.path(), &["configmaps", "*.apps"]);
    assert!(code == Some(1) && text.contains("*.apps stands for could not be listed") && stored.is_empty(), "{text}");
}
