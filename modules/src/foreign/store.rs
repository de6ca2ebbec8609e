//! Foreign modules of a session, cached so that each is transferred only once.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use flate2::read::GzDecoder;

use crate::{Failure, Host, files::scratch::Scratch, lock::lock, process::reason};

/// Received modules by hash, in a directory that exists as long as the session.
#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    scratch: Option<Scratch>,
    known: HashMap<String, Arc<Mutex<Option<PathBuf>>>>,
}

impl Store {
    /// Path of this run's module: the first content, unpacked if it is an archive.
    pub(super) fn get(&self, host: &Host, packed: bool) -> Result<PathBuf, Failure> {
        let description = host.content(0)?;
        let (directory, slot) = {
            let mut kept = lock(&self.0);
            let directory = match &kept.scratch {
                Some(scratch) => scratch.path().to_owned(),
                None => {
                    let scratch = Scratch::new()?;
                    let path = scratch.path().to_owned();
                    kept.scratch = Some(scratch);
                    path
                }
            };
            (directory, Arc::clone(kept.known.entry(description.sha1.clone()).or_default()))
        };
        // Only runs of the same module wait for each other.
        let mut slot = lock(&slot);
        if let Some(path) = slot.as_ref().filter(|path| path.exists()) {
            return Ok(path.clone());
        }
        let path = directory.join(&description.sha1);
        let content = host.read_content(0)?;
        let kept = if packed { unpack(content, &path) } else { save(content, &path) };
        kept.map_err(|error| {
            let _ = std::fs::remove_dir_all(&path);
            Failure::new(format!("The module could not be kept in {}: {}.", path.display(), reason(&error)))
        })?;
        *slot = Some(path.clone());
        Ok(path)
    }

    /// Removes all modules.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Kept::default();
    }
}

fn unpack(content: impl Read, path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    let mut archive = tar::Archive::new(GzDecoder::new(content));
    archive.set_preserve_mtime(false);
    archive.unpack(path)
}

fn save(mut content: impl Read, path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o700).open(path)?;
    io::copy(&mut content, &mut file).map(drop)
}
