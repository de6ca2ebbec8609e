//! Options that several modules of keys and certificates have.

use crate::{Args, Failure, Kind, Opt};

pub(super) const BACKEND: Opt =
    Opt::new("select_crypto_backend", Kind::Str, "Accepted, without effect: keys are made and used by `openssl`.")
        .default("\"auto\"")
        .choices(&["auto", "cryptography"]);

pub(super) const NAME_ENCODING: Opt =
    Opt::new("name_encoding", Kind::Str, "`ignore`: names are given as they are; the others are not there.")
        .default("\"ignore\"")
        .choices(&["ignore", "idna", "unicode"]);

/// Fails if names are asked for in another way than they are.
pub(super) fn names_as_they_are(args: &Args) -> Result<(), Failure> {
    match args.str("name_encoding") {
        Some("ignore") => Ok(()),
        _ => Err(Failure::new("name_encoding can only be ignore.")),
    }
}

/// What `content` holds, or the file that `path` names; `what` is said where it cannot be read.
pub(super) fn content_or_file(args: &Args, what: &str) -> Result<Vec<u8>, Failure> {
    match (args.str("content"), args.str("path")) {
        (Some(content), _) => Ok(content.as_bytes().to_vec()),
        (None, path) => std::fs::read(path.unwrap_or_default()).map_err(|error| {
            Failure::new(format!("Error while reading {what} file from disk: {}", crate::process::reason(&error)))
        }),
    }
}
