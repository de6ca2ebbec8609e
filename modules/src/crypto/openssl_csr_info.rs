//! `openssl_csr_info`: reads a certificate signing request.

use super::{
    key,
    options::{BACKEND, NAME_ENCODING, content_or_file, names_as_they_are},
    public_key::Prints,
    signed::SigningRequest,
};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `openssl_csr_info` module.
pub struct OpensslCsrInfo;

static SPEC: Spec = Spec {
    name: "openssl_csr_info",
    collection: "community.crypto",
    summary: "Read a certificate signing request",
    description: &[
        "Parses a request in PEM, and fails if its signature is invalid. Numbers above 64 bits are returned as text.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "Path of the request."),
        Opt::new("content", Kind::Str, "Content of the request."),
        NAME_ENCODING,
        BACKEND,
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the request\n  community.crypto.openssl_csr_info:\n    path: /etc/ssl/example.org.csr\n  register: request\n",
    returns: &[
        Return { name: "signature_valid", kind: "bool", when: "success", doc: "Whether the signature is valid." },
        Return { name: "subject", kind: "dict", when: "success", doc: "Subject of the request." },
        Return { name: "subject_alt_name", kind: "list", when: "success", doc: "Subject alternative names." },
        Return { name: "public_key", kind: "str", when: "success", doc: "Public key in PEM." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for OpensslCsrInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        names_as_they_are(args)?;
        let bytes = content_or_file(args, "CSR")?;
        let broken = || Failure::new("Unable to load request: there is none in PEM, or it is broken.");
        let request = SigningRequest::read(&bytes).ok_or_else(broken)?;
        let mut result = request.describe(Prints::All).ok_or_else(broken)?;
        let valid = key::verify(&request.signed, &request.key, host)?;
        result.insert("signature_valid".to_owned(), valid.into());
        if !valid {
            return Err(Failure { message: "CSR signature is invalid!".to_owned(), data: result });
        }
        Ok(Plan::unchanged().with_all(result))
    }
}
