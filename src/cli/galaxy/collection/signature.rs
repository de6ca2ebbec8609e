//! Signatures of collections. Each is a detached OpenPGP signature of `MANIFEST.json`, which has the hashes of
//! everything else. GnuPG verifies them with a keyring of the user.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use windlass_bounds::child::{self, Limits};

use super::name::Name;
use crate::cli::galaxy::fetch;
use crate::cli::galaxy::server::Server;
use crate::cli::galaxy::state::Galaxy;
use crate::error::{Error, Result};

/// Time for GnuPG to verify one signature.
const DEADLINE: Duration = Duration::from_secs(60);
/// Limits in bytes of a signature, and of their number for one collection.
const LARGEST: usize = 64 << 10;
const MOST: usize = 32;

/// Failures that GnuPG reports (doc/DETAILS of GnuPG, "General status codes").
const FAILURES: &[(&str, &str)] = &[
    ("BADARMOR", "the armour of the signature is damaged"),
    ("BADSIG", "the manifest is not the one that was signed"),
    ("BAD_PASSPHRASE", "the passphrase is wrong"),
    ("ERRSIG", "the signature cannot be checked"),
    ("ERROR", "GnuPG reports an error"),
    ("EXPKEYSIG", "the key has expired"),
    ("EXPSIG", "the signature has expired"),
    ("FAILURE", "GnuPG has failed"),
    ("KEYEXPIRED", "the key has expired"),
    ("KEYREVOKED", "the key was revoked"),
    ("MISSING_PASSPHRASE", "the passphrase is missing"),
    ("NODATA", "there is no signature in it"),
    ("NO_PUBKEY", "the key is not in the keyring"),
    ("NO_SECKEY", "a secret key is missing"),
    ("REVKEYSIG", "the key was revoked"),
    ("UNEXPECTED", "there is unexpected data in it"),
];

/// Options that say which signatures are valid, and how many a collection needs.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Signatures")]
pub(in crate::cli::galaxy) struct Options {
    /// GnuPG keyring with the keys of trusted signers [default: `gpg_keyring` in ansible.cfg, otherwise none]
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Valid signatures that a collection needs: a number, or `all` of its own; with `+`, unsigned ones are refused
    /// [default: 1]
    #[arg(long, value_name = "NUMBER")]
    required_valid_signature_count: Option<Required>,
    /// Status of GnuPG, such as EXPKEYSIG, with which a signature counts neither as valid nor as a failure; repeatable
    #[arg(long = "ignore-signature-status-code", value_name = "STATUS", value_parser = status)]
    ignored_status: Vec<String>,
    /// Several of them
    #[arg(long = "ignore-signature-status-codes", value_name = "STATUS", num_args = 1.., value_parser = status)]
    ignored_statuses: Vec<String>,
}

fn status(text: &str) -> std::result::Result<String, String> {
    match FAILURES.iter().any(|(code, _)| *code == text) {
        true => Ok(text.to_owned()),
        false => {
            let known: Vec<&str> = FAILURES.iter().map(|(code, _)| *code).collect();
            Err(format!("it must be one of {}", known.join(", ")))
        }
    }
}

/// Number of valid signatures that a collection needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Required {
    /// `None` means that none may fail.
    least: Option<u64>,
    /// Whether a collection without a valid signature is refused.
    is_strict: bool,
}

impl FromStr for Required {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Required, String> {
        let (count, is_strict) = match text.strip_prefix('+') {
            Some(count) => (count, true),
            None => (text, false),
        };
        let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
        let least = match count {
            "all" => None,
            _ => Some(count.parse().ok().filter(|&least: &u64| is_number && least > 0)),
        };
        match least {
            Some(None) => Err("it must be a number from 1 on, or `all`, with or without `+` before it".to_owned()),
            least => Ok(Required { least: least.flatten(), is_strict }),
        }
    }
}

/// Verifies the signatures of collections.
pub(in crate::cli::galaxy) struct Signatures<'a> {
    galaxy: &'a Galaxy,
    is_disabled: bool,
    /// Without one, nothing is verified.
    keyring: Option<PathBuf>,
    required: Required,
    ignored: BTreeSet<String>,
}

/// Result of one signature.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// With the fingerprint of the signer's primary key.
    Valid(String),
    /// The signature failed only with a status that the user ignores.
    Ignored,
    Failed(String),
}

