use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};
use tempfile::NamedTempFile;

use super::Error;

/// A file that a host has sent. It lies in a temporary file, readable for nobody else, until [`Received::persist`] gives it its name; dropped, it is gone.
#[derive(Debug)]
pub struct Received {
    file: NamedTempFile,
    size: u64,
    digest: Sha1,
    limit: u64,
}

/// Interval between checks of the disk's free space, in bytes received.
const LOOK: u64 = 64 << 20;
/// Bytes that a received file leaves free on the disk.
const RESERVE: u64 = 256 << 20;

impl Received {
    /// Begins a file in the directory where it will be in the end, so that giving it its name is one step.
    pub(super) fn begin(directory: &Path, limit: u64) -> Result<Self, Error> {
        let file = std::fs::create_dir_all(directory)
            .and_then(|()| tempfile::Builder::new().prefix(".windlass-").tempfile_in(directory))
            .map_err(|error| wrong(directory, &error))?;
        Ok(Self { file, size: 0, digest: Sha1::new(), limit })
    }

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

    /// A host must not fill the disk for everybody else.
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

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its SHA-1 in hex, which is what modules call `checksum`.
    pub fn sha1(&self) -> String {
        hex::encode(self.digest.clone().finalize())
    }

    /// Where it lies for now.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it its name, replacing what is there in one step; the file is safely on the disk before that. It has the permissions of the file that it
    /// replaces, or those of any new file.
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

/// What new files are denied. The system call would set it, for other threads too.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    mask.unwrap_or(0o077)
}

fn wrong(path: &Path, error: &io::Error) -> Error {
    Error::Controller { message: format!("the received file cannot be written to {}: {error}", path.display()) }
}
