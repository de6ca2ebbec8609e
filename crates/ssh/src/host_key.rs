//! Judges the key a server presents, before anything is sent to it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use russh::keys::PublicKeyOrCertificate;
use ssh_key::certificate::CertType;
use ssh_key::{Certificate, HashAlg, PublicKey};

use crate::known_hosts::{self, HostName, Known, Marker};
use crate::{Error, HostKeyChecking, PresentedKey, pattern};

/// What is known about a host, and what to do with what is not.
#[derive(Debug, Clone)]
pub(crate) struct HostKeyPolicy {
    /// The name keys are known under.
    pub(crate) host: HostName,
    /// What the files say.
    pub(crate) known: Known,
    /// The mode.
    pub(crate) checking: HostKeyChecking,
    /// Where new keys are written.
    pub(crate) user_file: PathBuf,
    /// Write names hashed.
    pub(crate) hash_names: bool,
}

/// The key was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The key is not the known one and was accepted only because checking is off: no password may be sent.
    pub(crate) changed: bool,
    /// What the user should be told.
    pub(crate) warning: Option<String>,
}

impl HostKeyPolicy {
    /// Accepts the presented key or says why not.
    pub(crate) fn judge(&self, presented: &PublicKeyOrCertificate) -> Result<Accepted, Error> {
        let key = presented.public_key();
        self.refuse_revoked(&key)?;
        if let Some(certificate) = presented.certificate() {
            self.refuse_revoked(&PublicKey::new(certificate.signature_key().clone(), ""))?;
            if self.certified(certificate) {
                return Ok(Accepted::default());
            }
        }
        if self.known.of(Marker::Host).any(|entry| entry.key.key_data() == key.key_data()) {
            return Ok(Accepted::default());
        }
        // A key under the bare name vouches for `[host]:port`, but a different one there says nothing about this port.
        // A key of another algorithm than the known ones is as suspicious as a changed one: an impostor would offer just that.
        let same_algorithm =
            self.known.of(Marker::Host).find(|entry| entry.exact && entry.key.algorithm() == key.algorithm());
        match same_algorithm.or_else(|| self.known.of(Marker::Host).find(|entry| entry.exact)) {
            Some(expected) => self.changed(&key, expected),
            None => self.unknown(&key),
        }
    }

    fn refuse_revoked(&self, key: &PublicKey) -> Result<(), Error> {
        match self.known.of(Marker::Revoked).find(|entry| entry.key.key_data() == key.key_data()) {
            Some(entry) => Err(Error::HostKeyRevoked(self.presented(key, &entry.file, entry.line))),
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
            && certificate.validate_at(now, &authorities).is_ok()
            && (principals.is_empty()
                || pattern::list(principals.iter().map(String::as_str), host) == pattern::Match::Yes)
    }

    fn changed(&self, key: &PublicKey, expected: &known_hosts::Entry) -> Result<Accepted, Error> {
        let error = Error::HostKeyChanged {
            presented: self.presented(key, &expected.file, expected.line),
            expected: format!("{} {}", expected.key.algorithm(), fingerprint(&expected.key)),
        };
        if self.checking == HostKeyChecking::No {
            let warning = format!("host key checking is off, so this is ignored and no password is sent: {error}");
            return Ok(Accepted { changed: true, warning: Some(warning) });
        }
        Err(error)
    }

    fn unknown(&self, key: &PublicKey) -> Result<Accepted, Error> {
        if self.checking == HostKeyChecking::Yes {
            return Err(Error::HostKeyUnknown(self.presented(key, &self.user_file, 0)));
        }
        let warning = known_hosts::add(&self.user_file, &self.host.name, key, self.hash_names).err().map(|error| {
            format!(
                "the new host key of {} could not be written to {}: {error}",
                self.host.name,
                self.user_file.display()
            )
        });
        Ok(Accepted { changed: false, warning })
    }
}

fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}
