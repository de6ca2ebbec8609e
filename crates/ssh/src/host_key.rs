//! Judges the key that a server presents, before anything is sent to it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use russh::keys::PublicKeyOrCertificate;
use ssh_key::certificate::CertType;
use ssh_key::public::RsaPublicKey;
use ssh_key::{Algorithm, Certificate, HashAlg, PublicKey};

use crate::known_hosts::{self, Entry, HostName, Known, Marker};
use crate::{Error, HostKeyChecking, PresentedKey, pattern};

/// The known keys of a host, and the policy for unknown ones.
#[derive(Debug, Clone)]
pub(crate) struct HostKeyPolicy {
    /// Name under which the host's keys are stored.
    pub(crate) host: HostName,
    /// The known_hosts files.
    pub(crate) files: Vec<PathBuf>,
    /// Entries of the files for this host.
    pub(crate) known: Known,
    /// Key that the user confirmed during this connection attempt.
    pub(crate) confirmed: Option<PublicKey>,
    /// The mode.
    pub(crate) checking: HostKeyChecking,
    /// File that new keys are written to.
    pub(crate) user_file: PathBuf,
    /// Keys of RevokedHostKeys.
    pub(crate) revoked: Vec<Entry>,
    /// Length from which an RSA key is accepted (RequiredRSASize).
    pub(crate) least_rsa_bits: u32,
    /// Algorithms by which an authority may sign.
    pub(crate) authority_algorithms: Vec<Algorithm>,
    /// Whether to hash the names of new keys.
    pub(crate) hash_names: bool,
}

/// The key was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The key differs from the known one and was accepted only because checking is off: no password may be sent.
    pub(crate) changed: bool,
    /// Warning to show to the user before any secret is sent.
    pub(crate) warning: Option<String>,
}

