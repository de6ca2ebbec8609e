//! Locks on single files: a module that reads a file, changes the text and writes it again works alone on that file.
//!
//! The lock is not on the file itself, which is replaced when it is written, but on one in the private directory whose name is made of the
//! target's directory (device and inode) and its name there.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fd::OwnedFd,
    fs::{FlockOperation, flock},
};
use sha1::{Digest, Sha1};

use super::place;
use crate::{Failure, Host};

/// How long a file is waited for if the task has no shorter limit of its own.
const DEADLINE: Duration = Duration::from_secs(300);

/// A file that this thread alone edits among all executors of its user. Dropping it frees the file.
pub(crate) struct FileLock {
    _file: Option<OwnedFd>,
}

impl FileLock {
    /// Waits until no other module of this user edits the file. Links are followed as the modules follow them.
    pub(crate) fn take(path: &Path, host: &Host) -> Result<FileLock, Failure> {
        let directory = match place::open() {
            Ok(directory) => directory,
            Err(reason) => {
                host.warn(format!("{} is edited without a lock: {reason}.", path.display()));
                return Ok(FileLock { _file: None });
            }
        };
        FileLock::within(&directory, path, host, DEADLINE)
    }

    fn within(directory: &OwnedFd, path: &Path, host: &Host, limit: Duration) -> Result<FileLock, Failure> {
        let name = format!("file-{}", identity(path));
        let refuse = |reason: String| Failure::new(format!("{} could not be locked: {reason}.", path.display()));
        let file = place::file(directory, &name, true).map_err(|error| refuse(crate::process::reason(&error)))?;
        let deadline = Instant::now() + limit;
        loop {
            host.check_cancelled()?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(FileLock { _file: Some(file) }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(refuse(format!("another task has been editing it for {} s", limit.as_secs())));
                }
                Err(error) => return Err(refuse(error.to_string())),
            }
        }
    }
}

/// The same text for every path to one file, also while the file does not exist.
fn identity(path: &Path) -> String {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let parent = resolved.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut digest = Sha1::new();
    match rustix::fs::stat(parent) {
        Ok(found) => digest.update(format!("{}:{}:", found.st_dev, found.st_ino)),
        Err(_) => digest.update(parent.as_os_str().as_encoded_bytes()),
    }
    digest.update(resolved.file_name().unwrap_or_default().as_encoded_bytes());
    hex::encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_reached_by_two_names_has_one_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::os::unix::fs::symlink(directory.path(), directory.path().join("link")).unwrap();
        assert_eq!(identity(&path), identity(&directory.path().join("link/file")));
        assert_ne!(identity(&path), identity(&directory.path().join("other")));
    }

    #[test]
    fn file_being_edited_is_refused_after_the_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let locks = OwnedFd::from(std::fs::File::open(directory.path()).unwrap());
        let host = Host::alone(false, false);
        let path = directory.path().join("hosts");
        let first = FileLock::within(&locks, &path, &host, DEADLINE).unwrap();
        let late = FileLock::within(&locks, &path, &host, Duration::ZERO);
        let message = late.err().unwrap().message;
        assert!(message.contains("hosts could not be locked: another task has been editing it"), "{message}");
        drop(first);
        FileLock::within(&locks, &path, &host, Duration::ZERO).unwrap();
    }
}
