//! Temporary directories for a single run.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::{fd::OwnedFd, fs::StatVfsMountFlags};

use super::sweep;
use crate::{Failure, Host, accounts, process::reason};

/// A temporary directory that only its owner can enter. Dropping it removes it with its content.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Keeps [`sweep`](super::sweep) from removing the directory.
    _held: Option<OwnedFd>,
}

/// Content of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Data,
    /// Needs a file system that permits execution.
    Programs,
}

impl Scratch {
    /// Creates a directory on a file system that permits execution.
    pub fn executable() -> Result<Scratch, Failure> {
        Scratch::in_one_of(Use::Programs)
    }

    /// Creates a directory for data.
    pub fn new() -> Result<Scratch, Failure> {
        Scratch::in_one_of(Use::Data)
    }

    /// Creates a directory inside another one, which only its owner may change.
    pub(crate) fn inside(place: &Path) -> io::Result<Scratch> {
        Scratch::make(place, Use::Data)
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn in_one_of(purpose: Use) -> Result<Scratch, Failure> {
        let home = accounts::user_by_id(rustix::process::geteuid().as_raw()).map(|user| PathBuf::from(user.home));
        let own = std::env::temp_dir();
        let mut tried = Vec::new();
        let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
        for place in std::iter::once(own).chain(usual).chain(home) {
            match Scratch::make(&place, purpose) {
                Ok(scratch) => return Ok(scratch),
                Err(error) => tried.push(format!("{} ({})", place.display(), reason(&error))),
            }
        }
        tried.dedup();
        Err(Failure::new(format!("No directory was found for temporary files; tried {}.", tried.join(", "))))
    }

    fn make(place: &Path, purpose: Use) -> io::Result<Scratch> {
        if purpose == Use::Programs && rustix::fs::statvfs(place)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::other("mounted noexec"));
        }
        let path = place.join(format!(".windlass-{}", random_name()?));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let held = sweep::hold(&path);
        let scratch = Scratch { path, _held: held };
        let found = scratch.path.symlink_metadata()?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("somebody replaced the new directory"));
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Writes content from elsewhere to a file in a directory of its own. `src` names the content in the failure.
pub(crate) fn spool(reader: &mut dyn Read, path: &Path, src: &str, host: &Host) -> Result<File, Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("{src} could not be brought onto the host: {}.", reason(&error)));
    let mut file = File::create(path).map_err(failed)?;
    loop {
        host.check_cancelled()?;
        // Copies in pieces, so that a cancelled run ends soon.
        if io::copy(&mut reader.take(8 << 20), &mut file).map_err(failed)? == 0 {
            return Ok(file);
        }
    }
}

/// An unpredictable name.
pub(crate) fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}
