//! Reads the keys that a host presents, in one handshake per algorithm and without a login.

use std::io;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;

use crate::algorithms;
use crate::connect::{Connector, resolve};
use crate::host_key::{HostKeyPolicy, Verdict, fingerprint};
use crate::resolved::Resolved;
use crate::{Destination, Error, HostKeyChecking, Settings, known_hosts};

/// A host key and its verdict.
#[derive(Debug, Clone)]
pub struct HostKey {
    /// Name of the host in known_hosts: `host` or `[host]:port`.
    pub name: String,
    /// Algorithm of the key.
    pub algorithm: String,
    /// Fingerprint of the key.
    pub fingerprint: String,
    /// Result of comparing the key with known_hosts.
    pub verdict: Verdict,
    /// File that new keys of this host are written to.
    pub file: PathBuf,
    hash_names: bool,
    key: PublicKey,
}

impl HostKey {
    fn new(key: PublicKey, policy: &HostKeyPolicy) -> Self {
        Self {
            name: policy.host.name.clone(),
            algorithm: key.algorithm().to_string(),
            fingerprint: fingerprint(&key),
            verdict: policy.verdict(&key),
            file: policy.user_file.clone(),
            hash_names: policy.hash_names,
            key,
        }
    }

    /// Formats the key as a known_hosts line, without a line break.
    pub fn line(&self) -> Result<String, ssh_key::Error> {
        Ok(format!("{} {}", self.name, PublicKey::new(self.key.key_data().clone(), "").to_openssh()?))
    }

    /// Adds the key to a known_hosts file.
    pub fn pin(&self, file: &Path) -> io::Result<()> {
        known_hosts::add(file, &self.name, &self.key, self.hash_names)
    }
}

impl Connector {
    /// All keys of a host, for every algorithm this client accepts. It logs in to jump hosts on the way, but not to the
    /// host.
    pub async fn host_keys(&self, destination: &Destination, settings: &Settings) -> Result<Vec<HostKey>, Error> {
        let resolved = resolve(destination, settings).await?;
        let mut keys: Vec<HostKey> = Vec::new();
        for algorithm in algorithms::key_kinds() {
            let attempt = Resolved {
                options: crate::config::HostOptions {
                    host_key_algorithms: Some(algorithm.to_owned()),
                    ..resolved.options.clone()
                },
                ..resolved.clone()
            };
            if let Some(key) = self.presented_key(&attempt, settings).await? {
                keys.push(HostKey::new(key, &resolved.policy));
            }
        }
        Ok(keys)
    }

    /// Judges the host's key as a connection would, and disconnects before the login.
    pub async fn verify_host_key(&self, destination: &Destination, settings: &Settings) -> Result<(), Error> {
        let settings = Settings { host_key_checking: Some(HostKeyChecking::Yes), ..settings.clone() };
        self.judged(&resolve(destination, &settings).await?, &settings).await
    }
}
