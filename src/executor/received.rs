//! Files that hosts send (`fetch`), bounded by `max_fetch_size` and by the free space of the disk.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};
use tempfile::NamedTempFile;

use super::Error;

/// A file sent by a host. It is a temporary file, unreadable for other users, until [`Received::persist`] renames it.
/// Dropping it deletes the file.
#[derive(Debug)]
pub struct Received {
    file: NamedTempFile,
    size: u64,
    digest: Sha1,
    limit: u64,
}

/// Interval between checks of the disk's free space, in bytes received.
const LOOK: u64 = 64 << 20;
/// Bytes of disk space that a received file must leave free.
const RESERVE: u64 = 256 << 20;

impl Received {
    /// Creates the temporary file in its final directory, so that a rename completes it.
    pub(super) fn begin(directory: &Path, limit: u64) -> Result<Self, Error> {
        let file = std::fs::create_dir_all(directory)
            .and_then(|()| tempfile::Builder::new().prefix(".windlass-").tempfile_in(directory))
            .map_err(|error| wrong(directory, &error))?;
        Ok(Self { file, size: 0, digest: Sha1::new(), limit })
    }

    /// Appends received bytes. Fails beyond the limit, or if the disk would become full.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let size = self.size + bytes.len() as u64;
        if size > self.limit {
            let message = format!(
                "the host sent a file of more than {} bytes, the limit of `max_fetch_size`; nothing of it was kept",
                self.limit
            );
            return Err(Error::Controller { message });
        }
        if size / LOOK > self.size / LOOK {
            self.check_space()?;
        }
        self.file.write_all(bytes).map_err(|error| wrong(self.file.path(), &error))?;
        self.size = size;
        self.digest.update(bytes);
        Ok(())
    }

    /// Fails before the file fills the disk.
    fn check_space(&self) -> Result<(), Error> {
        let Ok(found) = rustix::fs::fstatvfs(self.file.as_file()) else { return Ok(()) };
        if found.f_bavail.saturating_mul(found.f_frsize) >= RESERVE {
            return Ok(());
        }
        let (place, reserve) = (self.file.path().display(), RESERVE >> 20);
        let message = format!(
            "the host sends a file for which there is no room: fewer than {reserve} MiB would be free on the disk of {place}; nothing of it was kept"
        );
        Err(Error::Controller { message })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// SHA-1 in hex, which modules return as `checksum`.
    pub fn sha1(&self) -> String {
        hex::encode(self.digest.clone().finalize())
    }

    /// Path of the temporary file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Renames the file to its final name and atomically replaces an existing one, after flushing it to disk. It takes
    /// over the permissions of the replaced file, or gets the default ones.
    pub fn persist(self, destination: &Path) -> Result<PathBuf, Error> {
        let failed = |error: io::Error| wrong(destination, &error);
        let mode =
            destination.metadata().map_or_else(|_| 0o666 & !umask(), |found| found.permissions().mode() & 0o7777);
        self.file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
        self.file.as_file().sync_all().map_err(failed)?;
        self.file.persist(destination).map_err(|error| failed(error.error))?;
        if let Some(directory) = destination.parent() {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        }
        Ok(destination.to_owned())
    }
}

/// The process's umask. It is read from `/proc` because the system call would change it for other threads.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    mask.unwrap_or(0o077)
}

fn wrong(path: &Path, error: &io::Error) -> Error {
    Error::Controller { message: format!("the received file cannot be written to {}: {error}", path.display()) }
}
