//! `openssl_csr_info`: what a request for a certificate says.

use super::{key, signed::SigningRequest};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason};

/// The `openssl_csr_info` module.
pub struct OpensslCsrInfo;

static SPEC: Spec = Spec {
    name: "openssl_csr_info",
    collection: "community.crypto",
    summary: "Tell what a request for a certificate says",
    description: &[
        "Reads a request in PEM, and fails if its signature is not right. Numbers of more than 64 bits are texts.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "The request's file."),
        Opt::new("content", Kind::Str, "The request itself."),
        Opt::new("name_encoding", Kind::Str, "`ignore`: names are given as they are; the others are not there.")
            .default("\"ignore\"")
            .choices(&["ignore", "idna", "unicode"]),
        Opt::new("select_crypto_backend", Kind::Str, "Accepted, without effect.")
            .default("\"auto\"")
            .choices(&["auto", "cryptography"]),
    ],
    required_one_of: &[&["path", "content"]],
    mutually_exclusive: &[&["path", "content"]],
    examples: "- name: Look at the request\n  community.crypto.openssl_csr_info:\n    path: /etc/ssl/example.org.csr\n  register: request\n",
    returns: &[
        Return { name: "signature_valid", kind: "bool", when: "success", doc: "Its signature is right." },
        Return { name: "subject", kind: "dict", when: "success", doc: "Whom it is for." },
        Return { name: "subject_alt_name", kind: "list", when: "success", doc: "The names it is for." },
        Return { name: "public_key", kind: "str", when: "success", doc: "The public key." },
    ],
    ..Spec::EMPTY
};

impl Module for OpensslCsrInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        if args.str("name_encoding") != Some("ignore") {
            return Err(Failure::new("name_encoding can only be ignore."));
        }
        let bytes = match (args.str("content"), args.str("path")) {
            (Some(content), _) => content.as_bytes().to_vec(),
            (None, path) => std::fs::read(path.unwrap_or_default())
                .map_err(|error| Failure::new(format!("Error while reading CSR file from disk: {}", reason(&error))))?,
        };
        let broken = || Failure::new("Unable to load request: there is none in PEM, or it is broken.");
        let request = SigningRequest::read(&bytes).ok_or_else(broken)?;
        let mut result = request.describe(true).ok_or_else(broken)?;
        let valid = key::verify(&request.signed, &request.key, host)?;
        result.insert("signature_valid".to_owned(), valid.into());
        if !valid {
            return Err(Failure { message: "CSR signature is invalid!".to_owned(), data: result });
        }
        Ok(Plan::unchanged().with_all(result))
    }
}
