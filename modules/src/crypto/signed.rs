//! Parsed certificates and signing requests.

use serde_json::{Value, json};

use super::{
    der::Element,
    extension::{self, Extension},
    names,
    public_key::{self, Prints},
    times::shown,
};
use crate::Map;

/// Signed content, signature method and signature.
pub(super) struct Signed {
    pub(super) content: Vec<u8>,
    pub(super) algorithm: String,
    pub(super) signature: Vec<u8>,
}

impl Signed {
    fn read(parts: &[Element<'_>]) -> Option<Signed> {
        let [content, algorithm, signature] = parts else { return None };
        Some(Signed {
            content: content.whole.to_vec(),
            algorithm: algorithm.parts()?.first()?.oid(),
            signature: signature.body.get(1..)?.to_vec(),
        })
    }
}

/// A distinguished name: its encoding, and its attributes as identifiers and texts.
pub(super) struct Name {
    pub(super) der: Vec<u8>,
    pub(super) parts: Vec<(String, String)>,
}

impl Name {
    fn read(name: &Element<'_>) -> Option<Name> {
        Some(Name { der: name.whole.to_vec(), parts: names::attributes(name)? })
    }

    fn describe(&self, key: &str, result: &mut Map) {
        let ordered: Vec<Value> =
            self.parts.iter().map(|(oid, value)| json!([names::of_attribute(oid).0, value])).collect();
        let by_name: Map =
            self.parts.iter().map(|(oid, value)| (names::of_attribute(oid).0.to_owned(), json!(value))).collect();
        result.insert(key.to_owned(), by_name.into());
        result.insert(format!("{key}_ordered"), ordered.into());
    }
}

/// A certificate signing request.
pub(super) struct SigningRequest {
    pub(super) signed: Signed,
    pub(super) subject: Name,
    pub(super) key: Vec<u8>,
    pub(super) extensions: Vec<Extension>,
}

impl SigningRequest {
    /// Parses a request in PEM.
    pub(super) fn read(bytes: &[u8]) -> Option<SigningRequest> {
        let der = public_key::from_pem(bytes, &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"])?;
        let outer = Element::first(&der)?.0.parts()?;
        let fields = outer.first()?.parts()?;
        let mut extensions = Vec::new();
        for attribute in fields.get(3).map(Element::parts).unwrap_or(Some(Vec::new()))? {
            let parts = attribute.parts()?;
            if parts.first()?.oid() == "1.2.840.113549.1.9.14" {
                extensions = Extension::read(parts.get(1)?.parts()?.first()?)?;
            }
        }
        Some(SigningRequest {
            signed: Signed::read(&outer)?,
            subject: Name::read(fields.get(1)?)?,
            key: fields.get(2)?.whole.to_vec(),
            extensions,
        })
    }

    /// Describes the request. Does not verify the signature.
    pub(super) fn describe(&self, prints: Prints) -> Option<Map> {
        let mut result = Map::new();
        self.subject.describe("subject", &mut result);
        public_key::describe(&self.key, prints, &mut result)?;
        extension::describe(&self.extensions, &mut result);
        extension::describe_name_constraints(&self.extensions, &mut result);
        Some(result)
    }
}

pub(super) struct Certificate {
    der: Vec<u8>,
    version: u64,
    pub(super) signed: Signed,
    pub(super) serial: Value,
    pub(super) issuer: Name,
    pub(super) subject: Name,
    /// Start and end of validity, as `YYYYMMDDHHMMSSZ`.
    pub(super) validity: [String; 2],
    pub(super) key: Vec<u8>,
    pub(super) extensions: Vec<Extension>,
}

impl Certificate {
    /// Parses a certificate in PEM.
    pub(super) fn read(bytes: &[u8]) -> Option<Certificate> {
        Certificate::read_der(public_key::from_pem(bytes, &["CERTIFICATE", "X509 CERTIFICATE"])?)
    }

    /// Parses a certificate in DER.
    pub(super) fn read_der(der: Vec<u8>) -> Option<Certificate> {
        let outer = Element::first(&der)?.0.parts()?;
        let mut fields = outer.first()?.parts()?.into_iter().peekable();
        let version = match fields.next_if(|field| field.tag == 0xa0) {
            Some(version) => Element::first(version.body)?.0.number().as_u64()? + 1,
            None => 1,
        };
        let (serial, _, issuer, validity, subject, key) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let extensions = match fields.find(|field| field.tag == 0xa3) {
            Some(wrapped) => Extension::read(&Element::first(wrapped.body)?.0)?,
            None => Vec::new(),
        };
        let times = validity.parts()?;
        Some(Certificate {
            version,
            signed: Signed::read(&outer)?,
            serial: serial.number(),
            issuer: Name::read(&issuer)?,
            subject: Name::read(&subject)?,
            validity: [times.first()?.time(), times.get(1)?.time()],
            key: key.whole.to_vec(),
            extensions,
            der: der.clone(),
        })
    }

    /// Describes the certificate.
    pub(super) fn describe(&self, prints: Prints, now: jiff::Timestamp) -> Option<Map> {
        let mut result = Map::new();
        let mut add = |key: &str, value: Value| drop(result.insert(key.to_owned(), value));
        let [not_before, not_after] = &self.validity;
        add("version", json!(self.version));
        add("serial_number", self.serial.clone());
        add("signature_algorithm", json!(names::of(&self.signed.algorithm)));
        add("not_before", json!(not_before));
        add("not_after", json!(not_after));
        add("expired", json!(*not_after < shown(now)));
        add("fingerprints", public_key::fingerprints(&self.der, prints).into());
        add("ocsp_uri", json!(extension::access(&self.extensions, "1.3.6.1.5.5.7.48.1")));
        add("issuer_uri", json!(extension::access(&self.extensions, "1.3.6.1.5.5.7.48.2")));
        self.subject.describe("subject", &mut result);
        self.issuer.describe("issuer", &mut result);
        public_key::describe(&self.key, prints, &mut result)?;
        extension::describe(&self.extensions, &mut result);
        Some(result)
    }
}
