//! `x509_certificate_info`: what a certificate says.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    der::{Element, number, pairs},
    names,
};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::checksum::{self, ALGORITHMS, Hasher},
    process::reason,
};

/// The `x509_certificate_info` module.
pub struct X509CertificateInfo;

static SPEC: Spec = Spec {
    name: "x509_certificate_info",
    collection: "community.crypto",
    summary: "Tell what a certificate says",
    description: &[
        "Reads a certificate in PEM or DER: whom it is for, by whom, until when, for what. Numbers of more than 64 bits are texts.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "The certificate's file."),
        Opt::new("content", Kind::Str, "The certificate itself, in PEM."),
        Opt::new("valid_at", Kind::Dict, "Times to check the validity at, absolute or relative as `+1w2d`, by names."),
        Opt::new("name_encoding", Kind::Str, "`ignore`: names are given as they are; the others are not there.")
            .default("\"ignore\"")
            .choices(&["ignore", "idna", "unicode"]),
        Opt::new("select_crypto_backend", Kind::Str, "Accepted, without effect.")
            .default("\"auto\"")
            .choices(&["auto", "cryptography"]),
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the server's certificate\n  community.crypto.x509_certificate_info:\n    path: /etc/ssl/server.pem\n    valid_at:\n      \
               next_month: +30d\n  register: certificate\n",
    returns: &[
        Return { name: "expired", kind: "bool", when: "success", doc: "Its time is over." },
        Return { name: "not_after", kind: "str", when: "success", doc: "Until when it is valid, as YYYYMMDDHHMMSSZ." },
        Return { name: "not_before", kind: "str", when: "success", doc: "From when." },
        Return { name: "subject", kind: "dict", when: "success", doc: "Whom it is for." },
        Return { name: "issuer", kind: "dict", when: "success", doc: "By whom." },
        Return { name: "subject_alt_name", kind: "list", when: "success", doc: "The names it is for." },
        Return { name: "fingerprints", kind: "dict", when: "success", doc: "Its fingerprints." },
        Return { name: "valid_at", kind: "dict", when: "success", doc: "Whether it is valid at the times asked for." },
    ],
    ..Spec::EMPTY
};

impl Module for X509CertificateInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        if args.str("name_encoding") != Some("ignore") {
            return Err(Failure::new("name_encoding can only be ignore."));
        }
        let bytes = match (args.str("content"), args.str("path")) {
            (Some(content), _) => content.as_bytes().to_vec(),
            (None, path) => std::fs::read(path.unwrap_or_default()).map_err(|error| {
                Failure::new(format!("Error while reading certificate file from disk: {}", reason(&error)))
            })?,
        };
        let der =
            der_of(&bytes).ok_or_else(|| Failure::new("Unable to load certificate: there is none in PEM or DER."))?;
        let now = jiff::Timestamp::now();
        let mut result =
            describe(&der, &shown(now)).ok_or_else(|| Failure::new("Unable to load certificate: it is broken."))?;
        let mut valid = Map::new();
        for (name, time) in args.value("valid_at").and_then(Value::as_object).into_iter().flatten() {
            let time = time
                .as_str()
                .and_then(|time| moment(time, now))
                .ok_or_else(|| Failure::new(format!("The time spec \"{time}\" for valid_at.{name} is invalid")))?;
            let bound = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
            valid.insert(name.clone(), (bound("not_before") <= &*time && &*time <= bound("not_after")).into());
        }
        result.insert("valid_at".to_owned(), valid.into());
        Ok(Plan::unchanged().with_all(result))
    }
}

/// The DER of a certificate, which may be in PEM.
fn der_of(bytes: &[u8]) -> Option<Vec<u8>> {
    if let Some((_, rest)) =
        std::str::from_utf8(bytes).ok().and_then(|text| text.split_once("-----BEGIN CERTIFICATE-----"))
    {
        let body: String = rest.split("-----END CERTIFICATE-----").next()?.split_whitespace().collect();
        return STANDARD.decode(body).ok();
    }
    (bytes.first() == Some(&0x30)).then(|| bytes.to_vec())
}

fn shown(time: jiff::Timestamp) -> String {
    time.strftime("%Y%m%d%H%M%SZ").to_string()
}

/// A time that is relative to now, or absolute.
fn moment(text: &str, now: jiff::Timestamp) -> Option<String> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => {
            let digits = text.strip_suffix('Z')?;
            return (digits.len() == 14 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.to_owned());
        }
    };
    let (mut seconds, mut number) = (0i64, String::new());
    for character in rest.chars() {
        let unit = match character {
            'w' => 604_800,
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => {
                number.push(character);
                continue;
            }
        };
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    let span = jiff::SignedDuration::from_secs(seconds.checked_mul(sign)?);
    number.is_empty().then(|| now.checked_add(span).ok().map(shown)).flatten()
}

struct Extension<'a> {
    oid: String,
    critical: bool,
    value: &'a [u8],
}

/// Reads what an extension says.
type Reader = fn(&[u8]) -> Option<Value>;

