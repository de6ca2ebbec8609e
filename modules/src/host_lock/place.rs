//! Private directory for locks, common to all executors of a user on this machine.

use std::io;

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat},
    process::Uid,
};

use crate::process::reason;

/// Opens the user's lock directory, and creates it if it is missing.
///
/// Root's directory is in `/run`, where nobody else can write, so no user can block root. Other users have theirs in a
/// world-writable directory whose sticky bit protects it. If another user created the directory first, every executor
/// of the user takes the next place. Each user has a separate lock, and root's covers the machine: a lock that other
/// users could open is one that they could hold forever.
///
/// Shared memory is the last place: when the last session of a user ends, logind removes the user's files there
/// (RemoveIPC in logind.conf(5)).
pub(super) fn open() -> Result<OwnedFd, String> {
    let mut tried = Vec::new();
    for (base, name) in places(rustix::process::geteuid()) {
        match open_in(base, &name) {
            Ok(directory) => return Ok(directory),
            Err(error) => tried.push(format!("{base}/{name} ({})", reason(&error))),
        }
    }
    Err(format!("no private directory for locks could be made; tried {}", tried.join(", ")))
}

/// Directories of a user, each with its parent, best first.
fn places(user: Uid) -> Vec<(&'static str, String)> {
    let run = user.is_root().then(|| ("/run", "windlass".to_owned()));
    let shared = ["/var/tmp", "/tmp", "/dev/shm"].map(|base| (base, format!(".windlass-lock-{}", user.as_raw())));
    run.into_iter().chain(shared).collect()
}

fn open_in(base: &str, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let base = openat(CWD, base, flags, Mode::empty())?;
    let found = fstat(&base)?;
    let open_to_others = found.st_mode & 0o022 != 0;
    if found.st_uid != 0 || (open_to_others && found.st_mode & 0o1000 == 0) {
        return Err(io::Error::other("others can replace its contents"));
    }
    match mkdirat(&base, name, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Never opens a link or a device in that place.
    is_private(&statat(&base, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
    let directory = openat(&base, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    is_private(&fstat(&directory)?)?;
    Ok(directory)
}

fn is_private(found: &Stat) -> io::Result<()> {
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(io::Error::other("it is not a directory"));
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if found.st_mode & 0o077 != 0 {
        return Err(io::Error::other("others may enter it"));
    }
    Ok(())
}

/// Opens a file in the directory, and creates it if it is missing.
pub(super) fn file(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_file(directory, name, OFlags::CREATE)
}

/// Opens a file in the directory; fails if it is missing.
pub(super) fn existing_file(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_file(directory, name, OFlags::empty())
}

fn open_file(directory: &OwnedFd, name: &str, more: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
    Ok(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn files_of_a_login_user_outlive_the_last_session() {
        let bases = |user| places(Uid::from_raw(user)).into_iter().map(|(base, _)| base).collect::<Vec<_>>();
        assert_eq!(bases(1000), ["/var/tmp", "/tmp", "/dev/shm"]);
        assert_eq!(bases(0)[0], "/run");
    }

    #[test]
    fn directory_others_prepared_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().display().to_string();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let sticky = |mode| std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        sticky(0o1777);
        let refused = |name: &str| open_in(&path, name).unwrap_err().to_string();
        symlink("/root", base.path().join("link")).unwrap();
        assert!(refused("link").contains("not a directory"));
        std::fs::create_dir(base.path().join("open")).unwrap();
        std::fs::set_permissions(base.path().join("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused("open").contains("others may enter"));
        std::fs::create_dir(base.path().join("foreign")).unwrap();
        std::os::unix::fs::chown(base.path().join("foreign"), Some(12345), None).unwrap();
        assert!(refused("foreign").contains("another user"));
        open_in(&path, "own").unwrap();
        open_in(&path, "own").unwrap();
        // Without the sticky bit anybody could remove it.
        sticky(0o777);
        assert!(refused("own").contains("replace"));
    }
}
