//! Reads the keys that a host presents, in one handshake per algorithm and without a login.

use std::io;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;
use tokio::time::timeout;

use crate::algorithms;
use crate::connect::{Connector, resolve};
use crate::host_key::{HostKeyPolicy, Verdict, fingerprint};
use crate::known_hosts::HostName;
use crate::replaced::Replacement;
use crate::resolved::{Resolved, Route};
use crate::{Destination, Error, HostKeyChecking, Settings, known_hosts, replaced, stream};

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
    host: HostName,
    files: Vec<PathBuf>,
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
            host: policy.host.clone(),
            files: policy.files.clone(),
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

    /// Checks that the keys of a host in known_hosts files can be replaced by all the keys that it presents.
    pub fn check_replaceable(presented: &[Self]) -> io::Result<()> {
        Self::replacement(presented).map_or(Ok(()), |host| host.check())
    }

    /// Replaces the keys that known_hosts files have for each host by all keys that it presents. Returns the files from
    /// which lines were changed; their former content is beside them, under their name with `.old`. An error lists the
    /// files that were changed before it.
    pub fn replace_known(hosts: &[&[Self]]) -> io::Result<Vec<PathBuf>> {
        let hosts: Vec<_> = hosts.iter().filter_map(|presented| Self::replacement(presented)).collect();
        replaced::replace(&hosts)
    }

    fn replacement(presented: &[Self]) -> Option<Replacement<'_>> {
        let first = presented.first()?;
        Some(Replacement {
            host: &first.host,
            files: &first.files,
            keys: presented.iter().map(|key| &key.key).collect(),
            new: presented.iter().filter(|key| !key.is_known()).map(|key| &key.key).collect(),
            user_file: &first.file,
            hash_names: first.hash_names,
        })
    }

    /// Whether a known_hosts file has the key for this host.
    pub fn is_known(&self) -> bool {
        matches!(self.verdict, Verdict::Known { .. })
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
    /// Place of a host: address and port, or its name and the way there if this machine does not look it up. Two names
    /// of one server have the same.
    pub async fn place(&self, destination: &Destination, settings: &Settings) -> Result<String, Error> {
        let resolved = resolve(destination, settings).await?;
        Ok(match &resolved.route {
            Route::Direct => {
                let addresses = timeout(resolved.connect_timeout, stream::addresses(&resolved)).await;
                let least = addresses.ok().and_then(Result::ok).and_then(|addresses| addresses.into_iter().min());
                least.map_or_else(|| resolved.peer(), |address| address.to_string())
            }
            Route::Jump(hops) => format!("{} through {hops:?}", resolved.peer()),
            Route::Command(command) => format!("{} by {command}", resolved.peer()),
        })
    }
}
