//! Keys made by the host's openssl and ssh-keygen.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use std::process::Command;

use case::Bench;
use serde_json::{Value, json};

fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok()
}

fn with(args: Value, more: Value) -> Value {
    let mut args = args;
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    args
}

#[test]
fn private_key_of_every_type_generated_and_kept() {
    if !has("openssl", "version") {
        return;
    }
    for (more, first, size) in [
        (json!({"type": "RSA", "size": 2048}), "-----BEGIN RSA PRIVATE KEY-----", 2048),
        (json!({"type": "ECC", "curve": "secp256r1"}), "-----BEGIN EC PRIVATE KEY-----", 4096),
        (json!({"type": "Ed25519"}), "-----BEGIN PRIVATE KEY-----", 4096),
        (json!({"type": "RSA", "size": 2048, "format": "pkcs8"}), "-----BEGIN PRIVATE KEY-----", 2048),
    ] {
        let bench = Bench::new();
        let args = with(json!({"path": "@/key.pem"}), more);
        let result = bench.converges("openssl_privatekey", args.clone());
        assert_eq!(bench.read("key.pem").lines().next(), Some(first), "{args}");
        assert_eq!((bench.mode("key.pem"), &result["size"]), (0o600, &json!(size)));
        assert_eq!(result["fingerprint"]["sha256"].as_str().unwrap().len(), 95, "{result}");
        assert!(result.get("privatekey").is_none());
    }
}

#[test]
fn differing_private_key_regenerated_or_refused() {
    if !has("openssl", "version") {
        return;
    }
    let bench = Bench::new();
    let args = json!({"path": "@/key.pem", "type": "ECC", "curve": "secp256r1"});
    bench.converges("openssl_privatekey", args.clone());
    let other = json!({"path": "@/key.pem", "type": "ECC", "curve": "secp384r1"});
    bench.refuses("openssl_privatekey", with(other.clone(), json!({"regenerate": "fail"})), "wrong type and/or size");
    bench.rests("openssl_privatekey", with(other.clone(), json!({"regenerate": "never"})));
    let changed = bench.converges("openssl_privatekey", with(other, json!({"backup": true, "return_content": true})));
    assert!(std::path::Path::new(changed["backup_file"].as_str().unwrap()).exists());
    assert_eq!(changed["privatekey"], bench.read("key.pem"));
    let secret = with(args.clone(), json!({"passphrase": "a secret"}));
    bench.converges("openssl_privatekey", secret.clone());
    assert!(bench.read("key.pem").contains("ENCRYPTED"));
    bench.refuses(
        "openssl_privatekey",
        with(args.clone(), json!({"regenerate": "partial_idempotence"})),
        "Unable to read the key",
    );
    bench.converges("openssl_privatekey", with(secret, json!({"format": "pkcs8", "format_mismatch": "convert"})));
    bench.converges("openssl_privatekey", json!({"path": "@/key.pem", "state": "absent"}));
    for (args, word) in [
        (json!({"path": "@/key.pem", "type": "ECC"}), "curve"),
        (json!({"path": "@/none/key.pem"}), "does not exist"),
        (json!({"path": "@/key.pem", "type": "Ed25519", "format": "pkcs1"}), "pkcs1"),
        (json!({"path": "@/key.pem", "format": "raw"}), "raw"),
    ] {
        bench.refuses("openssl_privatekey", args, word);
    }
}

#[test]
fn ssh_key_pair_generated_kept_and_repaired() {
    if !has("ssh-keygen", "-?") {
        return;
    }
    for passphrase in [json!({}), json!({"passphrase": "a secret"})] {
        let bench = Bench::new();
        let args = with(json!({"path": "@/id", "type": "ed25519", "comment": "ada"}), passphrase);
        let result = bench.converges("openssh_keypair", args.clone());
        assert_eq!(
            (&result["type"], &result["size"], &result["comment"]),
            (&json!("ed25519"), &json!(256), &json!("ada"))
        );
        assert!(result["fingerprint"].as_str().unwrap().starts_with("SHA256:"), "{result}");
        assert_eq!(bench.read("id.pub"), format!("{} ada\n", result["public_key"].as_str().unwrap()));
        assert_eq!((bench.mode("id"), bench.mode("id.pub")), (0o600, 0o644));
        std::fs::remove_file(bench.path("id.pub")).unwrap();
        let repaired = bench.run("openssh_keypair", args.clone(), false);
        assert_eq!(
            (&repaired["changed"], &repaired["public_key"]),
            (&json!(true), &result["public_key"]),
            "{repaired}"
        );
        let renamed = bench.converges("openssh_keypair", with(args.clone(), json!({"comment": "bob"})));
        assert_eq!((&renamed["public_key"], &renamed["comment"]), (&result["public_key"], &json!("bob")));
        let forced = bench.run("openssh_keypair", with(args.clone(), json!({"force": true})), false);
        assert_ne!(forced["public_key"], result["public_key"]);
        bench.refuses(
            "openssh_keypair",
            with(args.clone(), json!({"type": "ecdsa", "regenerate": "fail"})),
            "wrong type",
        );
        bench.converges("openssh_keypair", json!({"path": "@/id", "state": "absent"}));
    }
    let bench = Bench::new();
    bench.write("broken", "no key");
    for (args, word) in [
        (json!({"path": "@/broken", "type": "ed25519"}), "Unable to read the key"),
        (json!({"path": "@"}), "is a directory"),
        (json!({"path": "@/x", "size": 512}), "no size"),
        (json!({"path": "@/none/x"}), "does not exist"),
    ] {
        bench.refuses("openssh_keypair", args, word);
    }
}
