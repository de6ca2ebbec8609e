//! Options common to several key and certificate modules.

use std::path::Path;

use crate::{Args, Failure, Kind, Opt, files::way};

pub(super) const BACKEND: Opt = Opt::new(
    "select_crypto_backend",
    Kind::Str,
    "No effect, because `openssl` handles all keys; accepted for compatibility.",
)
.default("\"auto\"")
.choices(&["auto", "cryptography"]);

pub(super) const NAME_ENCODING: Opt = Opt::new(
    "name_encoding",
    Kind::Str,
    "Encoding of names. Only `ignore`, which returns them unchanged, is supported.",
)
.default("\"ignore\"")
.choices(&["ignore", "idna", "unicode"]);

/// Fails if `name_encoding` requests converted names.
pub(super) fn names_as_they_are(args: &Args) -> Result<(), Failure> {
    match args.str("name_encoding") {
        Some("ignore") => Ok(()),
        _ => Err(Failure::new("name_encoding can only be ignore.")),
    }
}

/// Reads `content`, or the file that `path` names; `what` is the object in error messages.
pub(super) fn content_or_file(args: &Args, what: &str) -> Result<Vec<u8>, Failure> {
    match (args.str("content"), args.str("path")) {
        (Some(content), _) => Ok(content.as_bytes().to_vec()),
        (None, path) => way::read(Path::new(path.unwrap_or_default())).map_err(|error| {
            Failure::new(format!("Error while reading {what} file from disk: {}", crate::process::reason(&error)))
        }),
    }
}