fn describe(der: &[u8], now: &str) -> Option<Map> {
    let (certificate, _) = Element::first(der)?;
    let outer = certificate.parts()?;
    let mut fields = outer.first()?.parts()?.into_iter().peekable();
    let version = match fields.peek().filter(|field| field.tag == 0xa0) {
        Some(_) => Element::first(fields.next()?.body)?.0.number().as_u64()? + 1,
        None => 1,
    };
    let (serial, _, issuer, validity, subject, key) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let mut extensions = Vec::new();
    if let Some(wrapped) = fields.find(|field| field.tag == 0xa3) {
        for extension in Element::first(wrapped.body)?.0.parts()? {
            let parts = extension.parts()?;
            extensions.push(Extension {
                oid: parts.first()?.oid(),
                critical: parts.len() == 3 && parts.get(1)?.body != [0],
                value: parts.last()?.body,
            });
        }
    }
    let mut result = Map::new();
    let mut add = |key: &str, value: Value| drop(result.insert(key.to_owned(), value));
    add("version", json!(version));
    add("serial_number", serial.number());
    add("signature_algorithm", json!(names::of(&outer.get(1)?.parts()?.first()?.oid())));
    for (key, name) in [("subject", subject), ("issuer", issuer)] {
        let parts = names::attributes(&name)?;
        let ordered: Vec<Value> = parts.iter().map(|(oid, value)| json!([names::of_attribute(oid).0, value])).collect();
        let by_name: Map =
            parts.iter().map(|(oid, value)| (names::of_attribute(oid).0.to_owned(), json!(value))).collect();
        add(key, by_name.into());
        add(&format!("{key}_ordered"), ordered.into());
    }
    let times: Vec<String> = validity.parts()?.iter().map(Element::time).collect();
    add("not_before", json!(times.first()?));
    add("not_after", json!(times.get(1)?));
    add("expired", json!(times.get(1)?.as_str() < now));
    add("fingerprints", fingerprints(der).into());
    let (kind, data) = public_key(&key)?;
    add("public_key", json!(pem(key.whole)));
    add("public_key_type", json!(kind));
    add("public_key_data", data);
    add("public_key_fingerprints", fingerprints(key.whole).into());
    let find = |oid: &str| extensions.iter().find(|extension| extension.oid == oid);
    let readers: [(&str, &str, Reader); 5] = [
        ("key_usage", "2.5.29.15", key_usage),
        ("extended_key_usage", "2.5.29.37", extended_key_usage),
        ("basic_constraints", "2.5.29.19", basic_constraints),
        ("ocsp_must_staple", "1.3.6.1.5.5.7.1.24", must_staple),
        ("subject_alt_name", "2.5.29.17", alternative_names),
    ];
    for (key, oid, read) in readers {
        let extension = find(oid);
        add(key, extension.and_then(|extension| read(extension.value)).unwrap_or(Value::Null));
        add(&format!("{key}_critical"), json!(extension.is_some_and(|extension| extension.critical)));
    }
    let subject_key = find("2.5.29.14").and_then(|extension| Element::first(extension.value));
    add("subject_key_identifier", json!(subject_key.map(|(id, _)| pairs(&hex::encode(id.body)))));
    let authority = find("2.5.29.35").and_then(|extension| Element::first(extension.value)?.0.parts());
    let part = |tag: u8| authority.iter().flatten().find(|part| part.tag == tag);
    add("authority_key_identifier", json!(part(0x80).map(|id| pairs(&hex::encode(id.body)))));
    let issuers =
        part(0xa1).and_then(|names| names.parts()?.iter().map(Element::general_name).collect::<Option<Vec<_>>>());
    add("authority_cert_issuer", json!(issuers));
    add("authority_cert_serial_number", part(0x82).map_or(Value::Null, Element::number));
    let access = find("1.3.6.1.5.5.7.1.1").and_then(|extension| Element::first(extension.value)?.0.parts());
    for (key, oid) in [("ocsp_uri", "1.3.6.1.5.5.7.48.1"), ("issuer_uri", "1.3.6.1.5.5.7.48.2")] {
        let uri = access.iter().flatten().find_map(|description| {
            let parts = description.parts()?;
            let location = parts.get(1).filter(|location| location.tag == 0x86)?;
            (parts.first()?.oid() == oid).then(|| location.text())
        });
        add(key, json!(uri));
    }
    let by_oid: Map = extensions
        .iter()
        .map(|one| (one.oid.clone(), json!({"critical": one.critical, "value": STANDARD.encode(one.value)})))
        .collect();
    add("extensions_by_oid", by_oid.into());
    Some(result)
}

fn fingerprints(bytes: &[u8]) -> Map {
    let of =
        |name: &&str| Some(((*name).to_owned(), Value::from(pairs(&checksum::of_bytes(Hasher::named(name)?, bytes)))));
    ALGORITHMS.iter().filter_map(of).collect()
}

fn pem(der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..body.len()).step_by(64).filter_map(|at| body.get(at..(at + 64).min(body.len()))).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

/// The kind of a public key, and its numbers.
fn public_key(key: &Element<'_>) -> Option<(String, Value)> {
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

fn key_usage(value: &[u8]) -> Option<Value> {
    const USES: [&str; 9] = [
        "Digital Signature",
        "Non Repudiation",
        "Key Encipherment",
        "Data Encipherment",
        "Key Agreement",
        "Certificate Sign",
        "CRL Sign",
        "Encipher Only",
        "Decipher Only",
    ];
    let bits = Element::first(value)?.0.body.get(1..)?;
    let set = |at: usize| bits.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
    // The last two say something about key agreement only.
    let told = |at: usize| set(at) && (at < 7 || set(4));
    let mut uses: Vec<&str> = USES.iter().enumerate().filter(|(at, _)| told(*at)).map(|(_, name)| *name).collect();
    uses.sort_unstable();
    Some(json!(uses))
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

fn alternative_names(value: &[u8]) -> Option<Value> {
    Some(json!(Element::first(value)?.0.parts()?.iter().map(Element::general_name).collect::<Option<Vec<_>>>()?))
}
