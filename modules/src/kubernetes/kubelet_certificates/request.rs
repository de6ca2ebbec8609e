//! A strict reader of kubelet's signing requests (PKCS #10, RFC 2986). It accepts only the encoding that kubelet
//! writes. If two parsers read one encoding differently, a request could be judged as one thing and signed as another.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};

use super::nodes::San;
use crate::crypto::der::Element;

/// Maximum size of a request as PEM, in bytes.
const SIZE: usize = 16 << 10;

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----\n";
const END: &str = "\n-----END CERTIFICATE REQUEST-----";

/// Bodies of the object identifiers, which are compared as bytes.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
const RSA_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12];
const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13];
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 34];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3];
const ED25519_KEY: &[u8] = &[0x2b, 0x65, 0x70];

/// Tags of DER.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const ATTRIBUTES: u8 = 0xa0;
const DNS_NAME: u8 = 0x82;
const ADDRESS: u8 = 0x87;

/// The content of a request whose signature is valid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) common_name: String,
    /// The only organization.
    pub(super) organization: String,
    /// Alternative names, at least one.
    pub(super) names: Vec<San>,
}

impl Request {
    /// Reads a request in PEM and verifies its signature. Fails with the reason.
    pub(super) fn read(pem: &[u8]) -> Result<Request, &'static str> {
        let der = from_pem(pem)?;
        let parts = whole(&der).and_then(|all| parts(&all, SEQUENCE)).ok_or("its encoding is not strict DER")?;
        let [content, algorithm, signature] = &*parts else { return Err("it is not a signing request") };
        let fields = self::parts(content, SEQUENCE).ok_or("its encoding is not strict DER")?;
        let [version, subject, key, attributes] = &*fields else { return Err("it is not a signing request") };
        if (version.tag, version.body) != (INTEGER, &[0]) {
            return Err("its version is not supported");
        }
        let (common_name, organization) = subject_of(subject).ok_or("its subject is not one CN and one O")?;
        let key = Key::read(key).ok_or("its key is not supported")?;
        let algorithm = parts_of_algorithm(algorithm).ok_or("its signature is not supported")?;
        let method = key.method(algorithm).ok_or("its signature is not supported")?;
        let signature = bits(signature).ok_or("its signature is not supported")?;
        UnparsedPublicKey::new(method, key.bits)
            .verify(content.whole, signature)
            .map_err(|_| "its signature is not valid")?;
        let names = names_of(attributes).ok_or("it requests other extensions than DNS names and IP addresses")?;
        if names.is_empty() {
            return Err("it has no alternative name");
        }
        Ok(Request { common_name, organization, names })
    }
}

/// The content of the one PEM block. Go ignores headers of a block and other programs obey them, so a block with
/// headers is refused.
fn from_pem(pem: &[u8]) -> Result<Vec<u8>, &'static str> {
    const NOT_ONE: &str = "it is not exactly one PEM block without headers";
    if pem.len() > SIZE {
        return Err("it is too large");
    }
    let text = std::str::from_utf8(pem).map_err(|_| NOT_ONE)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let body = text.strip_prefix(BEGIN).and_then(|text| text.strip_suffix(END)).ok_or(NOT_ONE)?;
    let lines: Vec<&str> = body.split('\n').collect();
    if lines.iter().any(|line| line.is_empty() || line.len() > 64) {
        return Err(NOT_ONE);
    }
    STANDARD.decode(lines.concat()).map_err(|_| NOT_ONE)
}

/// Splits an element off if no other encoding of its content exists: short tags, and the shortest form of the length.
fn first(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (element, rest) = Element::first(bytes)?;
    let shortest = match element.body.len() {
        0..0x80 => 2,
        0x80..0x100 => 3,
        0x100..0x1_0000 => 4,
        _ => 5,
    };
    (element.whole.len() - element.body.len() == shortest && element.tag & 0x1f != 0x1f).then_some((element, rest))
}

/// The one element of an encoding.
fn whole(bytes: &[u8]) -> Option<Element<'_>> {
    first(bytes).filter(|(_, rest)| rest.is_empty()).map(|(element, _)| element)
}

/// The elements inside an element with this tag.
fn parts<'a>(element: &Element<'a>, tag: u8) -> Option<Vec<Element<'a>>> {
    let mut rest = Some(element.body).filter(|_| element.tag == tag)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (part, behind) = first(rest)?;
        parts.push(part);
        rest = behind;
    }
    Some(parts)
}

/// The one element inside an element with this tag.
fn only<'a>(element: &Element<'a>, tag: u8) -> Option<Element<'a>> {
    match *parts(element, tag)? {
        [part] => Some(part),
        _ => None,
    }
}

/// The body of an element with this tag.
fn body<'a>(element: &Element<'a>, tag: u8) -> Option<&'a [u8]> {
    (element.tag == tag).then_some(element.body)
}

/// The content of a string of whole bytes.
fn bits<'a>(element: &Element<'a>) -> Option<&'a [u8]> {
    body(element, BITS)?.strip_prefix(&[0])
}

