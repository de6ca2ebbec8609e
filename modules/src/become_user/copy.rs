//! Provides the executor's program to another user, who may have no access to the original and must not read a copy.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Mode, OFlags, StatVfsMountFlags},
};

use super::Refusal;
use crate::accounts;

/// The executor in a form that another user can start: the file itself, or a copy, which is removed on drop.
///
/// Users other than root get a copy that they can execute but not read. The kernel makes the process of such a file
/// non-dumpable from `execve` on. So the user's other processes cannot take its channel before
/// [`refuse_inspection`](crate::refuse_inspection) runs.
pub(super) struct Reachable {
    pub(super) path: PathBuf,
    copy: Option<Copy>,
}

struct Copy {
    directory: PathBuf,
    handle: OwnedFd,
}

const NAME: &str = "windlass-executor";

/// Mode of a copy. The owner must not read it either, because the owner may also be the user to become.
const UNREADABLE: u32 = 0o111;

impl Reachable {
    /// The executor's own file for root, otherwise a copy in a new directory that the user can enter but not list.
    pub(super) fn for_user(name: &str) -> Result<Reachable, Refusal> {
        let own = std::env::current_exe().unwrap_or_default();
        if own.exists() && is_root(name) {
            return Ok(Reachable { path: own, copy: None });
        }
        let mut tried = Vec::new();
        for place in ["/tmp", "/var/tmp", "/dev/shm", "/run", "/opt"] {
            match Copy::make(Path::new(place)) {
                Ok(copy) => return Ok(Reachable { path: copy.directory.join(NAME), copy: Some(copy) }),
                Err(error) => tried.push(format!("{place} ({})", crate::process::reason(&error))),
            }
        }
        Err(Refusal::new(format!(
            "No directory was found to put an executor in that user {name} can start; tried {}.",
            tried.join(", ")
        )))
    }
}

impl Copy {
    fn make(place: &Path) -> io::Result<Copy> {
        if rustix::fs::statvfs(place)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::other("mounted noexec"));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let directory = place.join(format!(".windlass-{}", hex::encode(random)));
        rustix::fs::mkdir(&directory, Mode::RWXU)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = rustix::fs::openat(CWD, &directory, flags, Mode::empty())?;
        crate::files::sweep::mark(&handle);
        let copy = Copy { directory, handle };
        // From here on only the open directory is used, because the path may have been replaced.
        let found = rustix::fs::fstat(&copy.handle)?;
        if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o777 != 0o700 {
            return Err(io::Error::other("somebody replaced the new directory"));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
        let mut file = File::from(rustix::fs::openat(&copy.handle, NAME, flags, Mode::RWXU)?);
        io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(UNREADABLE))?;
        drop(file);
        rustix::fs::fchmod(&copy.handle, Mode::from_raw_mode(0o711))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.handle, NAME, AtFlags::empty());
        let _ = rustix::fs::rmdir(&self.directory);
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        self.copy = None;
    }
}

/// Whether the name or `#ID` is root's. Root can read every file, except on a network file system that squashes root;
/// there the start fails with a separate message.
fn is_root(name: &str) -> bool {
    let user = accounts::user_by_name(name).or_else(|| accounts::user_by_id(name.strip_prefix('#')?.parse().ok()?));
    user.is_some_and(|user| user.uid == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn copy_for_another_user_is_executable_and_unreadable() {
        let reachable = Reachable::for_user("nobody").unwrap();
        let mode = reachable.path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o111, "{mode:o}: a readable executor is dumpable until its `main` begins");
        let directory = reachable.path.parent().unwrap().to_owned();
        drop(reachable);
        assert!(!directory.exists());
    }
}
