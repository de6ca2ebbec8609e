//! `openssl_privatekey_info`: reads a private key.

use serde_json::{Value, json};

use super::{
    der::{Element, number},
    key::Key,
    options::{BACKEND, content_or_file},
    public_key::{Prints, fingerprints, kind_and_numbers, pem},
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `openssl_privatekey_info` module.
pub struct OpensslPrivatekeyInfo;

static SPEC: Spec = Spec {
    name: "openssl_privatekey_info",
    collection: "community.crypto",
    summary: "Read a private key",
    description: &[
        "Reads a private key and returns its type and its public key. Numbers above 64 bits are returned as text. \
         Never passes the passphrase as a program argument.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "Path of the key."),
        Opt::new("content", Kind::Str, "Content of the key.").secret(),
        Opt::new("passphrase", Kind::Str, "Passphrase of the key.").secret(),
        Opt::new("return_private_key_data", Kind::Bool, "Return the secret numbers too.").default("false"),
        Opt::new("check_consistency", Kind::Bool, "Fail if the parts of the key are inconsistent.").default("false"),
        BACKEND,
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the server's key\n  community.crypto.openssl_privatekey_info:\n    path: /etc/ssl/private/example.org.pem\n  register: key\n",
    returns: &[
        Return { name: "can_load_key", kind: "bool", when: "always", doc: "Whether the key could be read." },
        Return {
            name: "can_parse_key",
            kind: "bool",
            when: "always",
            doc: "Whether the content is a key and the passphrase is correct.",
        },
        Return {
            name: "key_is_consistent",
            kind: "bool",
            when: "check_consistency",
            doc: "Whether the parts of the key are consistent; null if unknown.",
        },
        Return { name: "public_key", kind: "str", when: "success", doc: "Public key in PEM." },
        Return {
            name: "public_key_fingerprints",
            kind: "dict",
            when: "success",
            doc: "Fingerprints of the public key.",
        },
        Return { name: "type", kind: "str", when: "success", doc: "Type of the key, such as `RSA` or `ECC`." },
        Return { name: "public_data", kind: "dict", when: "success", doc: "Numbers of the public key." },
        Return {
            name: "private_data",
            kind: "dict",
            when: "return_private_key_data",
            doc: "Numbers of the private key.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

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
    result.insert("public_key_fingerprints".into(), fingerprints(&key.public, Prints::All).into());
    result.insert("public_data".into(), numbers);
    if args.bool("return_private_key_data") {
        let der = key.unencrypted(host)?;
        result.insert("private_data".into(), secret_numbers(&kind, &der).unwrap_or_else(|| json!({})));
    }
    // Keys of X25519 and X448 have no consistency check.
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

/// The secret numbers of a key in PKCS 8.
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
