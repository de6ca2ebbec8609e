//! `openssl_privatekey_info`: what a private key is.

use serde_json::{Value, json};

use super::{
    der::{Element, number},
    key::Key,
    options::{BACKEND, content_or_file},
    public_key::{fingerprints, kind_and_numbers, pem},
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `openssl_privatekey_info` module.
pub struct OpensslPrivatekeyInfo;

static SPEC: Spec = Spec {
    name: "openssl_privatekey_info",
    collection: "community.crypto",
    summary: "Tell what a private key is",
    description: &[
        "Reads a private key and tells its kind and its public half. Numbers of more than 64 bits are texts. A passphrase is never an \
         argument of a program.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "The key's file."),
        Opt::new("content", Kind::Str, "The key itself.").secret(),
        Opt::new("passphrase", Kind::Str, "What the key is encrypted with.").secret(),
        Opt::new("return_private_key_data", Kind::Bool, "Return the secret numbers, too.").default("false"),
        Opt::new("check_consistency", Kind::Bool, "Fail if the key's parts do not belong together.").default("false"),
        BACKEND,
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the server's key\n  community.crypto.openssl_privatekey_info:\n    path: /etc/ssl/private/example.org.pem\n  register: key\n",
    returns: &[
        Return { name: "can_load_key", kind: "bool", when: "always", doc: "It could be read." },
        Return {
            name: "can_parse_key",
            kind: "bool",
            when: "always",
            doc: "It is a key, and the passphrase is right.",
        },
        Return {
            name: "key_is_consistent",
            kind: "bool",
            when: "check_consistency",
            doc: "Its parts belong together; null where nobody can tell.",
        },
        Return { name: "public_key", kind: "str", when: "success", doc: "The public key in PEM." },
        Return { name: "public_key_fingerprints", kind: "dict", when: "success", doc: "Its fingerprints." },
        Return { name: "type", kind: "str", when: "success", doc: "The kind, such as `RSA` or `ECC`." },
        Return { name: "public_data", kind: "dict", when: "success", doc: "The numbers of the public key." },
        Return { name: "private_data", kind: "dict", when: "return_private_key_data", doc: "The secret numbers." },
    ],
    ..Spec::EMPTY
};

impl Module for OpensslPrivatekeyInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut result = Map::new();
        for key in ["can_load_key", "can_parse_key"] {
            result.insert(key.into(), false.into());
        }
        result.insert("key_is_consistent".into(), Value::Null);
        match inform(args, host, &mut result) {
            Ok(()) => Ok(Plan::unchanged().with_all(result)),
            Err(failure) => {
                result.extend(failure.data);
                Err(Failure { data: result, ..failure })
            }
        }
    }
}

fn inform(args: &Args, host: &Host, result: &mut Map) -> Result<(), Failure> {
    let text = content_or_file(args, "private key")?;
    result.insert("can_load_key".into(), true.into());
    let key = Key::read(text, args.str("passphrase"), host)?;
    result.insert("can_parse_key".into(), true.into());
    let broken = || Failure::new("The private key's public half cannot be read.");
    let (kind, numbers) =
        Element::first(&key.public).and_then(|(public, _)| kind_and_numbers(&public)).ok_or_else(broken)?;
    result.insert("public_key".into(), pem("PUBLIC KEY", &key.public).into());
    result.insert("public_key_fingerprints".into(), fingerprints(&key.public, true).into());
    result.insert("public_data".into(), numbers);
    if args.bool("return_private_key_data") {
        let der = key.unencrypted(host)?;
        result.insert("private_data".into(), secret_numbers(&kind, &der).unwrap_or_else(|| json!({})));
    }
    // Of X25519 and X448 there is nothing to be checked.
    let is_checked = args.bool("check_consistency") && !matches!(kind.as_str(), "X25519" | "X448");
    result.insert("type".into(), kind.into());
    if is_checked {
        let is_consistent = key.is_consistent(host)?;
        result.insert("key_is_consistent".into(), is_consistent.into());
        if !is_consistent {
            return Err(Failure::new("Private key is not consistent! Its parts do not belong together."));
        }
    }
    Ok(())
}

/// What is secret in a key of PKCS 8.
fn secret_numbers(kind: &str, der: &[u8]) -> Option<Value> {
    let inner = Element::first(der)?.0.parts()?.get(2)?.body;
    let key = Element::first(inner)?.0;
    match kind {
        "RSA" => {
            let numbers = key.parts()?;
            Some(
                json!({"p": numbers.get(4)?.number(), "q": numbers.get(5)?.number(), "exponent": numbers.get(3)?.number()}),
            )
        }
        "ECC" => Some(json!({"multiplier": number(key.parts()?.get(1)?.body)})),
        "DSA" => Some(json!({"x": key.number()})),
        _ => None,
    }
}
