//! The requested content of a signing request, from the options of `openssl_csr`.

use serde_json::Value;

use super::{
    der::Element,
    encode,
    extension::{self, Extension},
    general_name,
    key::Key,
    names, public_key,
    signed::SigningRequest,
};
use crate::{Args, Failure, Map};

/// A requested signing request.
pub(super) struct WantedRequest {
    /// Attribute names as given, and their texts.
    pub(super) subject: Vec<(String, String)>,
    /// Alternative names, possibly from the common name.
    pub(super) alternative_names: Option<Vec<String>>,
    parts: Vec<(String, String)>,
    ordered: bool,
    extensions: Vec<Extension>,
}

/// Options that each set one attribute of the subject.
const PARTS: [(&str, &str); 7] = [
    ("C", "country_name"),
    ("ST", "state_or_province_name"),
    ("L", "locality_name"),
    ("O", "organization_name"),
    ("OU", "organizational_unit_name"),
    ("CN", "common_name"),
    ("emailAddress", "email_address"),
];

/// Revocation reasons. The first, `unused`, cannot be requested.
pub(super) const REASONS: &[&str] = &[
    "unused",
    "key_compromise",
    "ca_compromise",
    "affiliation_changed",
    "superseded",
    "cessation_of_operation",
    "certificate_hold",
    "privilege_withdrawn",
    "aa_compromise",
];

impl WantedRequest {
    pub(super) fn of(args: &Args, key: &Key) -> Result<WantedRequest, Failure> {
        let given =
            |(short, option): &(&str, &str)| args.filled(option).map(|text| ((*short).to_owned(), text.to_owned()));
        let mut subject: Vec<(String, String)> = PARTS.iter().filter_map(given).collect();
        if let Some(more) = args.value("subject").and_then(Value::as_object) {
            subject.extend(name_field(more, "subject")?);
        }
        let list = args.value("subject_ordered").and_then(Value::as_array).filter(|list| !list.is_empty());
        let ordered = list.is_some();
        if let Some(list) = list {
            if !subject.is_empty() {
                return Err(Failure::new("subject_ordered cannot be combined with any other subject field"));
            }
            for (at, entry) in list.iter().enumerate() {
                let entry = entry.as_object().filter(|entry| entry.len() == 1).ok_or_else(|| {
                    Failure::new(format!(
                        "Entry #{} in subject_ordered must be a dictionary with exactly one key-value pair",
                        at + 1
                    ))
                })?;
                subject.extend(name_field(entry, "subject_ordered")?);
            }
        }
        let to_oid = |(name, text): &(String, String)| Ok((oid(name)?.to_owned(), text.clone()));
        let parts = subject.iter().map(to_oid).collect::<Result<Vec<_>, Failure>>()?;
        let mut alternative_names: Option<Vec<String>> = args
            .value("subject_alt_name")
            .map(|_| args.list("subject_alt_name").iter().map(|name| (*name).to_owned()).collect());
        if alternative_names.as_ref().is_none_or(Vec::is_empty) && args.bool("use_common_name_for_san") {
            let common = subject.iter().find(|(name, _)| matches!(name.as_str(), "CN" | "commonName"));
            alternative_names = common.map(|(_, text)| vec![format!("DNS:{text}")]).or(alternative_names);
        }
        let extensions = extensions(args, alternative_names.as_deref().unwrap_or_default(), key)?;
        Ok(WantedRequest { subject, alternative_names, parts, ordered, extensions })
    }

    /// The encoded content to sign.
    pub(super) fn content(&self, public: &[u8]) -> Result<Vec<u8>, Failure> {
        let attributes = if self.extensions.is_empty() {
            Vec::new()
        } else {
            let id = encode::oid("1.2.840.113549.1.9.14").unwrap_or_default();
            encode::sequence([id, encode::set(extension::encode_all(&self.extensions))])
        };
        let name = names::encode(&self.parts).map_err(Failure::new)?;
        Ok(encode::sequence([encode::integer(&[0]), name, public.to_vec(), encode::element(0xa0, &attributes)]))
    }

