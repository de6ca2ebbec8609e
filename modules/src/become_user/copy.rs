use std::{
    fs::File,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Mode, OFlags, StatVfsMountFlags},
};

use super::Refusal;
use crate::accounts;

/// The executor as another user can start it: the file itself, or a copy that is removed when this is dropped.
pub(super) struct Reachable {
    pub(super) path: PathBuf,
    copy: Option<Copy>,
}

struct Copy {
    directory: PathBuf,
    handle: OwnedFd,
}

const NAME: &str = "windlass-executor";

impl Reachable {
    /// The executor's own file if the user can read it, else a copy in a fresh directory that the user can pass through but not list.
    pub(super) fn for_user(name: &str) -> Result<Reachable, Refusal> {
        let own = std::env::current_exe().unwrap_or_default();
        if own.exists() && readable(&own, name) {
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
            "User {name} cannot read the executor, and no directory was found to put a copy in that the user can start; tried {}.",
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
        let copy = Copy { directory, handle };
        // From here on only the open directory is used: the path could be another's by now.
        let found = rustix::fs::fstat(&copy.handle)?;
        if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o777 != 0o700 {
            return Err(io::Error::other("the new directory is not ours"));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
        let mut file = File::from(rustix::fs::openat(&copy.handle, NAME, flags, Mode::RWXU)?);
        io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o755))?;
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

/// Whether the user can pass every directory on the way and execute the file. Root can, but for a network filesystem that does not trust it;
/// there the start fails with a message of its own.
fn readable(path: &Path, name: &str) -> bool {
    let Some(user) =
        accounts::user_by_name(name).or_else(|| accounts::user_by_id(name.strip_prefix('#')?.parse().ok()?))
    else {
        return false;
    };
    if user.uid == 0 {
        return true;
    }
    path.ancestors().all(|part| {
        let Ok(found) = part.metadata() else { return false };
        let mode = found.permissions().mode();
        let bits = if found.uid() == user.uid {
            mode >> 6
        } else if found.gid() == user.gid {
            mode >> 3
        } else {
            mode
        };
        let needed = if found.is_dir() { 0o1 } else { 0o5 };
        bits & needed == needed
    })
}
