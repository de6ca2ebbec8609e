//! Tokens for joining, with programs that stand for kubeadm and kubectl.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::{Value, json};

/// An administrator has made a token without end.
const KUBEADM: &str = r#"
printf 'kubeadm %s\n' "$*" >>"$ROOT/calls"
case "$*" in
*"token list"*) echo '{"token": "aaaaaa.0000000000000000", "usages": ["authentication", "signing"],
    "groups": ["system:bootstrappers:kubeadm:default-node-token"]}' ;;
*"token create"*) echo bbbbbb.1111111111111111 ;;
esac
"#;
const KUBECTL: &str = r#"
printf 'kubectl %s\n' "$*" >>"$ROOT/calls"
case "$*" in
*"get secret kubeadm-certs"*) echo '{"metadata": {"ownerReferences": [{"name": "bootstrap-token-cccccc"},
    {"name": "bootstrap-token-../x"}, {"name": "other"}]}}' ;;
esac
"#;

fn bench() -> Bench {
    let bench = Bench::new().program("kubeadm", KUBEADM).program("kubectl", KUBECTL);
    bench.write("calls", "");
    bench
}

fn run(bench: &Bench, more: Value) -> Value {
    let mut args = json!({"kubeadm": "@/programs/kubeadm", "kubectl": "@/programs/kubectl"});
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.run("windlass.kubernetes.kubeadm", args, false)
}

/// A token that somebody else made may have no end, and whoever has it registers nodes.
#[test]
fn token_of_somebody_else_is_not_handed_out() {
    let bench = bench();
    let answer = run(&bench, json!({"state": "token"}));
    assert_eq!(answer["token"], "bbbbbb.1111111111111111", "{answer}");
    assert!(bench.read("calls").contains("--ttl=30m0s"), "{}", bench.read("calls"));
    let answer = run(&bench, json!({"state": "token", "token": "aaaaaa.0000000000000000"}));
    assert!(answer["changed"] == false && answer["action"] == "none", "{answer}");
}

#[test]
fn token_and_uploaded_certificates_deleted_by_names_that_only_kubeadm_gives() {
    let bench = bench();
    run(&bench, json!({"state": "token_absent", "token": "bbbbbb.1111111111111111"}));
    let calls = bench.read("calls");
    assert!(calls.contains("delete secret --ignore-not-found bootstrap-token-bbbbbb\n"), "{calls}");
    assert!(!calls.contains("1111111111111111") && !calls.contains("kubeadm-certs"), "{calls}");
    bench.write("calls", "");
    run(&bench, json!({"state": "token_absent", "token": "bbbbbb.1111111111111111", "certificate_key": "00"}));
    let calls = bench.read("calls");
    let all = "delete secret --ignore-not-found bootstrap-token-bbbbbb bootstrap-token-cccccc kubeadm-certs\n";
    assert!(calls.contains(all), "{calls}");
    let answer = run(&bench, json!({"state": "token_absent", "token": "-A.x"}));
    assert_eq!(answer["failed"], true, "{answer}");
}