impl<'a> Signatures<'a> {
    /// Reads options and settings. Fails if the keyring does not exist.
    pub(in crate::cli::galaxy) fn new(
        options: &Options,
        is_disabled: bool,
        galaxy: &'a Galaxy,
    ) -> Result<Signatures<'a>> {
        let is_disabled = is_disabled || galaxy.setting("GALAXY_DISABLE_GPG_VERIFY")? == Value::Bool(true);
        let setting = |name: &str| galaxy.setting(name).map(|value| value.as_str().map(str::to_owned));
        let keyring = match &options.keyring {
            Some(path) => Some(crate::settings::expand_home(&path.to_string_lossy())),
            None => setting("GALAXY_GPG_KEYRING")?.map(PathBuf::from),
        };
        let keyring = keyring.filter(|_| !is_disabled).map(|path| crate::paths::absolute(&path));
        if let Some(path) = keyring.as_ref().filter(|path| !path.is_file()) {
            return Err(Error::new(format!("the keyring `{}` does not exist", path.display()))
                .hint("import keys into it: `gpg --no-default-keyring --keyring FILE --import KEY.asc`"));
        }
        let required = match (options.required_valid_signature_count, setting("GALAXY_REQUIRED_VALID_SIGNATURE_COUNT")?)
        {
            (Some(required), _) => required,
            (None, Some(text)) => text.parse().map_err(|reason| {
                Error::usage(format!("`{text}` is not a valid `required_valid_signature_count`: {reason}"))
            })?,
            (None, None) => Required { least: Some(1), is_strict: false },
        };
        if required.is_strict && keyring.is_none() && !is_disabled {
            return Err(without_keyring("signatures are required, but there is no keyring that could verify them"));
        }
        let set = galaxy.setting("GALAXY_IGNORE_INVALID_SIGNATURE_STATUS_CODES")?;
        let set = set.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let given = [&options.ignored_status, &options.ignored_statuses].into_iter().flatten().cloned();
        let given: BTreeSet<String> = given.collect();
        let ignored = if given.is_empty() { set.collect() } else { given };
        Ok(Signatures { galaxy, is_disabled, keyring, required, ignored })
    }

    /// Verifies the signatures of a collection: those that its server has, and those at the addresses that the user
    /// gave. Fails unless enough of them are valid.
    pub(super) fn verify(
        &self,
        name: &Name,
        manifest: &[u8],
        of_server: &[String],
        sources: &[String],
        server: &Server,
    ) -> Result<()> {
        if self.is_disabled {
            return Ok(());
        }
        let Some(keyring) = &self.keyring else {
            if !sources.is_empty() {
                return Err(Error::new(format!(
                    "signatures of {name} are given, but no keyring that could verify them"
                ))
                .hint("name one with --keyring, or `gpg_keyring` in [galaxy] of ansible.cfg"));
            }
            if !of_server.is_empty() {
                self.galaxy.printer.warning(&format!(
                    "The signatures of {name} are not verified, because no keyring is set. Set one with --keyring, or \
                     `gpg_keyring` in ansible.cfg."
                ));
            }
            return Ok(());
        };
        let refused = |reason: &str| Error::new(format!("the signatures of {name} do not suffice: {reason}"));
        if of_server.len() + sources.len() > MOST {
            return Err(refused(&format!("there are more than {MOST}")));
        }
        let mut signatures: Vec<Vec<u8>> = of_server.iter().map(|text| text.as_bytes().to_vec()).collect();
        for source in sources {
            signatures.push(read(source, server)?);
        }
        // One signer counts once, however often the signature is listed.
        let (mut signers, mut failures) = (BTreeSet::new(), Vec::new());
        for signature in &signatures {
            match self.verdict(keyring, manifest, signature)? {
                Verdict::Valid(signer) => drop(signers.insert(signer)),
                Verdict::Ignored => {}
                Verdict::Failed(reason) => failures.push(reason),
            }
        }
        let valid = signers.len() as u64;
        let why = if failures.is_empty() { String::new() } else { format!(" ({})", failures.join("; ")) };
        match self.required {
            _ if signatures.is_empty() && !self.required.is_strict => {
                self.galaxy.printer.warning(&format!(
                    "{name} has no signature. To refuse such collections, write `+` before \
                     `required_valid_signature_count`."
                ));
                Ok(())
            }
            Required { is_strict: true, .. } if valid == 0 => Err(refused(&format!("none is valid{why}"))),
            Required { least: Some(least), .. } if valid < least => {
                Err(refused(&format!("{valid} of {} are valid, and {least} must be{why}", signatures.len())))
            }
            Required { least: None, .. } if !failures.is_empty() => Err(refused(&format!("all must be valid{why}"))),
            _ => Ok(()),
        }
    }

    /// Refuses a collection that cannot have a signature, if it needs one.
    pub(super) fn refuse_unsigned(&self, name: &Name, source: &str) -> Result<()> {
        match self.keyring.is_some() && self.required.is_strict {
            true => Err(Error::new(format!("{name} of {source} has no signature, because it is not a built archive"))),
            false => Ok(()),
        }
    }

    fn verdict(&self, keyring: &Path, manifest: &[u8], signature: &[u8]) -> Result<Verdict> {
        if signature.len() > LARGEST {
            return Ok(Verdict::Failed(format!("a signature is larger than {} KiB", LARGEST >> 10)));
        }
        // GnuPG reads no settings of the user, and leaves nothing behind.
        let home = fetch::temporary()?;
        let write = |name: &str, content: &[u8]| {
            let path = home.path().join(name);
            std::fs::write(&path, content).map(|()| path)
        };
        let fail = |reason: &dyn std::fmt::Display| Error::new(format!("signatures cannot be verified: {reason}"));
        let signed = write("signature", signature).and_then(|path| Ok((path, write("MANIFEST.json", manifest)?)));
        let (signature, manifest) = signed.map_err(|error| fail(&error))?;
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--no-tty", "--no-options", "--no-autostart", "--trust-model", "always"]);
        gpg.arg("--homedir").arg(home.path()).arg("--no-default-keyring").arg("--keyring").arg(keyring);
        gpg.args(["--status-fd", "1", "--verify"]).arg(signature).arg(manifest);
        let output =
            child::run(&mut gpg, Limits { deadline: Some(DEADLINE), output: 1 << 20 }).map_err(
                |error| match error {
                    child::Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        fail(&"there is no program `gpg`; install GnuPG")
                    }
                    error => fail(&format!("gpg: {error}")),
                },
            )?;
        Ok(self.judged(&String::from_utf8_lossy(&output.stdout), output.status))
    }

    /// Judges a signature by the status lines of GnuPG.
    fn judged(&self, lines: &str, status: ExitStatus) -> Verdict {
        let words = lines.lines().filter_map(|line| line.strip_prefix("[GNUPG:] ")?.split(' ').next());
        let words: Vec<&str> = words.collect();
        let failures: Vec<_> = FAILURES.iter().filter(|(code, _)| words.contains(code)).collect();
        if failures.is_empty() {
            let valid = lines.lines().find_map(|line| line.strip_prefix("[GNUPG:] VALIDSIG ")?.split(' ').next_back());
            return match valid.filter(|_| status.success()) {
                Some(signer) => Verdict::Valid(signer.to_owned()),
                None => Verdict::Failed(format!("GnuPG reports no signature as valid, {status}")),
            };
        }
        if failures.iter().all(|(code, _)| self.ignored.contains(*code)) {
            return Verdict::Ignored;
        }
        let reasons: Vec<String> = failures.iter().map(|(code, meaning)| format!("{code}: {meaning}")).collect();
        Verdict::Failed(reasons.join(", "))
    }
}