    /// Whether an existing request has this content, regardless of key and signature.
    pub(super) fn is_said_by(&self, found: &SigningRequest) -> bool {
        let same_subject =
            if self.ordered { self.parts == found.subject.parts } else { same_set(&self.parts, &found.subject.parts) };
        const KNOWN: [&str; 9] = [
            extension::ALTERNATIVE_NAMES,
            extension::KEY_USAGE,
            extension::EXTENDED_KEY_USAGE,
            extension::BASIC_CONSTRAINTS,
            extension::TLS_FEATURE,
            extension::NAME_CONSTRAINTS,
            extension::SUBJECT_KEY,
            extension::AUTHORITY_KEY,
            extension::CRL_POINTS,
        ];
        same_subject
            && KNOWN.iter().all(|oid| {
                match (extension::find(&self.extensions, oid), extension::find(&found.extensions, oid)) {
                    (Some(wanted), Some(found)) => same_extension(wanted, found),
                    (None, None) => true,
                    _ => false,
                }
            })
    }
}

fn same_set<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.iter().all(|item| other.contains(item)) && other.iter().all(|item| one.contains(item))
}

/// Whether two extensions are equal; names and usages may be in any order.
fn same_extension(wanted: &Extension, found: &Extension) -> bool {
    let elements = |extension: &Extension| -> Option<Vec<Vec<u8>>> {
        Some(Element::first(&extension.value)?.0.parts()?.iter().map(|part| part.whole.to_vec()).collect())
    };
    let same = match wanted.oid.as_str() {
        extension::ALTERNATIVE_NAMES | extension::EXTENDED_KEY_USAGE => {
            elements(wanted).zip(elements(found)).is_some_and(|(wanted, found)| same_set(&wanted, &found))
        }
        extension::NAME_CONSTRAINTS => {
            let trees = |extension: &Extension, tag: u8| -> Vec<Vec<u8>> {
                let parts = Element::first(&extension.value).and_then(|(list, _)| list.parts()).unwrap_or_default();
                let part = parts.iter().find(|part| part.tag == tag).and_then(Element::parts).unwrap_or_default();
                part.iter().map(|tree| tree.whole.to_vec()).collect()
            };
            [0xa0, 0xa1].iter().all(|tag| same_set(&trees(wanted, *tag), &trees(found, *tag)))
        }
        extension::KEY_USAGE => extension::uses(&wanted.value) == extension::uses(&found.value),
        _ => wanted.value == found.value,
    };
    same && wanted.critical == found.critical
}

fn oid(name: &str) -> Result<&str, Failure> {
    names::oid(name).ok_or_else(|| {
        Failure::new(format!(
            "Cannot find OID for \"{name}\"; write the identifier itself, with dots, instead of its name."
        ))
    })
}

/// The attributes in a mapping, whose values may be lists.
fn name_field(map: &Map, option: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut parts = Vec::new();
    for (key, value) in map {
        for text in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            match text.as_str() {
                Some("") => {
                    return Err(Failure::new(format!("Value for {key} in {option} must not be an empty string")));
                }
                Some(text) => parts.push((key.clone(), text.to_owned())),
                None => {
                    return Err(Failure::new(format!(
                        "Value for {key} in {option} must be either a string or a list of strings"
                    )));
                }
            }
        }
    }
    Ok(parts)
}

