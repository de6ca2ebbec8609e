//! Memory of earlier rounds, and the switch that pauses repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Maximum size of a memory file, in bytes.
const SIZE: u64 = 4 << 20;
/// Maximum number of repairs to remember.
const REPAIRS: usize = 1000;

/// A repair that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Start, in seconds since the Unix epoch.
    pub at: u64,
    /// `apply`, or `replace NODE`.
    pub what: String,
    /// Exit code of the run; none while it runs, and if it was killed.
    pub code: Option<u8>,
}

/// Facts that outlive a round and a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Seconds since the Unix epoch at which nodes were first found unhealthy.
    unhealthy: BTreeMap<String, u64>,
    /// Repairs, the newest last.
    repairs: Vec<Repair>,
    /// The last report that a webhook got.
    pub reported: String,
}

impl Memory {
    /// Remembers the nodes that are unhealthy now, and forgets all others.
    pub(super) fn observe(&mut self, unhealthy: &BTreeSet<&str>, now: u64) {
        self.unhealthy.retain(|node, _| unhealthy.contains(node.as_str()));
        for node in unhealthy {
            self.unhealthy.entry((*node).to_owned()).or_insert(now);
        }
    }

    /// Number of unhealthy nodes.
    pub fn unhealthy(&self) -> usize {
        self.unhealthy.len()
    }

    /// The node that has been unhealthy for the longest time, and since when.
    pub(super) fn unhealthy_longest(&self) -> Option<(&str, u64)> {
        let node = self.unhealthy.iter().min_by_key(|(_, since)| **since);
        node.map(|(node, since)| (node.as_str(), *since))
    }

    /// Number of repairs begun after a time.
    pub fn repairs_since(&self, time: u64) -> usize {
        self.repairs.iter().filter(|repair| repair.at > time || time == 0).count()
    }

    /// All remembered repairs, the newest last.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Adds a repair.
    pub fn add(&mut self, repair: Repair) {
        self.repairs.push(repair);
        let surplus = self.repairs.len().saturating_sub(REPAIRS);
        self.repairs.drain(..surplus);
    }

    /// Notes the exit code of the newest repair.
    pub fn finish(&mut self, code: u8) {
        if let Some(repair) = self.repairs.last_mut() {
            repair.code = Some(code);
        }
    }
}

/// Files of one reconciled cluster in the state directory.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    name: String,
}

impl Store {
    /// Files for these inventory sources. Creates their directory, with access for its owner only.
    pub fn open(root: &Path, inventories: &[String]) -> Result<Store> {
        let folder = root.join("reconcile");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| Error::new(format!("the directory {} cannot be made: {error}", folder.display())))?;
        let sources = inventories.iter().map(|source| crate::paths::absolute(Path::new(source)).display().to_string());
        let digest = Sha256::digest(sources.collect::<Vec<_>>().join("\n"));
        Ok(Store { folder, name: hex::encode(digest).chars().take(16).collect() })
    }

    /// Path of a file of this cluster's state, with this ending.
    pub fn file(&self, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", self.name))
    }

    /// Locks this cluster for as long as the file is open, so that only one process repairs it.
    pub fn lock(&self) -> Result<File> {
        let path = self.file("lock");
        let fail = |why: String| Error::new(format!("{} cannot be locked: {why}", path.display()));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(|error| fail(error.to_string()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::new("another `windlass reconcile` works on this inventory")
                .hint("--status shows what it has done")),
            Err(TryLockError::Error(error)) => Err(fail(error.to_string())),
        }
    }

    /// Reads the memory. A missing file is an empty one.
    pub fn read(&self) -> Result<Memory> {
        let path = self.file("json");
        let fail = |why: String| {
            Error::new(format!("{} cannot be read: {why}", path.display()))
                .hint("without the file, waiting times and the budget start again")
        };
        match windlass_bounds::read_up_to(&path, SIZE) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| fail(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Memory::default()),
            Err(error) => Err(fail(error.to_string())),
        }
    }

    /// Writes the memory to disk, before anything depends on it.
    pub fn write(&self, memory: &Memory) -> Result<()> {
        let path = self.file("json");
        let text = serde_json::to_string_pretty(memory).map_err(|error| Error::new(error.to_string()))?;
        replace(&path, &text, 0o600)
    }

    /// When and by whom repairs were paused, if they are.
    pub fn paused(&self) -> Option<String> {
        // The file pauses repairs even if it cannot be read.
        let path = self.file("paused");
        path.exists().then(|| windlass_bounds::read_text(path).unwrap_or_default().trim().to_owned())
    }

    /// Pauses or resumes repairs.
    pub fn pause(&self, is_paused: bool, note: &str) -> Result<()> {
        let path = self.file("paused");
        if is_paused {
            return replace(&path, note, 0o600);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::new(format!("{} cannot be removed: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

/// Replaces a file in one step, so that a reader sees the old or the new text.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> Result<()> {
    crate::replace::replace(path, text, mode)
        .map_err(|error| Error::new(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_outlives_the_process_and_only_one_may_repair() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &["hosts".to_owned()]).unwrap();
        let mut memory = store.read().unwrap();
        memory.observe(&["node1"].into(), 7);
        memory.add(Repair { at: 9, what: "apply".to_owned(), code: None });
        store.write(&memory).unwrap();
        let other = Store::open(folder.path(), &["hosts".to_owned()]).unwrap();
        assert_eq!(other.read().unwrap(), memory);
        let lock = store.lock().unwrap();
        assert!(other.lock().unwrap_err().to_string().contains("another `windlass reconcile`"));
        drop(lock);
        other.lock().unwrap();
        assert!(Store::open(folder.path(), &["others".to_owned()]).unwrap().read().unwrap() == Memory::default());
    }

    #[test]
    fn damaged_memory_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &[]).unwrap();
        fs::write(store.file("json"), "{\"repairs\": 3}").unwrap();
        assert!(store.read().unwrap_err().to_string().contains(&store.file("json").display().to_string()));
    }
}
