//! Extensions of certificates and signing requests.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    der::{Element, pairs},
    encode, general_name, names,
};
use crate::Map;

/// Subject alternative names.
pub(super) const ALTERNATIVE_NAMES: &str = "2.5.29.17";
/// Key usage.
pub(super) const KEY_USAGE: &str = "2.5.29.15";
/// Extended key usage.
pub(super) const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
/// Basic constraints, which mark a CA.
pub(super) const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// TLS feature (OCSP must-staple).
pub(super) const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";
/// Name constraints of a CA.
pub(super) const NAME_CONSTRAINTS: &str = "2.5.29.30";
/// Subject key identifier.
pub(super) const SUBJECT_KEY: &str = "2.5.29.14";
/// Authority key identifier.
pub(super) const AUTHORITY_KEY: &str = "2.5.29.35";
/// CRL distribution points.
pub(super) const CRL_POINTS: &str = "2.5.29.31";

/// An extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) oid: String,
    pub(super) critical: bool,
    pub(super) value: Vec<u8>,
}

impl Extension {
    pub(super) fn new(oid: &str, critical: bool, value: Vec<u8>) -> Extension {
        Extension { oid: oid.to_owned(), critical, value }
    }

    /// An extension that readers may ignore.
    pub(super) fn uncritical(oid: &str, value: Vec<u8>) -> Extension {
        Extension::new(oid, false, value)
    }

    /// Parses a list of extensions.
    pub(super) fn read(list: &Element<'_>) -> Option<Vec<Extension>> {
        let one = |extension: Element<'_>| {
            let parts = extension.parts()?;
            Some(Extension {
                oid: parts.first()?.oid(),
                critical: parts.len() == 3 && parts.get(1)?.body != [0],
                value: parts.last()?.body.to_vec(),
            })
        };
        list.parts()?.into_iter().map(one).collect()
    }

    /// The encoding; `None` if the object identifier is invalid.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let critical = if self.critical { encode::element(0x01, &[0xff]) } else { Vec::new() };
        Some(encode::sequence([encode::oid(&self.oid)?, critical, encode::element(0x04, &self.value)]))
    }
}

/// The encoding of a list of extensions.
pub(super) fn encode_all(all: &[Extension]) -> Vec<u8> {
    encode::sequence(all.iter().filter_map(Extension::encode))
}

/// The extension with this object identifier.
pub(super) fn find<'a>(all: &'a [Extension], oid: &str) -> Option<&'a Extension> {
    all.iter().find(|extension| extension.oid == oid)
}

/// The subject key identifier.
pub(super) fn subject_key(all: &[Extension]) -> Option<&[u8]> {
    Some(Element::first(&find(all, SUBJECT_KEY)?.value)?.0.body)
}

/// Parser of an extension's value.
type Reader = fn(&[u8]) -> Option<Value>;

/// Adds the result keys that requests and certificates share.
pub(super) fn describe(all: &[Extension], result: &mut Map) {
    let mut add = |key: &str, value: Value| drop(result.insert(key.to_owned(), value));
    let readers: [(&str, &str, Reader); 5] = [
        ("key_usage", KEY_USAGE, key_usage),
        ("extended_key_usage", EXTENDED_KEY_USAGE, extended_key_usage),
        ("basic_constraints", BASIC_CONSTRAINTS, basic_constraints),
        ("ocsp_must_staple", TLS_FEATURE, must_staple),
        ("subject_alt_name", ALTERNATIVE_NAMES, general_names),
    ];
    for (key, oid, read) in readers {
        let extension = find(all, oid);
        add(key, extension.and_then(|extension| read(&extension.value)).unwrap_or(Value::Null));
        add(&format!("{key}_critical"), json!(extension.is_some_and(|extension| extension.critical)));
    }
    add("subject_key_identifier", json!(subject_key(all).map(|id| pairs(&hex::encode(id)))));
    let authority = find(all, AUTHORITY_KEY).and_then(|extension| Element::first(&extension.value)?.0.parts());
    let part = |tag: u8| authority.iter().flatten().find(|part| part.tag == tag);
    add("authority_key_identifier", json!(part(0x80).map(|id| pairs(&hex::encode(id.body)))));
    let issuers =
        part(0xa1).and_then(|names| names.parts()?.iter().map(general_name::shown).collect::<Option<Vec<_>>>());
    add("authority_cert_issuer", json!(issuers));
    add("authority_cert_serial_number", part(0x82).map_or(Value::Null, Element::number));
    let by_oid: Map = all
        .iter()
        .map(|one| (one.oid.clone(), json!({"critical": one.critical, "value": STANDARD.encode(&one.value)})))
        .collect();
    add("extensions_by_oid", by_oid.into());
}