fn extensions(args: &Args, alternative_names: &[String], key: &Key) -> Result<Vec<Extension>, Failure> {
    let mut all = Vec::new();
    let mut add = |oid: &str, critical: &str, value: Vec<u8>| all.push(Extension::new(oid, args.bool(critical), value));
    if !alternative_names.is_empty() {
        let names: Vec<&str> = alternative_names.iter().map(String::as_str).collect();
        let names = general_name::parse_all(&names, "Subject Alternative Name")?;
        add(extension::ALTERNATIVE_NAMES, "subject_alt_name_critical", encode::sequence(names));
    }
    let uses = args.list("key_usage");
    if !uses.is_empty() {
        let bit = |usage: &&str| {
            let known = extension::USES.iter().position(|(long, short)| long == usage || short == usage);
            known.ok_or_else(|| Failure::new(format!("Unknown key usage \"{usage}\"")))
        };
        let bits = uses.iter().map(bit).collect::<Result<Vec<_>, _>>()?;
        add(extension::KEY_USAGE, "key_usage_critical", encode::element(0x03, &encode::flags(&bits)));
    }
    let purposes = args.list("extended_key_usage");
    if !purposes.is_empty() {
        let encoded = |name: &&str| Ok(encode::oid(oid(name)?).unwrap_or_default());
        let purposes = purposes.iter().map(encoded).collect::<Result<Vec<_>, Failure>>()?;
        add(extension::EXTENDED_KEY_USAGE, "extended_key_usage_critical", encode::sequence(purposes));
    }
    let constraints = args.list("basic_constraints");
    if !constraints.is_empty() {
        add(extension::BASIC_CONSTRAINTS, "basic_constraints_critical", basic_constraints(&constraints)?);
    }
    if args.bool("ocsp_must_staple") {
        let value = encode::sequence([encode::integer(&[5])]);
        add(extension::TLS_FEATURE, "ocsp_must_staple_critical", value);
    }
    let (permitted, excluded) = (args.list("name_constraints_permitted"), args.list("name_constraints_excluded"));
    if !permitted.is_empty() || !excluded.is_empty() {
        let trees = |tag: u8, names: &[&str], what: &str| match names {
            [] => Ok(Vec::new()),
            _ => {
                let names = general_name::parse_all(names, what)?;
                Ok::<_, Failure>(encode::of_parts(tag, names.into_iter().map(|name| encode::sequence([name]))))
            }
        };
        let permitted = trees(0xa0, &permitted, "name constraints permitted")?;
        let excluded = trees(0xa1, &excluded, "name constraints excluded")?;
        add(extension::NAME_CONSTRAINTS, "name_constraints_critical", encode::sequence([permitted, excluded]));
    }
    let given = args.str("subject_key_identifier");
    let subject_key = match (args.bool("create_subject_key_identifier"), given) {
        (true, Some(_)) => {
            return Err(Failure::new(
                "subject_key_identifier cannot be specified if create_subject_key_identifier is true",
            ));
        }
        (true, None) => public_key::identifier(&key.public),
        (false, text) => text.map(|text| digits(text, "subject_key_identifier")).transpose()?,
    };
    if let Some(id) = subject_key {
        add(extension::SUBJECT_KEY, "", encode::element(0x04, &id));
    }
    if let Some(value) = authority_key(args)? {
        add(extension::AUTHORITY_KEY, "", value);
    }
    let points = args.value("crl_distribution_points").and_then(Value::as_array).filter(|points| !points.is_empty());
    if let Some(points) = points {
        let encoded = points.iter().enumerate().map(|(at, point)| {
            crl_point(point).map_err(|failure| {
                Failure::new(format!("Error while parsing CRL distribution point #{at}: {}", failure.message))
            })
        });
        add(extension::CRL_POINTS, "", encode::sequence(encoded.collect::<Result<Vec<_>, _>>()?));
    }
    Ok(all)
}

fn basic_constraints(constraints: &[&str]) -> Result<Vec<u8>, Failure> {
    let (mut authority, mut length) = (false, None);
    for constraint in constraints {
        match constraint.split_once(':') {
            Some(("CA", "TRUE")) => authority = true,
            Some(("CA", "FALSE")) => authority = false,
            Some(("CA", other)) => {
                return Err(Failure::new(format!("Unknown basic constraint value \"{other}\" for CA")));
            }
            Some(("pathlen", number)) => {
                let parsed = number.parse::<u32>();
                length = Some(parsed.map_err(|error| {
                    Failure::new(format!("Cannot parse path length constraint \"{number}\" ({error})"))
                })?);
            }
            _ => return Err(Failure::new(format!("Unknown basic constraint \"{constraint}\""))),
        }
    }
    if length.is_some() && !authority {
        return Err(Failure::new("path_length must be None when ca is False: pathlen needs CA:TRUE beside it."));
    }
    let authority = if authority { encode::element(0x01, &[0xff]) } else { Vec::new() };
    Ok(encode::sequence([authority, length.map(|length| encode::integer(&length.to_be_bytes())).unwrap_or_default()]))
}

