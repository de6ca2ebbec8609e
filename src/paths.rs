//! Paths made absolute, without links being followed.

use std::path::{Component, Path, PathBuf};

/// Makes a path absolute without following links; an empty one is the working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return std::env::current_dir().unwrap_or_default();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Removes `..` from a path like `realpath`, even through missing directories. In a playbook in `molecule/default`,
/// `roles: [../../..]` thus names the enclosing role whether or not `molecule/default/roles` exists.
pub(crate) fn without_parents(path: &Path) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path.to_owned();
    }
    let mut settled = PathBuf::new();
    for part in absolute(path).components() {
        if part == Component::ParentDir {
            settled = settled.canonicalize().unwrap_or(settled);
            settled.pop();
        } else {
            settled.push(part);
        }
    }
    settled
}
