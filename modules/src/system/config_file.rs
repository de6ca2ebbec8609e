//! Reads configuration files of the system and replaces them whole. Handles links and mount points, as containers have
//! them, once for all modules.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    Failure,
    files::{
        attributes::Attributes,
        backup,
        staged::Staged,
        way::{self, Link, Place},
    },
    process::reason,
};

/// Reads a configuration file; a missing file reads as empty.
pub(super) fn read(path: &str) -> Result<String, Failure> {
    match way::read(Path::new(path)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::new(format!("{path} cannot be read: {}.", reason(&error)))),
    }
}

/// Replaces a configuration file atomically, so that no reader sees half of it. A file that is a mount point itself, as
/// some are in containers, is overwritten in place.
pub(super) fn replace(path: &str, text: &str) -> Result<(), Failure> {
    replace_with(path, text, Attributes::default())
}

/// Like [`replace`], with the given attributes.
pub(super) fn replace_with(path: &str, text: &str, mut attributes: Attributes) -> Result<(), Failure> {
    attributes.unsafe_writes = true;
    let real = real(path)?;
    let mut staged = Staged::beside(&real, &attributes)?;
    staged
        .file()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::new(format!("{path} could not be written: {}.", reason(&error))))?;
    staged.commit(&attributes).map(drop)
}

/// Copies a configuration file before it is replaced, and returns the path of the copy; `None` if the file is missing.
pub(super) fn back_up(path: &str) -> Result<Option<String>, Failure> {
    Ok(backup::make(&real(path)?)?.map(|copy| copy.to_string_lossy().into_owned()))
}

/// The file to write. A link stays and its target is replaced. A dangling link is replaced itself.
fn real(path: &str) -> Result<PathBuf, Failure> {
    match Place::to_write(Path::new(path), Link::Follow) {
        Ok(place) if place.node().is_some() => Ok(place.real().to_owned()),
        Err(error) if Path::new(path).exists() => {
            Err(Failure::new(format!("{path} could not be written: {}.", reason(&error))))
        }
        _ => Ok(Path::new(path).to_owned()),
    }
}

/// Like [`replace`], and creates the directory if it is missing, such as `/etc/modules-load.d`.
pub(super) fn replace_making_folder(path: &str, text: &str) -> Result<(), Failure> {
    if let Some(folder) = Path::new(path).parent() {
        way::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("{} could not be made: {}.", folder.display(), reason(&error))))?;
    }
    replace(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_file_keeps_mode_and_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        let path = link.to_string_lossy();
        let copy = back_up(&path).unwrap().unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "old");
        assert!(link.is_symlink());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