/// Parses pairs of hexadecimal digits, with or without colons.
fn digits(text: &str, option: &str) -> Result<Vec<u8>, Failure> {
    hex::decode(text.replace(':', "")).map_err(|error| Failure::new(format!("Cannot parse {option}: {error}")))
}

fn authority_key(args: &Args) -> Result<Option<Vec<u8>>, Failure> {
    let id = args.str("authority_key_identifier").map(|text| digits(text, "authority_key_identifier")).transpose()?;
    let issuers = args.value("authority_cert_issuer").map(|_| args.list("authority_cert_issuer"));
    let serial = args.value("authority_cert_serial_number").map(|serial| {
        let text = serial.as_str().map_or_else(|| serial.to_string(), str::to_owned);
        encode::decimal(&text).ok_or_else(|| {
            Failure::new(format!(
                "authority_cert_serial_number must be a number without a sign, but is {text}; a number of more than 64 bits must be \
                 written as a text, in quotes."
            ))
        })
    });
    let serial = serial.transpose()?;
    if id.is_none() && issuers.is_none() && serial.is_none() {
        return Ok(None);
    }
    let issuers = issuers.map(|names| general_name::parse_all(&names, "authority cert issuer")).transpose()?;
    Ok(Some(encode::sequence([
        id.map(|id| encode::element(0x80, &id)).unwrap_or_default(),
        issuers.map(|names| encode::of_parts(0xa1, names)).unwrap_or_default(),
        serial.map(|serial| encode::element(0x82, &encode::magnitude(&serial))).unwrap_or_default(),
    ])))
}

fn crl_point(point: &Value) -> Result<Vec<u8>, Failure> {
    let list = |option: &str| -> Result<Option<Vec<&str>>, Failure> {
        let Some(list) = point.get(option).and_then(Value::as_array) else { return Ok(None) };
        if list.is_empty() && option != "reasons" {
            return Err(Failure::new(format!("{option} must not be empty")));
        }
        Ok(Some(list.iter().filter_map(Value::as_str).collect()))
    };
    let (full, relative, issuer) = (list("full_name")?, list("relative_name")?, list("crl_issuer")?);
    let name = match (full, relative) {
        (Some(_), Some(_)) => {
            return Err(Failure::new("parameters are mutually exclusive: full_name|relative_name"));
        }
        (None, None) if issuer.is_none() => {
            return Err(Failure::new("one of the following is required: full_name, relative_name, crl_issuer"));
        }
        (Some(names), None) => encode::of_parts(0xa0, general_name::parse_all(&names, "full name")?),
        (None, Some(parts)) => {
            let attribute = |part: &&str| {
                let refuse =
                    |why| Failure::new(format!("Error while parsing relative distinguished name {part:?}: {why}"));
                let (oid, text) = general_name::attribute(part).map_err(refuse)?;
                names::encode_attribute(&oid, text).map_err(refuse)
            };
            let mut parts = parts.iter().map(attribute).collect::<Result<Vec<_>, _>>()?;
            // DER requires a sorted SET.
            parts.sort();
            encode::of_parts(0xa1, parts)
        }
        (None, None) => Vec::new(),
    };
    let name = if name.is_empty() { name } else { encode::element(0xa0, &name) };
    let reasons = list("reasons")?.map(|reasons| {
        let bits: Vec<usize> =
            reasons.iter().filter_map(|reason| REASONS.iter().position(|known| known == reason)).collect();
        encode::element(0x81, &encode::flags(&bits))
    });
    let issuer = issuer.map(|names| general_name::parse_all(&names, "CRL issuer")).transpose()?;
    Ok(encode::sequence([
        name,
        reasons.unwrap_or_default(),
        issuer.map(|names| encode::of_parts(0xa2, names)).unwrap_or_default(),
    ]))
}
