//! Removes leftovers of killed executors of the same user.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat},
};

use super::{scratch::random_name, way::Place};

/// Prefix of temporary files and directories, followed by 32 unpredictable hexadecimal digits.
const PREFIX: &str = ".windlass-";
/// Younger entries may belong to an executor that has not called [`hold`] yet.
pub(crate) const YOUNG: Duration = Duration::from_secs(600);

/// Marks a temporary directory as in use while the returned descriptor is open.
pub(crate) fn hold(directory: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = openat(CWD, directory, flags, Mode::empty()).ok()?;
    mark(&directory);
    Some(directory)
}

/// Marks an open directory as in use.
pub(crate) fn mark(directory: &OwnedFd) {
    // Without lock support no leftover is ever removed, because the exclusive lock fails too.
    let _ = flock(directory, FlockOperation::NonBlockingLockShared);
}

/// Removes this user's leftovers from the directories for temporary files.
pub(crate) fn sweep() {
    let usual = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/opt", "/var/cache"].map(PathBuf::from);
    usual.iter().chain(&[std::env::temp_dir()]).for_each(|place| sweep_in(place, YOUNG));
}

/// Removes directories with our names that this user owns, that are old enough, and that no process holds. Never
/// follows links; in a sticky directory nobody else can replace our entries.
pub(crate) fn sweep_in(place: &Path, young: Duration) {
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

/// Suffix of a temporary file that its writer keeps locked from the beginning. Without the lock, it is a leftover.
const LOCKED: &str = ".locked";
/// Suffix of any other temporary file.
const UNLOCKED: &str = ".tmp";

/// Creates a temporary file in a directory, and removes leftovers of killed executors there.
pub(crate) fn temporary_beside(place: &Place, mode: u32) -> io::Result<(Place, File)> {
    let named = |end: &str| place.sibling(format!("{PREFIX}{}{end}", random_name()?).as_ref());
    let locked = named(LOCKED)?;
    let made = match locked.create_locked(mode) {
        Ok(file) => (locked, file),
        Err(_) => {
            let unlocked = named(UNLOCKED)?;
            let file = unlocked.create_new(mode)?;
            let _ = flock(&file, FlockOperation::NonBlockingLockShared);
            (unlocked, file)
        }
    };
    sweep_beside(place, YOUNG);
    Ok(made)
}

/// Removes temporary files in a directory, once per process and directory.
fn sweep_beside(place: &Place, young: Duration) {
    static SWEPT: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());
    let Ok(found) = fstat(place.directory()) else { return };
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert((found.st_dev, found.st_ino)) {
        sweep_files(place, young);
    }
}

/// Removes files and links with our names that no process has locked. Removes only names in an open directory, so
/// nobody gains anything by replacing one.
fn sweep_files(place: &Place, young: Duration) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listing) = openat(place.directory(), ".", flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::new(listing) else { return };
    let own = rustix::process::geteuid();
    for entry in entries.flatten() {
        let Some(digits) = entry.file_name().to_str().ok().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let locked = digits.strip_suffix(LOCKED);
        let Some(digits) = locked.or_else(|| digits.strip_suffix(UNLOCKED)) else { continue };
        if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            continue;
        }
        let directory = place.directory();
        let Ok(found) = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        // Linking a file changes this time, but not the modification time.
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(found.st_ctime.try_into().unwrap_or_default());
        let is_old = locked.is_some() || changed.elapsed().is_ok_and(|age| age >= young);
        // Root may already have given the file to its future owner.
        if !is_old || !(own.is_root() || found.st_uid == own.as_raw()) {
            continue;
        }
        let is_free = match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => locked.is_none(),
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                openat(directory, entry.file_name(), flags, Mode::empty())
                    .and_then(|file| flock(&file, FlockOperation::NonBlockingLockExclusive))
                    .is_ok()
            }
            _ => false,
        };
        if is_free {
            let _ = unlinkat(directory, entry.file_name(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::way::Link;

    #[test]
    fn temporary_file_of_killed_writer_is_removed_by_the_next_one_in_that_directory() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::to_write(&folder.path().join("target"), Link::NoFollow).unwrap();
        let (alive, held) = temporary_beside(&place, 0o600).unwrap();
        let (dead, file) = temporary_beside(&place, 0o600).unwrap();
        // Simulates SIGKILL: the file keeps its name, and no process holds it.
        drop(file);
        let path = |name: &str| folder.path().join(name);
        let digits = "a".repeat(32);
        let (young, link) = (format!(".windlass-{digits}.tmp"), format!(".windlass-{}.tmp", "b".repeat(32)));
        std::fs::write(path(&young), "").unwrap();
        std::os::unix::fs::symlink("nowhere", path(&link)).unwrap();
        for name in ["target", ".windlass-short.locked", &format!("windlass-{digits}.locked")] {
            std::fs::write(path(name), "").unwrap();
        }
        sweep_files(&place, YOUNG);
        assert!(!dead.real().exists() && alive.real().exists() && path(&young).exists());
        sweep_files(&place, Duration::ZERO);
        assert!(!path(&young).exists() && path(&link).symlink_metadata().is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "what is not ours or held stays");
        drop(held);
        sweep_files(&place, YOUNG);
        assert!(!alive.real().exists());
    }

    #[test]
    fn directory_swept_once_per_process() {
        // A directory may reuse the inode of one that another test had removed.
        let mut folders = Vec::new();
        let is_swept = |folder: &tempfile::TempDir| {
            let left = folder.path().join(format!(".windlass-{}.locked", "c".repeat(32)));
            std::fs::write(&left, "half").unwrap();
            let place = Place::to_write(&folder.path().join("target"), Link::NoFollow).unwrap();
            let (made, _file) = temporary_beside(&place, 0o600).unwrap();
            assert!(made.real().exists());
            !left.exists()
        };
        assert!((0..100).any(|_| {
            folders.push(tempfile::tempdir().unwrap());
            is_swept(folders.last().unwrap())
        }));
        assert!(!is_swept(folders.last().unwrap()), "once is enough");
    }

    #[test]
    fn unheld_leftover_removed_others_kept() {
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