/// Common name and organization, which must be the only attributes.
fn subject_of(subject: &Element<'_>) -> Option<(String, String)> {
    let (mut common, mut organization) = (None, None);
    for set in parts(subject, SEQUENCE)? {
        let attribute = parts(&only(&set, SET)?, SEQUENCE)?;
        let [id, value] = &*attribute else { return None };
        let text = (value.tag == UTF8 || value.tag == PRINTABLE).then(|| std::str::from_utf8(value.body).ok())??;
        let place = match body(id, OID)? {
            COMMON_NAME => &mut common,
            ORGANIZATION => &mut organization,
            _ => return None,
        };
        if place.replace(text.to_owned()).is_some() {
            return None;
        }
    }
    common.zip(organization)
}

/// Alternative names of the only extension of the only attribute.
fn names_of(attributes: &Element<'_>) -> Option<Vec<San>> {
    let attribute = parts(&only(attributes, ATTRIBUTES)?, SEQUENCE)?;
    let [id, values] = &*attribute else { return None };
    if body(id, OID)? != EXTENSION_REQUEST {
        return None;
    }
    let extension = parts(&only(&only(values, SET)?, SEQUENCE)?, SEQUENCE)?;
    let (id, value) = match &*extension {
        [id, value] => (id, value),
        // Critical, which is encoded only if it is true.
        [id, critical, value] if critical.whole == [1, 1, 0xff] => (id, value),
        _ => return None,
    };
    if body(id, OID)? != ALTERNATIVE_NAMES {
        return None;
    }
    parts(&whole(body(value, OCTETS)?)?, SEQUENCE)?.iter().map(name).collect()
}

/// A DNS name or an IP address.
fn name(name: &Element<'_>) -> Option<San> {
    match name.tag {
        DNS_NAME => {
            let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
            let text = std::str::from_utf8(name.body).ok().filter(|text| !text.is_empty())?;
            text.bytes().all(|byte| known(&byte)).then(|| San::Name(text.to_owned()))
        }
        ADDRESS => match name.body.len() {
            4 => <[u8; 4]>::try_from(name.body).ok().map(|bytes| San::Address(Ipv4Addr::from(bytes).into())),
            16 => <[u8; 16]>::try_from(name.body).ok().map(|bytes| San::Address(Ipv6Addr::from(bytes).into())),
            _ => None,
        },
        _ => None,
    }
}

/// Identifier of an algorithm, and its parameters if it has any.
type Algorithm<'a> = (&'a [u8], Option<Element<'a>>);

fn parts_of_algorithm<'a>(element: &Element<'a>) -> Option<Algorithm<'a>> {
    match *parts(element, SEQUENCE)? {
        [id] => Some((body(&id, OID)?, None)),
        [id, parameters] => Some((body(&id, OID)?, Some(parameters))),
        _ => None,
    }
}

/// A public key.
struct Key<'a> {
    algorithm: &'a [u8],
    /// The curve of an elliptic key.
    curve: Option<&'a [u8]>,
    bits: &'a [u8],
}

impl<'a> Key<'a> {
    fn read(key: &Element<'a>) -> Option<Key<'a>> {
        let fields = parts(key, SEQUENCE)?;
        let [algorithm, bits] = &*fields else { return None };
        let (algorithm, parameters) = parts_of_algorithm(algorithm)?;
        let curve = match (algorithm, parameters) {
            (RSA_KEY, Some(null)) if null.whole == [5, 0] => None,
            (EC_KEY, Some(curve)) => Some(body(&curve, OID)?),
            (ED25519_KEY, None) => None,
            _ => return None,
        };
        Some(Key { algorithm, curve, bits: self::bits(bits)? })
    }

    /// The way to verify a signature of this algorithm.
    fn method(&self, (id, parameters): Algorithm<'_>) -> Option<&'static dyn VerificationAlgorithm> {
        let null = parameters.is_some_and(|parameters| parameters.whole == [5, 0]);
        if (self.algorithm == RSA_KEY) != null || (!null && parameters.is_some()) {
            return None;
        }
        Some(match (self.algorithm, self.curve, id) {
            (RSA_KEY, None, RSA_SHA256) => &RSA_PKCS1_2048_8192_SHA256,
            (RSA_KEY, None, RSA_SHA384) => &RSA_PKCS1_2048_8192_SHA384,
            (RSA_KEY, None, RSA_SHA512) => &RSA_PKCS1_2048_8192_SHA512,
            (EC_KEY, Some(P256), ECDSA_SHA256) => &ECDSA_P256_SHA256_ASN1,
            (EC_KEY, Some(P256), ECDSA_SHA384) => &ECDSA_P256_SHA384_ASN1,
            (EC_KEY, Some(P384), ECDSA_SHA256) => &ECDSA_P384_SHA256_ASN1,
            (EC_KEY, Some(P384), ECDSA_SHA384) => &ECDSA_P384_SHA384_ASN1,
            (ED25519_KEY, None, ED25519_KEY) => &ED25519,
            _ => return None,
        })
    }
}