/// Adds the permitted and excluded names of a CA.
pub(super) fn describe_name_constraints(all: &[Extension], result: &mut Map) {
    let extension = find(all, NAME_CONSTRAINTS);
    let parts = extension.and_then(|extension| Element::first(&extension.value)?.0.parts());
    for (key, tag) in [("name_constraints_permitted", 0xa0), ("name_constraints_excluded", 0xa1)] {
        let subtrees = parts.as_ref().map(|parts| {
            let part = parts.iter().find(|part| part.tag == tag);
            let names = part.and_then(|part| {
                part.parts()?
                    .iter()
                    .map(|tree| general_name::shown(&Element::first(tree.body)?.0))
                    .collect::<Option<Vec<_>>>()
            });
            names.unwrap_or_default()
        });
        result.insert(key.to_owned(), json!(subtrees));
    }
    let critical = extension.is_some_and(|extension| extension.critical);
    result.insert("name_constraints_critical".to_owned(), critical.into());
}

/// The URI of this access method in an authority information access extension.
pub(super) fn access(all: &[Extension], what: &str) -> Option<String> {
    let (list, _) = Element::first(&find(all, "1.3.6.1.5.5.7.1.1")?.value)?;
    list.parts()?.iter().find_map(|description| {
        let parts = description.parts()?;
        let location = parts.get(1).filter(|location| location.tag == 0x86)?;
        (parts.first()?.oid() == what).then(|| location.text())
    })
}

/// Key usages in bit order: names in results and in openssl.
pub(super) const USES: [(&str, &str); 9] = [
    ("Digital Signature", "digitalSignature"),
    ("Non Repudiation", "nonRepudiation"),
    ("Key Encipherment", "keyEncipherment"),
    ("Data Encipherment", "dataEncipherment"),
    ("Key Agreement", "keyAgreement"),
    ("Certificate Sign", "keyCertSign"),
    ("CRL Sign", "cRLSign"),
    ("Encipher Only", "encipherOnly"),
    ("Decipher Only", "decipherOnly"),
];

/// The bits that are set in a key usage.
pub(super) fn uses(value: &[u8]) -> Option<Vec<usize>> {
    let bits = Element::first(value)?.0.body.get(1..)?;
    let set = |at: &usize| bits.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
    Some((0..USES.len()).filter(set).collect())
}

fn key_usage(value: &[u8]) -> Option<Value> {
    let set = uses(value)?;
    // The last two bits apply to key agreement only.
    let counted = set.iter().filter(|at| **at < 7 || set.contains(&4));
    let mut names: Vec<&str> = counted.filter_map(|at| USES.get(*at)).map(|(name, _)| *name).collect();
    names.sort_unstable();
    Some(json!(names))
}

fn extended_key_usage(value: &[u8]) -> Option<Value> {
    let oids: Vec<String> = Element::first(value)?.0.parts()?.iter().map(Element::oid).collect();
    let mut uses: Vec<&str> = oids.iter().map(|oid| names::of(oid)).collect();
    uses.sort_unstable();
    Some(json!(uses))
}

fn basic_constraints(value: &[u8]) -> Option<Value> {
    let parts = Element::first(value)?.0.parts()?;
    let ca = parts.iter().any(|part| part.tag == 1 && part.body != [0]);
    let length = parts.iter().find(|part| part.tag == 2).map(|part| format!("pathlen:{}", part.number()));
    let first = format!("CA:{}", if ca { "TRUE" } else { "FALSE" });
    Some(json!(std::iter::once(first).chain(length).collect::<Vec<_>>()))
}

fn must_staple(value: &[u8]) -> Option<Value> {
    Some(json!(Element::first(value)?.0.parts()?.iter().any(|feature| feature.body == [5])))
}

/// Subject alternative names with their type prefixes.
pub(super) fn alternative_names(all: &[Extension]) -> Option<Vec<String>> {
    serde_json::from_value(general_names(&find(all, ALTERNATIVE_NAMES)?.value)?).ok()
}

fn general_names(value: &[u8]) -> Option<Value> {
    Some(json!(Element::first(value)?.0.parts()?.iter().map(general_name::shown).collect::<Option<Vec<_>>>()?))
}
