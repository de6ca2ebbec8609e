//! `x509_certificate_info`: reads a certificate.

use serde_json::Value;

use super::{
    options::{BACKEND, NAME_ENCODING, content_or_file, names_as_they_are},
    public_key::{self, Prints},
    signed::Certificate,
    times::{moment, shown},
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `x509_certificate_info` module.
pub struct X509CertificateInfo;

static SPEC: Spec = Spec {
    name: "x509_certificate_info",
    collection: "community.crypto",
    summary: "Read a certificate",
    description: &[
        "Parses a certificate in PEM or DER and returns subject, issuer, validity and extensions. Numbers above 64 \
         bits are returned as text.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "Path of the certificate."),
        Opt::new("content", Kind::Str, "Content of the certificate in PEM."),
        Opt::new(
            "valid_at",
            Kind::Dict,
            "Times at which to check validity, by name; absolute or relative, such as `+1w2d`.",
        ),
        NAME_ENCODING,
        BACKEND,
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the server's certificate\n  community.crypto.x509_certificate_info:\n    path: /etc/ssl/server.pem\n    valid_at:\n      \
               next_month: +30d\n  register: certificate\n",
    returns: &[
        Return { name: "expired", kind: "bool", when: "success", doc: "Whether the certificate has expired." },
        Return { name: "not_after", kind: "str", when: "success", doc: "End of validity, as YYYYMMDDHHMMSSZ." },
        Return { name: "not_before", kind: "str", when: "success", doc: "Start of validity, as YYYYMMDDHHMMSSZ." },
        Return { name: "subject", kind: "dict", when: "success", doc: "Subject of the certificate." },
        Return { name: "issuer", kind: "dict", when: "success", doc: "Issuer of the certificate." },
        Return { name: "subject_alt_name", kind: "list", when: "success", doc: "Subject alternative names." },
        Return { name: "fingerprints", kind: "dict", when: "success", doc: "Fingerprints of the certificate." },
        Return { name: "valid_at", kind: "dict", when: "success", doc: "Validity at each of the given times." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for X509CertificateInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        names_as_they_are(args)?;
        let bytes = content_or_file(args, "certificate")?;
        let der = public_key::from_pem(&bytes, &["CERTIFICATE", "X509 CERTIFICATE"])
            .or_else(|| (bytes.first() == Some(&0x30)).then_some(bytes))
            .ok_or_else(|| Failure::new("Unable to load certificate: there is none in PEM or DER."))?;
        let now = jiff::Timestamp::now();
        let mut result = Certificate::read_der(der)
            .and_then(|certificate| certificate.describe(Prints::All, now))
            .ok_or_else(|| Failure::new("Unable to load certificate: it is broken."))?;
        let mut valid = Map::new();
        for (name, time) in args.value("valid_at").and_then(Value::as_object).into_iter().flatten() {
            let time = time
                .as_str()
                .and_then(|time| moment(time, now).map(shown))
                .ok_or_else(|| Failure::new(format!("The time spec \"{time}\" for valid_at.{name} is invalid")))?;
            let bound = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
            valid.insert(name.clone(), (bound("not_before") <= &*time && &*time <= bound("not_after")).into());
        }
        result.insert("valid_at".to_owned(), valid.into());
        Ok(Plan::unchanged().with_all(result))
    }
}