/// Result of comparing a key with the known_hosts files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A line has this key.
    Known {
        /// File with the matching line.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// No line has a key of this algorithm.
    Unknown,
    /// A line has another key.
    Changed {
        /// File with the other key.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Algorithm and fingerprint of the key in that line.
        expected: String,
    },
    /// A line revokes the key.
    Revoked {
        /// File with the revocation.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl HostKeyPolicy {
    /// Accepts the presented key, or returns the reason for refusing it.
    pub(crate) fn judge(&self, presented: &PublicKeyOrCertificate) -> Result<Accepted, Error> {
        let key = presented.public_key();
        self.refuse_revoked(&key)?;
        self.refuse_short(&key)?;
        if let Some(certificate) = presented.certificate() {
            let authority = PublicKey::new(certificate.signature_key().clone(), "");
            self.refuse_revoked(&authority)?;
            self.refuse_short(&authority)?;
            if self.certified(certificate) {
                return Ok(Accepted::default());
            }
        }
        let is_confirmed = self.confirmed.as_ref().is_some_and(|confirmed| confirmed.key_data() == key.key_data());
        if is_confirmed || self.knows(&key) {
            return Ok(Accepted::default());
        }
        // A key under the bare name vouches for `[host]:port`, but a different key there proves nothing about this
        // port. A key of an algorithm other than the known ones is as suspicious as a changed key, because an impostor
        // would offer one.
        let same_algorithm =
            self.known.of(Marker::Host).find(|entry| entry.exact && entry.key.algorithm() == key.algorithm());
        match same_algorithm.or_else(|| self.known.of(Marker::Host).find(|entry| entry.exact)) {
            Some(expected) => self.changed(&key, expected),
            None => self.unknown(&key),
        }
    }

    /// Reads the files again: another connection may have added the key.
    pub(crate) fn reread(&mut self) {
        if let Ok(known) = known_hosts::read(&self.files, &self.host) {
            self.known = known;
        }
    }

    pub(crate) fn knows(&self, key: &PublicKey) -> bool {
        self.known.of(Marker::Host).any(|entry| entry.key.key_data() == key.key_data())
    }

    /// Compares one of the host's keys with the files.
    pub(crate) fn verdict(&self, key: &PublicKey) -> Verdict {
        let place = |entry: &known_hosts::Entry| (entry.file.clone(), entry.line);
        let is_key = |entry: &&known_hosts::Entry| entry.key.key_data() == key.key_data();
        if let Some((file, line)) = self.all_revoked().find(is_key).map(place) {
            return Verdict::Revoked { file, line };
        }
        if let Some((file, line)) = self.known.of(Marker::Host).find(is_key).map(place) {
            return Verdict::Known { file, line };
        }
        let rivals = self.known.of(Marker::Host).filter(|entry| entry.exact);
        match rivals.into_iter().find(|entry| entry.key.algorithm() == key.algorithm()) {
            Some(entry) => {
                let (file, line) = place(entry);
                Verdict::Changed { file, line, expected: described(&entry.key) }
            }
            None => Verdict::Unknown,
        }
    }

    fn refuse_revoked(&self, key: &PublicKey) -> Result<(), Error> {
        match self.all_revoked().find(|entry| entry.key.key_data() == key.key_data()) {
            Some(entry) => Err(Error::HostKeyRevoked(self.presented(key, &entry.file, entry.line))),
            None => Ok(()),
        }
    }

    fn all_revoked(&self) -> impl Iterator<Item = &Entry> {
        self.known.of(Marker::Revoked).chain(&self.revoked)
    }

    /// Length in bits of an RSA key that is too short.
    pub(crate) fn short(&self, key: &PublicKey) -> Option<u32> {
        key.key_data().rsa().map(RsaPublicKey::key_size).filter(|&bits| bits < self.least_rsa_bits)
    }

    fn refuse_short(&self, key: &PublicKey) -> Result<(), Error> {
        match self.short(key) {
            Some(bits) => Err(Error::HostKeyShort {
                presented: self.presented(key, &self.user_file, 0),
                bits,
                least: self.least_rsa_bits,
            }),
            None => Ok(()),
        }
    }

    fn presented(&self, key: &PublicKey, file: &Path, line: usize) -> Box<PresentedKey> {
        Box::new(PresentedKey {
            host: self.host.name.clone(),
            algorithm: key.algorithm().to_string(),
            fingerprint: fingerprint(key),
            file: file.to_owned(),
            line,
            key: key.clone(),
        })
    }

    fn certified(&self, certificate: &Certificate) -> bool {
        let authorities: Vec<_> =
            self.known.of(Marker::Authority).map(|entry| entry.key.fingerprint(HashAlg::Sha256)).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        // Host certificates name hosts without their port.
        let host = self.host.fallback.as_deref().unwrap_or(&self.host.name);
        let principals = certificate.valid_principals();
        certificate.cert_type() == CertType::Host
            && certificate.critical_options().is_empty()
            && self.authority_algorithms.contains(&certificate.signature().algorithm())
            && certificate.validate_at(now, &authorities).is_ok()
            && (principals.is_empty()
                || pattern::list(principals.iter().map(String::as_str), host) == pattern::Match::Yes)
    }

    fn changed(&self, key: &PublicKey, expected: &known_hosts::Entry) -> Result<Accepted, Error> {
        let presented = self.presented(key, &expected.file, expected.line);
        let expected = described(&expected.key);
        if self.checking != HostKeyChecking::No {
            return Err(Error::HostKeyChanged { presented, expected });
        }
        let warning = format!(
            "HOST KEY CHECKING IS OFF AND THE HOST KEY OF {} HAS CHANGED: it presents {} {}, but {}:{} expects {expected}. Passwords are \
             not sent to it, neither for the login nor to become another user. Everything else of this run is: stop it unless the host was \
             reinstalled",
            presented.host,
            presented.algorithm,
            presented.fingerprint,
            presented.file.display(),
            presented.line
        );
        Ok(Accepted { changed: true, warning: Some(warning) })
    }

    fn unknown(&self, key: &PublicKey) -> Result<Accepted, Error> {
        if matches!(self.checking, HostKeyChecking::Yes | HostKeyChecking::Ask) {
            return Err(Error::HostKeyUnknown(self.presented(key, &self.user_file, 0)));
        }
        let unverified = (self.checking == HostKeyChecking::No).then(|| {
            format!(
                "HOST KEY CHECKING IS OFF AND THE HOST KEY OF {} IS UNKNOWN: it presents {}, which nobody has compared with anything. Whoever \
                 answers there receives the passwords and the data of this run",
                self.host.name,
                described(key)
            )
        });
        let warnings: Vec<String> = unverified.into_iter().chain(self.write(key)).collect();
        Ok(Accepted { changed: false, warning: (!warnings.is_empty()).then(|| warnings.join("; ")) })
    }

    /// Adds a key to the user's file; returns a warning if that fails.
    pub(crate) fn write(&self, key: &PublicKey) -> Option<String> {
        known_hosts::add(&self.user_file, &self.host.name, key, self.hash_names).err().map(|error| {
            format!(
                "the new host key of {} could not be written to {}: {error}",
                self.host.name,
                self.user_file.display()
            )
        })
    }
}

pub(crate) fn described(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), fingerprint(key))
}

pub(crate) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}
