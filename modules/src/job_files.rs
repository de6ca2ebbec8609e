//! Places of the status files of jobs (`async`), for the executor that writes them and the module that reads them.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    args::home_of,
    files::{
        info::owner_name,
        staged::directory_of,
        way::{self, Link, Place},
    },
};

/// The directory of job files for the current user, regardless of `HOME`.
pub(crate) fn directory(text: &str) -> PathBuf {
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = home_of(None).or_else(|| std::env::var("HOME").ok()).unwrap_or_else(|| "/".to_owned());
            PathBuf::from(format!("{home}{rest}"))
        }
        _ => PathBuf::from(text),
    }
}

/// The place of a job's file. Refuses directories that other users can change: they could read or replace the result.
pub(crate) fn place_of(file: &Path) -> io::Result<Place> {
    let place = Place::to_write(file, Link::NoFollow)?;
    let found = File::from(place.directory().try_clone_to_owned()?).metadata()?;
    if way::is_ours(&found) {
        return Ok(place);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} belongs to {} and has the mode {:04o}, so other users may change the results of jobs. Set \
             ansible_async_dir to a directory of the task's user",
            directory_of(place.real()).display(),
            owner_name(found.uid()),
            found.mode() & 0o7777
        ),
    ))
}