fn without_keyring(message: impl Into<String>) -> Error {
    Error::new(message).hint("name one with --keyring, or `gpg_keyring` in [galaxy] of ansible.cfg")
}

/// Reads a signature from an address.
fn read(source: &str, server: &Server) -> Result<Vec<u8>> {
    let folder = fetch::temporary()?;
    let path = folder.path().join("signature");
    let fail = |reason: &str| Error::new(format!("the signature `{source}` cannot be read: {reason}"));
    if let Some(path) = source.strip_prefix("file://") {
        return windlass_bounds::read(path).map_err(|error| fail(&error.to_string()));
    }
    server.download(source, &path).map_err(|error| fail(error.message()))?;
    windlass_bounds::read(&path).map_err(|error| fail(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_count_is_a_number_or_all() {
        let required = |text: &str| text.parse::<Required>().ok().map(|one| (one.least, one.is_strict));
        assert_eq!(required("1"), Some((Some(1), false)));
        assert_eq!(required("+12"), Some((Some(12), true)));
        assert_eq!(required("all"), Some((None, false)));
        assert_eq!(required("+all"), Some((None, true)));
        for wrong in ["", "+", "0", "-1", "++1", "All", "1 "] {
            assert_eq!(required(wrong), None, "{wrong}");
        }
    }
}
