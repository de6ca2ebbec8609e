//! Differences between two bundles.

use std::collections::BTreeMap;

use super::manifest::{File, Manifest};

/// Files that differ between two bundles, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Files of the new bundle only.
    pub added: Vec<&'a File>,
    /// Files of the old bundle only.
    pub removed: Vec<&'a File>,
    /// Files with other contents: the old one and the new one.
    pub changed: Vec<(&'a File, &'a File)>,
}

/// Compares two bundles by the paths and hashes of their files.
pub fn difference<'a>(old: &'a Manifest, new: &'a Manifest) -> Difference<'a> {
    fn by_path(manifest: &Manifest) -> BTreeMap<&str, &File> {
        manifest.files.iter().map(|file| (file.path.as_str(), file)).collect()
    }
    let (before, after) = (by_path(old), by_path(new));
    let mut found = Difference::default();
    for (path, file) in &after {
        match before.get(path) {
            None => found.added.push(file),
            Some(former) if former.sha256 != file.sha256 => found.changed.push((former, file)),
            Some(_) => {}
        }
    }
    found.removed = before.iter().filter(|(path, _)| !after.contains_key(*path)).map(|(_, file)| *file).collect();
    found
}
