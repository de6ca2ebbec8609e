//! Public keys in certificates.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    der::{Element, number, pairs},
    names,
};
use crate::{
    Map,
    files::checksum::{self, ALGORITHMS, Hasher},
};

/// Hash methods of the fingerprints in a description.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prints {
    All,
    /// Enough for a diff.
    Sha256,
}

/// Fingerprints by hash method.
pub(super) fn fingerprints(bytes: &[u8], prints: Prints) -> Map {
    let of =
        |name: &&str| Some(((*name).to_owned(), Value::from(pairs(&checksum::of_bytes(Hasher::named(name)?, bytes)))));
    ALGORITHMS.iter().filter(|name| prints == Prints::All || **name == "sha256").filter_map(of).collect()
}

/// Encodes bytes as PEM.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..body.len()).step_by(64).filter_map(|at| body.get(at..(at + 64).min(body.len()))).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The content of the first PEM block with one of these labels.
pub(super) fn from_pem(bytes: &[u8], labels: &[&str]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    labels.iter().find_map(|label| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
        STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
    })
}

/// The key identifier in certificates: SHA-1 of the key's bits.
pub(super) fn identifier(key: &[u8]) -> Option<Vec<u8>> {
    let (key, _) = Element::first(key)?;
    let bits = key.parts()?.get(1)?.body.get(1..)?;
    hex::decode(checksum::of_bytes(Hasher::sha1(), bits)).ok()
}

/// Adds the result keys that describe a public key.
pub(super) fn describe(key: &[u8], prints: Prints, result: &mut Map) -> Option<()> {
    let (kind, data) = kind_and_numbers(&Element::first(key)?.0)?;
    result.insert("public_key".to_owned(), pem("PUBLIC KEY", key).into());
    result.insert("public_key_type".to_owned(), kind.into());
    result.insert("public_key_data".to_owned(), data);
    result.insert("public_key_fingerprints".to_owned(), fingerprints(key, prints).into());
    Some(())
}

/// Type and numbers of a public key.
pub(super) fn kind_and_numbers(key: &Element<'_>) -> Option<(String, Value)> {
    let parts = key.parts()?;
    let algorithm = parts.first()?.parts()?;
    let bits = parts.get(1)?.body.get(1..)?;
    let size = |number: &Element<'_>| {
        let bytes =
            number.body.iter().position(|byte| *byte != 0).and_then(|at| number.body.get(at..)).unwrap_or_default();
        bytes.first().map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize)
    };
    Some(match algorithm.first()?.oid().as_str() {
        "1.2.840.113549.1.1.1" => {
            let numbers = Element::first(bits)?.0.parts()?;
            let (modulus, exponent) = (numbers.first()?, numbers.get(1)?);
            let data = json!({"size": size(modulus), "modulus": modulus.number(), "exponent": exponent.number()});
            ("RSA".to_owned(), data)
        }
        "1.2.840.10045.2.1" => {
            let oid = algorithm.get(1)?.oid();
            let curve = names::of(&oid);
            let (x, y) = bits.get(1..)?.split_at_checked((bits.len() - 1) / 2)?;
            let length = if curve == "secp521r1" { 521 } else { x.len() * 8 };
            ("ECC".to_owned(), json!({"curve": curve, "exponent_size": length, "x": number(x), "y": number(y)}))
        }
        "1.2.840.10040.4.1" => {
            let numbers = algorithm.get(1)?.parts()?;
            let (p, q, g) = (numbers.first()?, numbers.get(1)?, numbers.get(2)?);
            let y = Element::first(bits)?.0.number();
            let data = json!({"size": size(p), "p": p.number(), "q": q.number(), "g": g.number(), "y": y});
            ("DSA".to_owned(), data)
        }
        "1.3.101.110" => ("X25519".to_owned(), json!({})),
        "1.3.101.111" => ("X448".to_owned(), json!({})),
        "1.3.101.112" => ("Ed25519".to_owned(), json!({})),
        "1.3.101.113" => ("Ed448".to_owned(), json!({})),
        other => (format!("unknown ({other})"), json!({})),
    })
}
