//! Backups of files before their replacement.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use jiff::Zoned;

use super::way::{self, Link, Place};
use crate::{Failure, process::reason};

/// Most backups of a file in a second.
const NAMES: usize = 1000;

/// Copies a file to a name beside it with process id and time, keeping owner and permissions, and returns that name.
/// Does nothing if the file does not exist.
pub fn make(path: &Path) -> Result<Option<PathBuf>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let stamp = Zoned::now().strftime("%Y-%m-%d@%H:%M:%S~").to_string();
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}.{stamp}"));
        PathBuf::from(name)
    };
    // Modules share a process here, so two backups of a second would have the same name.
    let free = (std::process::id()..).take(NAMES).map(&named).find(|copy| copy.symlink_metadata().is_err());
    let copy = free.unwrap_or_else(|| named(std::process::id()));
    copied(path, &copy).map_err(|error| {
        Failure::new(format!("Could not make backup of {} to {}: {}.", path.display(), copy.display(), reason(&error)))
    })?;
    Ok(Some(copy))
}

fn copied(path: &Path, copy: &Path) -> io::Result<()> {
    let mut source: File = way::open(path)?;
    let found = source.metadata()?;
    let place = Place::to_write(copy, Link::NoFollow)?;
    // Whatever has the name is replaced without writing through it.
    if place.node().is_some() {
        place.unlink()?;
    }
    let mut target = place.create_new(0o600)?;
    io::copy(&mut source, &mut target)?;
    // Only root may change the owner; the backup is useful even without that, but not as a program of another owner.
    let owned = fchown(&target, Some(found.uid()), Some(found.gid())).is_ok();
    let kept = if owned { 0o7777 } else { 0o0777 };
    target.set_permissions(Permissions::from_mode(found.mode() & kept))?;
    target.set_modified(found.modified()?)?;
    target.sync_all()
}
