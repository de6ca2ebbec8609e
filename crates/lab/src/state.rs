//! Record of a lab. Each resource is recorded before it is created, so the next run can remove the remains of a crash.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::options::Options;

const FILE: &str = "state.json";

/// Progress of `up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The lab is being created, or the run that created it crashed.
    Making,
    /// All hosts have been up.
    Ready,
}

/// The record of one lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) options: Options,
    /// The tree that all hosts boot from.
    pub(crate) base: PathBuf,
    /// Temporary name of a base that is being built.
    pub(crate) building: Option<PathBuf>,
    pub(crate) nodes: Vec<Node>,
}

/// One host of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name: `node1`, `node2` ...
    pub name: String,
    /// Number, counting from 1.
    pub number: usize,
    /// Address on the lab's bridge.
    pub address: Ipv4Addr,
}

impl State {
    /// Creates the record of a new lab.
    pub(crate) fn new(options: &Options, base: PathBuf) -> Self {
        let options = options.clone();
        let mut state =
            Self { phase: Phase::Making, base, building: None, nodes: Vec::with_capacity(options.nodes), options };
        state.grow(state.options.nodes);
        state
    }

    /// Adds hosts to the record until it has `count`. Returns the new ones.
    pub(crate) fn grow(&mut self, count: usize) -> Vec<Node> {
        let added: Vec<Node> = (self.nodes.len() + 1..=count)
            .map(|number| Node { name: format!("node{number}"), number, address: self.options.network.node(number) })
            .collect();
        self.nodes.extend(added.iter().cloned());
        self.options.nodes = self.nodes.len();
        added
    }

    /// Reads the record in `directory`; `None` if there is no lab.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
                Error::Invalid(format!(
                    "The record of the lab, {}, cannot be read: {error}. Another version of the lab may have written it; \
                     take that lab down with that version.",
                    path.display()
                ))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read the record of the lab", &path)(error)),
        }
    }

    /// Writes the record atomically.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let path = self.file(FILE);
        let temporary = self.file("state.json.new");
        let mut text = serde_json::to_string_pretty(self).map_err(|error| Error::io("write", &path)(error.into()))?;
        text.push('\n');
        fs::write(&temporary, text).map_err(Error::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(Error::io("write the record of the lab", &path))
    }

    /// Path of a file in the lab's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.options.directory.join(name)
    }

    /// Path of the directory with one host's disks.
    pub(crate) fn node_directory(&self, node: &Node) -> PathBuf {
        self.file("nodes").join(&node.name)
    }

    /// Path of the private key that grants access to every host.
    pub(crate) fn private_key(&self) -> PathBuf {
        self.file("id_ed25519")
    }

    /// Path of the file with the hosts' public keys.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.file("known_hosts")
    }

    /// Removes the hosts' disks and all files of the lab, the record last. Keeps the lock, because the caller holds it.
    pub(crate) fn remove_files(directory: &Path) -> Result<(), Error> {
        let nodes = directory.join("nodes");
        ignore_missing(fs::remove_dir_all(&nodes)).map_err(Error::io("remove", &nodes))?;
        for name in ["id_ed25519", "id_ed25519.pub", "known_hosts", "inventory.ini", "state.json.new", FILE] {
            let path = directory.join(name);
            ignore_missing(fs::remove_file(&path)).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }

    /// Removes the lock, which the caller holds, and the directory unless it has other entries.
    pub(crate) fn remove_directory(directory: &Path) -> Result<(), Error> {
        let lock = directory.join("lock");
        ignore_missing(fs::remove_file(&lock)).map_err(Error::io("remove", &lock))?;
        // A directory that is not empty has files of the user, so it stays.
        let _ = fs::remove_dir(directory);
        Ok(())
    }
}

/// Treats a missing file as already removed.
pub(crate) fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(directory: &Path) -> Options {
        Options { directory: directory.to_owned(), nodes: 2, ..Options::default() }
    }

    #[test]
    fn record_round_trips() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = State::new(&options(directory.path()), "/cache/base".into());
        state.building = Some("/cache/base.building".into());
        state.write().unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), Some(state));
    }

    #[test]
    fn hosts_are_numbered_from_one_with_addresses_from_eleven() {
        let state = State::new(&options(Path::new("/lab")), "/cache/base".into());
        let hosts: Vec<_> = state.nodes.iter().map(|node| format!("{} {}", node.name, node.address)).collect();
        assert_eq!(hosts, ["node1 10.97.0.11", "node2 10.97.0.12"]);
    }

    #[test]
    fn grown_lab_gains_missing_hosts() {
        let mut state = State::new(&options(Path::new("/lab")), "/cache/base".into());
        assert!(state.grow(1).is_empty() && state.grow(2).is_empty());
        let added: Vec<_> = state.grow(4).into_iter().map(|node| node.name).collect();
        assert_eq!((added, state.options.nodes), (vec!["node3".to_owned(), "node4".to_owned()], 4));
    }

    #[test]
    fn no_record_means_no_lab_and_a_broken_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), None);
        fs::write(directory.path().join(FILE), "{").unwrap();
        let error = State::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("state.json, cannot be read"), "{error}");
    }

    #[test]
    fn foreign_files_kept() {
        let directory = tempfile::tempdir().unwrap();
        State::new(&options(directory.path()), "/cache/base".into()).write().unwrap();
        fs::write(directory.path().join("mine"), "").unwrap();
        State::remove_files(directory.path()).unwrap();
        State::remove_directory(directory.path()).unwrap();
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"]);
    }
}
