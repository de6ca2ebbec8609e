//! Locks on files: a module that reads, edits and rewrites a file has exclusive access to it.
//!
//! The lock is not on the file itself, which is replaced on writing. It is on a file in the private directory, named
//! after the target's directory (device and inode) and name. Releasing the lock removes that file.
//!
//! Each user has a separate private directory. So a file that other users than root can write or replace is locked
//! itself, too.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, open, stat, statat, unlinkat},
};
use sha1::{Digest, Sha1};

use super::place;
use crate::{Failure, Host};

/// Time to wait for a file, unless the task has a shorter limit of its own.
const DEADLINE: Duration = Duration::from_secs(300);
/// Time to wait for another user's task. Whoever can read the file can hold that lock for as long as they like.
const OTHER_USER: Duration = Duration::from_secs(10);

/// Whether this executor has warned of a file that cannot be locked.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Exclusive access to a file among all executors. Dropping it releases the file.
pub(crate) struct FileLock {
    _held: Option<Held>,
    /// The file as it was before the edit, which other users lock.
    _itself: Option<OwnedFd>,
}

struct Held {
    directory: OwnedFd,
    name: String,
    _file: OwnedFd,
}

impl FileLock {
    /// Waits until no other module edits the file. Follows links like the modules do.
    pub(crate) fn take(path: &Path, host: &Host) -> Result<FileLock, Failure> {
        let held = match place::open() {
            Ok(directory) => Some(Held::within(directory, path, host, DEADLINE)?),
            Err(reason) => {
                host.warn(format!("{} is edited without a lock: {reason}.", path.display()));
                None
            }
        };
        Ok(FileLock { _held: held, _itself: lock_itself(path, host, OTHER_USER)? })
    }
}

impl Held {
    fn within(directory: OwnedFd, path: &Path, host: &Host, limit: Duration) -> Result<Held, Failure> {
        let name = format!("file-{}", identity(path));
        let refuse = |reason: String| Failure::new(format!("{} could not be locked: {reason}.", path.display()));
        let open = || place::file(&directory, &name).map_err(|error| refuse(crate::process::reason(&error)));
        let mut file = open()?;
        let deadline = Instant::now() + limit;
        loop {
            host.check_cancelled()?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_named(&file, &directory, &name) => {
                    return Ok(Held { directory, name, _file: file });
                }
                // The previous holder removed the file meanwhile.
                Ok(()) => file = open()?,
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

impl Drop for Held {
    fn drop(&mut self) {
        // The file is still locked: waiting processes find that it is gone and create another. If it stays, the next
        // process locks it.
        let _ = unlinkat(&self.directory, self.name.as_str(), AtFlags::empty());
    }
}

/// Locks a file that other users than root can write or replace. After the time limit, the edit goes on with a warning;
/// so it does if the file system has no locks.
fn lock_itself(path: &Path, host: &Host, limit: Duration) -> Result<Option<OwnedFd>, Failure> {
    let deadline = Instant::now() + limit;
    while let Some(file) = opened(path) {
        host.check_cancelled()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if stat(path).is_ok_and(|named| is_same(&file, &named)) => return Ok(Some(file)),
            // The previous holder replaced the file meanwhile.
            Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => {
                let seconds = limit.as_secs();
                host.warn(format!(
                    "{} is edited although another user's process has held its lock for {seconds} s.",
                    path.display()
                ));
                break;
            }
            Err(error) => {
                // A run would repeat this for each file there.
                if !HAS_WARNED.swap(true, Ordering::Relaxed) {
                    host.warn(format!(
                        "{} is edited without a lock, and so are other files there: the file system refused it ({error}). \
                         Another user's process may edit them at the same time.",
                        path.display()
                    ));
                }
                break;
            }
        }
    }
    Ok(None)
}

/// The file, if it is a regular one that other users than root can write, or replace in its directory.
fn opened(path: &Path) -> Option<OwnedFd> {
    let is_open = |found: &Stat| found.st_uid != 0 || found.st_mode & 0o022 != 0;
    let directory = path.canonicalize().ok().and_then(|path| stat(path.parent()?).ok());
    // In a sticky directory, others replace only their own files.
    let is_sticky = |found: &Stat| found.st_uid == 0 && found.st_mode & 0o1000 != 0;
    let is_replaceable = directory.is_some_and(|found| is_open(&found) && !is_sticky(&found));
    let is_shared =
        |found: &Stat| FileType::from_raw_mode(found.st_mode).is_file() && (is_replaceable || is_open(found));
    stat(path).ok().filter(is_shared)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).ok()?;
    fstat(&file).ok().filter(is_shared)?;
    Some(file)
}

/// Whether the name in the directory still refers to this file.
fn is_named(file: &OwnedFd, directory: &OwnedFd, name: &str) -> bool {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|named| is_same(file, &named))
}

fn is_same(file: &OwnedFd, named: &Stat) -> bool {
    fstat(file).is_ok_and(|own| (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino))
}

/// Identity of a file: the same text for every path to it, even if the file does not exist.
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
    fn file_of_root_in_a_sticky_directory_cannot_be_held_by_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        let has_own_lock = |mode: u32| {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            opened(&path).is_some()
        };
        if rustix::process::geteuid().is_root() {
            assert!(has_own_lock(0o777));
            assert!(!has_own_lock(0o1777));
        }
    }

    fn locks(directory: &Path) -> OwnedFd {
        OwnedFd::from(std::fs::File::open(directory).unwrap())
    }

    #[test]
    fn file_being_edited_is_refused_after_the_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::alone();
        let path = directory.path().join("hosts");
        let first = Held::within(locks(directory.path()), &path, &host, DEADLINE).unwrap();
        let late = Held::within(locks(directory.path()), &path, &host, Duration::ZERO);
        let message = late.err().unwrap().message;
        assert!(message.contains("hosts could not be locked: another task has been editing it"), "{message}");
        drop(first);
        Held::within(locks(directory.path()), &path, &host, Duration::ZERO).unwrap();
    }

    #[test]
    fn file_of_other_users_is_locked_itself_for_a_bounded_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        std::fs::write(&path, "").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o666);
        let host = Host::alone();
        let first = lock_itself(&path, &host, Duration::ZERO).unwrap().expect("a lock");
        assert!(lock_itself(&path, &host, Duration::ZERO).unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        mode(0o666);
        lock_itself(&path, &host, Duration::ZERO).unwrap().expect("a lock on the file that took its place");
        drop(first);
    }

    #[test]
    fn released_lock_leaves_no_file_and_excludes_waiters() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        let inside = std::sync::atomic::AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let host = Host::alone();
                    for _ in 0..50 {
                        let _lock = Held::within(locks(directory.path()), &path, &host, DEADLINE).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
