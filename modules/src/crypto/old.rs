//! Existing key files.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
};

use crate::{Failure, files::way, process::reason};

/// Maximum size of a key in bytes; the rest of a larger file is not read.
const LARGEST: u64 = 1 << 20;

/// An existing file, opened and read once, because the owner of its directory may replace it at any time.
pub(super) struct Old {
    pub(super) file: Arc<File>,
    pub(super) bytes: Vec<u8>,
}

impl Old {
    /// Whether ssh-keygen would use the key: it refuses the user's own keys that others may read.
    pub(super) fn is_private(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.file.metadata().is_ok_and(|found| found.uid() != own || found.mode() & 0o077 == 0)
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Old>, Failure> {
        let read = || -> io::Result<Old> {
            let file = way::open(path)?;
            let mut bytes = Vec::new();
            (&file).take(LARGEST).read_to_end(&mut bytes)?;
            Ok(Old { file: Arc::new(file), bytes })
        };
        match read() {
            Ok(old) => Ok(Some(old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::new(format!("{} cannot be read: {}.", path.display(), reason(&error)))),
        }
    }
}
