//! `x509_certificate_info`: what a certificate says.

use serde_json::Value;

use super::{
    options::{BACKEND, NAME_ENCODING, content_or_file, names_as_they_are},
    public_key,
    signed::Certificate,
    times::{moment, shown},
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

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
        NAME_ENCODING,
        BACKEND,
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
        names_as_they_are(args)?;
        let bytes = content_or_file(args, "certificate")?;
        let der = public_key::from_pem(&bytes, &["CERTIFICATE", "X509 CERTIFICATE"])
            .or_else(|| (bytes.first() == Some(&0x30)).then_some(bytes))
            .ok_or_else(|| Failure::new("Unable to load certificate: there is none in PEM or DER."))?;
        let now = jiff::Timestamp::now();
        let mut result = Certificate::read_der(der)
            .and_then(|certificate| certificate.describe(true, now))
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
