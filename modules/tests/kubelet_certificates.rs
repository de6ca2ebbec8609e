//! Requests for serving certificates that a taken node writes, with requests by openssl and a kubectl that simulates
//! the API server.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use std::process::Command;

use base64::{Engine, engine::general_purpose::STANDARD};
use case::Bench;
use serde_json::{Value, json};
use windlass_testing::has;

const KUBECTL: &str = r#"
case "$*" in
*"replace --raw"*) printf '%s\n' "$*" >>"$ROOT/calls"; cat >"$ROOT/approved.json" ;;
*certificatesigningrequests*) cat "$ROOT/list.json" ;;
esac
"#;

const SUBJECT: &str = "/O=system:nodes/CN=system:node:w1";
const OWN: &str = "subjectAltName=DNS:w1,IP:10.0.0.1,IP:fd97::1";

/// A request in PEM, as openssl writes it.
fn pem(subject: &str, key: &[&str], extensions: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("openssl");
    command.args(["req", "-new", "-nodes", "-subj", subject, "-keyout"]).arg(folder.path().join("key")).args(key);
    command.args(extensions.iter().flat_map(|extension| ["-addext", extension]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const EC: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

fn own() -> String {
    pem(SUBJECT, EC, &[OWN])
}

/// A request of the node `w1`.
fn object(pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1", "uid": "u-1", "resourceVersion": "7"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving", "username": "system:node:w1",
            "groups": ["system:nodes", "system:authenticated"], "usages": ["digital signature", "server auth"],
            "request": STANDARD.encode(pem),
        },
        "status": {},
    })
}

fn bench(objects: &[Value]) -> Bench {
    let bench = Bench::new().program("kubectl", KUBECTL);
    bench.write("list.json", &json!({"items": objects}).to_string()).write("admin.conf", "x");
    bench
}

fn run(bench: &Bench, missing: &[&str], check: bool) -> Value {
    let args = json!({
        "nodes": {"w1": ["w1", "10.0.0.1", "fd97:0::1"], "cp1": ["cp1", "10.0.0.9"]},
        "missing": missing, "timeout": 0, "kubeconfig": "@/admin.conf", "kubectl": "@/programs/kubectl",
    });
    bench.run("windlass.kubernetes.kubelet_certificates", args, check)
}

#[track_caller]
fn refused(object: Value, reason: &str) {
    let bench = bench(&[object]);
    let answer = run(&bench, &[], false);
    assert!(!bench.path("approved.json").exists() && answer["changed"] == false, "{reason}: {answer}");
    assert_eq!(answer["refused"][0]["request"], "csr-1", "{answer}");
    assert!(answer["refused"][0]["reason"].as_str().unwrap().contains(reason), "{reason}: {answer}");
    assert!(answer["warnings"][0].as_str().unwrap().contains(reason), "{answer}");
    let failed = run(&bench, &["w1"], false);
    assert!(failed["failed"] == true && failed["msg"].as_str().unwrap().contains(reason), "{failed}");
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = object(&own());
    change(&mut object);
    object
}

#[test]
fn request_of_a_node_for_itself_approved_as_it_was_judged() {
    if !has("openssl") {
        return;
    }
    let keys: [&[&str]; 4] = [
        EC,
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
        &["-newkey", "rsa:2048"],
        &["-newkey", "ed25519"],
    ];
    for key in keys {
        let mut object = object(&pem(SUBJECT, key, &[OWN]));
        object["spec"]["usages"] = json!(["key encipherment", "digital signature", "server auth"]);
        let bench = bench(&[object]);
        let predicted = run(&bench, &["w1"], true);
        assert!(predicted["changed"] == true && !bench.path("approved.json").exists(), "{predicted}");
        let answer = run(&bench, &["w1"], false);
        assert!(answer["changed"] == true && answer["approved"] == json!(["w1"]), "{answer}");
        let sent: Value = serde_json::from_str(&bench.read("approved.json")).unwrap();
        assert_eq!((&sent["metadata"]["uid"], &sent["metadata"]["resourceVersion"]), (&json!("u-1"), &json!("7")));
        assert_eq!(sent["status"]["conditions"][0]["type"], "Approved", "{sent}");
        assert!(bench.read("calls").contains("certificatesigningrequests/csr-1/approval"), "{}", bench.read("calls"));
        let mut before = sent.clone();
        before["status"]["conditions"][0]["message"] = json!("");
        bench.write("list.json", &json!({"items": [before]}).to_string());
        let again = run(&bench, &["w1"], false);
        assert!(again["changed"] == false && again["failed"] != true, "{again}");
    }
}

