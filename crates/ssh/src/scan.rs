//! Reads the keys that a host presents, in one handshake per algorithm and without a login.

use std::io;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;
use tokio::time::timeout;

use crate::algorithms;
use crate::connect::{Connector, resolve};
use crate::host_key::{HostKeyPolicy, Verdict, fingerprint};
use crate::known_hosts::HostName;
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
    /// Place where the host presents it: address and port, or the way there. Two names of one server have the same.
    pub place: String,
    hash_names: bool,
    key: PublicKey,
    host: HostName,
    files: Vec<PathBuf>,
}

impl HostKey {
    fn new(key: PublicKey, policy: &HostKeyPolicy, place: String) -> Self {
        Self {
            name: policy.host.name.clone(),
            algorithm: key.algorithm().to_string(),
            fingerprint: fingerprint(&key),
            verdict: policy.verdict(&key),
            file: policy.user_file.clone(),
            place,
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

    /// Replaces the keys that known_hosts files have for a host by all of those it presents. Returns the files from
    /// which keys were removed; their former content is beside them, under their name with `.old`.
    pub fn replace_known(presented: &[Self]) -> io::Result<Vec<PathBuf>> {
        let Some(first) = presented.first() else { return Ok(Vec::new()) };
        let keys: Vec<&PublicKey> = presented.iter().map(|key| &key.key).collect();
        let changed = replaced::remove_others(&first.files, &first.host, &keys)?;
        for key in presented.iter().filter(|key| !matches!(key.verdict, Verdict::Known { .. })) {
            key.pin(&key.file)?;
        }
        Ok(changed)
    }
}

impl Connector {
    /// All keys of a host, for every algorithm this client accepts. It logs in to jump hosts on the way, but not to the
    /// host.
    pub async fn host_keys(&self, destination: &Destination, settings: &Settings) -> Result<Vec<HostKey>, Error> {
        let resolved = resolve(destination, settings).await?;
        let place = place(&resolved).await;
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
                keys.push(HostKey::new(key, &resolved.policy, place.clone()));
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

/// Address and port of a server, or its name and the way there if this machine does not look it up.
async fn place(resolved: &Resolved) -> String {
    match &resolved.route {
        Route::Direct => {
            let addresses = timeout(resolved.connect_timeout, stream::addresses(resolved)).await;
            let least = addresses.ok().and_then(Result::ok).and_then(|addresses| addresses.into_iter().min());
            least.map_or_else(|| resolved.peer(), |address| address.to_string())
        }
        Route::Jump(hops) => format!("{} through {hops:?}", resolved.peer()),
        Route::Command(command) => format!("{} by {command}", resolved.peer()),
    }
}
