//! Tests with documents that are encrypted here in sops' format: values of every type, changed and moved ones, the MAC.

use std::sync::{Arc, Mutex};

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{AesGcm, aes::Aes256};
use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha512};
use windlass_vault::{Identities, Secrets};
use windlass_yaml::{Node, Options, Source, parse};

const KEY: [u8; 32] = [7; 32];
const MODIFIED: &str = "2026-01-31T10:00:00Z";

/// A value as sops writes it.
fn enc(text: &str, context: &str, kind: &str) -> String {
    let nonce = [9; 32];
    let payload = Payload { msg: text.as_bytes(), aad: context.as_bytes() };
    let sealed = AesGcm::<Aes256, U32>::new(&KEY.into()).encrypt(&nonce.into(), payload).unwrap();
    let (data, tag) = sealed.split_at(sealed.len() - 16);
    let [data, iv, tag] = [data, &nonce, tag].map(|bytes| STANDARD.encode(bytes));
    format!("ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]")
}

/// A document with sops' metadata: the data key encrypted for an identity, and the MAC over these values.
fn document(body: &str, values: &[&str], identity: &Identity, more: &str) -> String {
    let mut hash = Sha512::new();
    values.iter().for_each(|value| hash.update(value));
    let mac = enc(&hex::encode_upper(hash.finalize()), MODIFIED, "str");
    let key = age::encrypt_and_armor(&identity.to_public(), &KEY).unwrap().replace('\n', "\n        ");
    format!(
        "{body}sops:\n  age:\n    - recipient: {}\n      enc: |\n        {key}\n  lastmodified: \"{MODIFIED}\"\n  mac: {mac}\n  version: 3.9.0\n{more}",
        identity.to_public()
    )
}

fn node(text: &str) -> Node {
    let source = Source::new("all.sops.yml", text);
    parse(Arc::clone(&source), &Options::default()).unwrap().into_one(&source).unwrap()
}

fn secrets(identity: &Identity) -> Secrets {
    let mut secrets = Secrets::new();
    secrets.set_identities(Identities::new(Vec::new(), Some(identity.to_string().expose_secret().to_owned())));
    secrets
}

fn decrypted(text: &str, identity: &Identity) -> Result<serde_json::Value, String> {
    let plain = super::decrypt(&node(text), &secrets(identity)).map_err(|error| error.to_string())?;
    Ok(plain.unwrap().to_json())
}

/// Values of all types, in mappings and lists, encrypted and not.
fn body() -> String {
    format!(
        "user: {}\nport: {}\nratio: {}\non: {}\nempty: ''\nnothing: null\nlist:\n  - {}\n  - inner: {}\nplain_unencrypted: yes\nsmall_unencrypted: 1e-05\n\
         count_unencrypted: 0x10\nday_unencrypted: 2026-01-31\n",
        enc("{{ name }}", "user:", "str"),
        enc("5432", "port:", "int"),
        enc("0.5", "ratio:", "float"),
        enc("True", "on:", "bool"),
        enc("first", "list:", "str"),
        enc("second", "list:inner:", "str"),
    )
}

const VALUES: &[&str] =
    &["{{ name }}", "5432", "0.5", "True", "first", "second", "yes", "0.00001", "16", "2026-01-31T00:00:00Z"];

#[test]
fn values_decrypted_in_their_types_and_passed_to_the_observer() {
    let identity = Identity::generate();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut secrets = secrets(&identity);
    let observed = Arc::clone(&seen);
    secrets.observe(Arc::new(move |text| observed.lock().unwrap().push(String::from_utf8_lossy(text).into_owned())));
    let text = document(&body(), VALUES, &identity, "");
    let plain = super::decrypt(&node(&text), &secrets).unwrap().unwrap();
    let expected = serde_json::json!({"user": "{{ name }}", "port": 5432, "ratio": 0.5, "true": true, "empty": "", "nothing": null,
        "list": ["first", {"inner": "second"}], "plain_unencrypted": true, "small_unencrypted": "1e-05", "count_unencrypted": 16,
        "day_unencrypted": "2026-01-31"});
    assert_eq!(plain.to_json(), expected);
    assert!(plain.get("port").unwrap().span.source.is_secret());
    // The project's own text may be a template.
    assert!(matches!(plain.get("user").unwrap().value, windlass_yaml::Value::String(_)));
    assert_eq!(*seen.lock().unwrap(), VALUES[..6]);
}

#[test]
fn changed_moved_and_missing_values_refused() {
    let identity = Identity::generate();
    let good = document(&body(), VALUES, &identity, "");
    for (from, to, reason) in [
        ("plain_unencrypted: yes", "plain_unencrypted: no", "its MAC differs"),
        ("day_unencrypted: 2026-01-31\n", "", "its MAC differs"),
        ("user: ", "admin: ", "admin was changed or moved without sops"),
        ("type:int", "type:other", "port has a type that is not supported"),
        ("type:str", "type:bool", "user does not fit the type"),
        ("type:str", "type:int", "user does not fit the type"),
        ("type:str", "type:time", "user does not fit the type"),
        ("nothing: null", "nothing: null\nadded: x", "added is not encrypted, although"),
        ("data:", "data:AAAA", "user was changed or moved without sops"),
        ("iv:", "iv:!", "user is not a value that sops has written"),
        (MODIFIED, "2026-01-31T10:00:01Z", "its MAC differs"),
    ] {
        let error = decrypted(&good.replacen(from, to, 1), &identity).unwrap_err();
        assert!(error.contains(reason), "{from}: {error}");
    }
}

#[test]
fn file_for_other_identities_names_its_recipients() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let text = document("", &[], &identity, "");
    let error = decrypted(&text, &other).unwrap_err();
    assert!(error.contains(&format!("sops has encrypted this file for {}", identity.to_public())), "{error}");
    let error = super::decrypt(&node(&text), &Secrets::new()).unwrap_err().to_string();
    assert!(error.ends_with(&windlass_vault::Error::NoIdentity.to_string()), "{error}");
    let none = decrypted("sops:\n  mac: x\n  version: 3.9.0\n  pgp: []\n", &identity).unwrap_err();
    assert!(none.contains("no recipient of age"), "{none}");
}

#[test]
fn mac_may_cover_encrypted_values_only() {
    let identity = Identity::generate();
    let begins = hex::decode(super::ONLY_ENCRYPTED).unwrap();
    // In this mode, sops hashes these bytes before the first value.
    let mut hash = Sha512::new();
    hash.update(&begins);
    hash.update("x");
    let mac = enc(&hex::encode_upper(hash.finalize()), MODIFIED, "str");
    let body = format!("a: {}\nb_unencrypted: plain\n", enc("x", "a:", "str"));
    let text = document(&body, &[], &identity, "  mac_only_encrypted: true\n");
    let text: String = text
        .lines()
        .map(|line| if line.starts_with("  mac:") { format!("  mac: {mac}\n") } else { format!("{line}\n") })
        .collect();
    assert_eq!(decrypted(&text, &identity).unwrap(), serde_json::json!({"a": "x", "b_unencrypted": "plain"}));
}

#[test]
fn variable_named_sops_is_no_metadata() {
    assert!(super::decrypt(&node("sops: yes\n"), &Secrets::new()).unwrap().is_none());
    assert!(super::decrypt(&node("sops: {version: 1}\n"), &Secrets::new()).unwrap().is_none());
}