/// Go ignores headers of PEM, and openssl fails with them.
#[test]
fn request_that_only_go_understands_is_not_approved() {
    if !has("openssl") {
        return;
    }
    let (own, other) = (own(), pem(SUBJECT, EC, &["subjectAltName=DNS:kubernetes"]));
    let one = "one PEM block without headers";
    let header = "-----BEGIN CERTIFICATE REQUEST-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n";
    for pem in [
        other.replace("-----BEGIN CERTIFICATE REQUEST-----\n", header),
        own.clone() + &other,
        format!("text\n{own}"),
        own.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
        own.replace('\n', "\r\n"),
        own.replacen("\nM", "\n M", 1),
        String::new(),
    ] {
        refused(object(&pem), one);
    }
    refused(object(&"A".repeat(20_000)), "too large");
    let mut der = STANDARD.decode(own.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let encoded = |der: &[u8]| {
        let body = STANDARD.encode(der);
        let lines: Vec<&str> = body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let lines = lines.join("\n");
        object(&format!("-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n"))
    };
    refused(encoded(&[&der[..], &[0]].concat()), "not strict DER");
    // The length of the whole in three bytes, where two are enough.
    assert_eq!(der[1], 0x82);
    refused(encoded(&[&[der[0], 0x83, 0], &der[2..]].concat()), "not strict DER");
    *der.last_mut().unwrap() ^= 1;
    refused(encoded(&der), "signature is not valid");
}

#[test]
fn request_for_more_than_the_own_node_is_not_approved() {
    if !has("openssl") {
        return;
    }
    let with = |subject: &str, extensions: &[&str]| object(&pem(subject, EC, extensions));
    refused(with(SUBJECT, &[]), "requests other extensions");
    for (name, shown) in [
        ("IP:10.233.0.1", "10.233.0.1"),
        ("IP:10.0.0.9", "10.0.0.9"),
        ("IP:::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("DNS:kubernetes", "kubernetes"),
        ("DNS:cp1", "cp1"),
        ("DNS:10.0.0.1", "10.0.0.1"),
    ] {
        refused(with(SUBJECT, &[&format!("{OWN},{name}")]), &format!("does not give {shown}"));
    }
    refused(with(SUBJECT, &[&format!("{OWN},URI:https://w1")]), "other extensions");
    refused(with(SUBJECT, &[&format!("{OWN},email:a@w1")]), "other extensions");
    refused(with(SUBJECT, &[OWN, "basicConstraints=CA:TRUE"]), "other extensions");
    refused(with("/O=system:nodes/CN=system:node:cp1", &[OWN]), "subject is not that of the node");
    refused(with("/O=system:masters/CN=system:node:w1", &[OWN]), "subject is not that of the node");
    for subject in
        ["/O=system:nodes/O=system:masters/CN=system:node:w1", "/CN=system:node:w1", "/O=system:nodes/CN=a/CN=b"]
    {
        refused(with(subject, &[OWN]), "subject is not one CN and one O");
    }
}

#[test]
fn request_of_another_user_or_usage_is_not_approved() {
    if !has("openssl") {
        return;
    }
    refused(changed(|it| it["spec"]["username"] = json!("system:serviceaccount:x:y")), "no node requests it");
    refused(changed(|it| it["spec"]["username"] = json!("system:node:w2")), "the inventory has no such node");
    refused(changed(|it| it["spec"]["username"] = json!("system:node:cp1")), "subject is not that of the node");
    refused(changed(|it| it["spec"]["groups"] = json!(["system:authenticated"])), "not in the group");
    refused(changed(|it| it["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client")), "another signer");
    refused(changed(|it| it["spec"]["usages"] = json!(["server auth", "client auth"])), "usages");
    refused(changed(|it| it["spec"]["usages"] = json!(["digital signature"])), "usages");
    refused(changed(|it| it["spec"]["request"] = json!("-")), "not in base64");
}

#[test]
fn refused_or_approved_request_of_before_is_not_awaited() {
    if !has("openssl") {
        return;
    }
    let denied = changed(|it| it["status"] = json!({"conditions": [{"type": "Denied"}]}));
    let mut old = object(&pem(SUBJECT, EC, &["subjectAltName=DNS:w1,IP:10.0.0.8"]));
    old["status"] = json!({"conditions": [{"type": "Approved"}]});
    let bench = bench(&[denied, old]);
    let answer = run(&bench, &["w1"], false);
    assert!(answer["msg"].as_str().unwrap().contains("can be approved came from: w1"), "{answer}");
    assert!(!bench.path("approved.json").exists());
}
