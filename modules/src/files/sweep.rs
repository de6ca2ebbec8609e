//! What killed executors have left behind, removed by the next one of the same user.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fd::OwnedFd,
    fs::{CWD, FlockOperation, Mode, OFlags, flock, openat},
};

/// The names of temporary directories and files begin with this; 32 hexadecimal digits follow that nobody can guess.
const PREFIX: &str = ".windlass-";
/// What is younger may belong to an executor that has not got to [`hold`] yet.
const YOUNG: Duration = Duration::from_secs(600);

/// Marks a temporary directory as being in use for as long as the answer lives, which ends with the process at the latest.
pub(crate) fn hold(directory: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = openat(CWD, directory, flags, Mode::empty()).ok()?;
    mark(&directory);
    Some(directory)
}

/// Marks an open directory in the same way.
pub(crate) fn mark(directory: &OwnedFd) {
    // Where locks are not supported it is only swept later than it could be.
    let _ = flock(directory, FlockOperation::NonBlockingLockShared);
}

/// Removes this user's leftovers from the places for temporary files.
pub(crate) fn sweep() {
    let usual = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/opt"].map(PathBuf::from);
    usual.iter().chain(&[std::env::temp_dir()]).for_each(|place| sweep_in(place, YOUNG));
}

/// Removes directories with names of ours that this user owns, that are not young, and that no process holds. Links are never followed, and in a
/// sticky directory nobody else can put something in the place of one that is ours.
fn sweep_in(place: &Path, young: Duration) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if !digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            continue;
        }
        let path = entry.path();
        let Ok(found) = path.symlink_metadata() else { continue };
        let is_old = found.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= young));
        if !found.is_dir() || found.uid() != own || !is_old {
            continue;
        }
        let Some(held) = hold(&path) else { continue };
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_nobody_holds_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let hex = |digit: &str| format!(".windlass-{}", digit.repeat(32));
        let (dead, alive, link) = (hex("a"), hex("b"), hex("c"));
        for name in [&dead, &alive, ".windlass-0", "somebody's"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(path("somebody's"), path(&link)).unwrap();
        std::os::unix::fs::symlink(path("somebody's"), path(&dead).join("link")).unwrap();
        let held = hold(&path(&alive));
        sweep_in(place.path(), YOUNG);
        assert!(path(&dead).exists(), "it is too young");
        sweep_in(place.path(), Duration::ZERO);
        assert!(!path(&dead).exists());
        for name in [&alive, &link, ".windlass-0", "somebody's"] {
            assert!(path(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(path("somebody's/file").exists());
        drop(held);
        sweep_in(place.path(), Duration::ZERO);
        assert!(!path(&alive).exists());
    }
}
