//! Backups of files that are about to be replaced.

use std::{
    fs::File,
    io,
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

use jiff::Zoned;

use super::way::{self, Place};
use crate::{Failure, process::reason};

/// Copies a file to a name beside it that tells process and time, with its owner and permissions, and returns that name.
/// Nothing is done if there is no file.
pub fn make(path: &Path) -> Result<Option<PathBuf>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let stamp = Zoned::now().strftime("%Y-%m-%d@%H:%M:%S~").to_string();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{stamp}", std::process::id()));
    let copy = PathBuf::from(name);
    copied(path, &copy).map_err(|error| {
        Failure::new(format!("Could not make backup of {} to {}: {}.", path.display(), copy.display(), reason(&error)))
    })?;
    Ok(Some(copy))
}

fn copied(path: &Path, copy: &Path) -> io::Result<()> {
    let mut source: File = way::open(path)?;
    let found = source.metadata()?;
    let place = Place::to_write(copy, false)?;
    // An earlier backup of the same second; whatever it is, nothing is written through it.
    if place.node().is_some() {
        place.unlink()?;
    }
    let mut target = place.create_new(0o600)?;
    io::copy(&mut source, &mut target)?;
    // Only root may give files away; a backup of one's own is still a backup.
    let _ = fchown(&target, Some(found.uid()), Some(found.gid()));
    target.set_permissions(found.permissions())?;
    target.set_modified(found.modified()?)?;
    target.sync_all()
}
