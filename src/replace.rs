//! Replaces a file in one step.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces a file atomically: writes a new file beside it, flushes that to disk, and renames it. A reader sees the old
/// or the new text. A link is replaced, not followed.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    put(path, text, mode, true)
}

/// Like [`replace`], but does not flush: a power failure may lose the text. The file gets the default mode of new
/// files.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    put(path, text, 0o666, false)
}

/// Writes an output file that the user named. Follows links. Writes directly to a pipe or device.
pub(crate) fn output(path: &Path, text: &str) -> io::Result<()> {
    match fs::canonicalize(path) {
        Ok(path) if path.is_file() => write(&path, text),
        Ok(path) => fs::write(path, text),
        Err(_) => write(path, text),
    }
}

fn put(path: &Path, text: &str, mode: u32, is_synced: bool) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), hex::encode(bytes)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let mut write = || -> io::Result<()> {
        file.write_all(text.as_bytes())?;
        if is_synced {
            file.sync_all()?;
        }
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_output_keeps_links_and_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        output(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        output(Path::new("/dev/null"), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn link_in_place_of_a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (other, link) = (folder.path().join("other"), folder.path().join("link"));
        fs::write(&other, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
