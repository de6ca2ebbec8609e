//! Hashes of the controller's files.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::memory::Memory;

/// Size in bytes from which hosts may pass a content on to each other. Agreeing on it costs two round trips.
pub(super) const PASSED_ON: u64 = 1 << 20;

/// Hashes of a file, in hex.
#[derive(Debug, Clone)]
pub(super) struct Hashes {
    pub(super) sha1: String,
    /// Only for files that hosts may pass on to each other.
    pub(super) sha256: Option<String>,
}

/// Who may send a file to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Senders {
    /// This program alone.
    Controller,
    /// Hosts that have it, too.
    Hosts,
}

/// A file in one state: its path, device, inode, size, and the times at which its content and inode changed.
type State = (PathBuf, [i64; 7]);

/// Hashes of a large file, which every host of a task asks for. It is read again only after a change.
pub(super) fn of_file(path: &Path, metadata: &Metadata, senders: Senders) -> io::Result<Hashes> {
    static KNOWN: Memory<State, Arc<Mutex<Option<Hashes>>>> = Memory::new();
    let numbers = [metadata.dev().cast_signed(), metadata.ino().cast_signed(), metadata.len().cast_signed()];
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let [device, inode, size] = numbers;
    let [changed, changed_ns, touched, touched_ns] = times;
    let state = (path.to_owned(), [device, inode, size, changed, changed_ns, touched, touched_ns]);
    let slot = KNOWN.get(&state).unwrap_or_else(|| {
        let slot = Arc::default();
        KNOWN.keep(state, Arc::clone(&slot));
        slot
    });
    // Held while the file is read, so that hosts that ask at the same time wait for one reading.
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hashes) = &*slot {
        return Ok(hashes.clone());
    }
    let hashes = read(path, senders == Senders::Hosts && metadata.len() >= PASSED_ON)?;
    Ok(slot.insert(hashes).clone())
}

fn read(path: &Path, is_passed_on: bool) -> io::Result<Hashes> {
    let mut file = File::open(path)?;
    let (mut sha1, mut sha256) = (Sha1::new(), is_passed_on.then(Sha256::new));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            let sha256 = sha256.map(|hasher| hex::encode(hasher.finalize()));
            return Ok(Hashes { sha1: hex::encode(sha1.finalize()), sha256 });
        }
        let piece = buffer.get(..count).unwrap_or_default();
        sha1.update(piece);
        if let Some(sha256) = &mut sha256 {
            sha256.update(piece);
        }
    }
}
