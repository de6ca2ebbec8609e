//! OpenPGP public keys.

use std::path::Path;

use crate::{Args, Failure, Host, process::Command};

/// A key in gpg's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// Id of sixteen digits.
    pub(super) id: String,
    /// Fingerprint of the key.
    pub(super) fingerprint: String,
}

/// A URL, and the kind of file behind it.
pub(super) struct Download<'a> {
    pub(super) url: &'a str,
    pub(super) what: &'a str,
}

impl Download<'_> {
    /// Downloads the content.
    pub(super) fn read(&self, args: &Args, host: &Host) -> Result<Vec<u8>, Failure> {
        crate::http::read(self.url, args, host)
            .map_err(|reason| Failure::new(format!("Failed to download {} at {}: {reason}", self.what, self.url)))
    }
}

/// Whether a key is in armored (text) format.
pub(super) fn is_armored(bytes: &[u8]) -> bool {
    let begin = b"-----BEGIN PGP PUBLIC KEY BLOCK-----";
    bytes.windows(begin.len()).any(|window| window == begin)
}

/// The keys in a file.
pub(super) fn listed(file: &Path, host: &Host) -> Result<Vec<Key>, Failure> {
    let command = Command::new("gpg").plain_locale().args(["--no-tty", "--batch", "--with-colons", "--show-keys"]);
    let output = command.arg(file).run(host)?;
    if !output.success() {
        let said = output.stderr_text();
        return Err(Failure::new(format!("Unable to extract key from '{}': {}", file.display(), said.trim()))
            .with("stdout", output.stdout_text())
            .with("stderr", said));
    }
    Ok(parse(&output.stdout_text()))
}

/// Parses gpg's colon listing: `pub` contains the id, the following `fpr` the fingerprint.
fn parse(text: &str) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default().to_owned();
        match fields.first() {
            Some(&("pub" | "sub")) => keys.push(Key { id: field(4), fingerprint: String::new() }),
            Some(&"fpr") => {
                if let Some(key) = keys.last_mut() {
                    key.fingerprint = field(9);
                }
            }
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpg_listing_parsed() {
        let keys = parse(
            "pub:-:4096:1:A20E52146B8D79E6:1:::-:::scSC::::::23::0:\nfpr:::::::::EBC6E12C62B1C734026B2122A20E52146B8D79E6:\nuid:-::::1::X::Somebody::::::::::0:\n",
        );
        assert_eq!(
            keys,
            [Key { id: "A20E52146B8D79E6".into(), fingerprint: "EBC6E12C62B1C734026B2122A20E52146B8D79E6".into() }]
        );
        assert!(is_armored(b"x\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n") && !is_armored(b"\x99\x02"));
    }
}
