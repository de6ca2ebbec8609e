//! Paths made absolute, without links being followed; programs on `PATH`.

use std::path::{Component, Path, PathBuf};

/// Makes a path absolute without following links; an empty one is the working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return std::env::current_dir().unwrap_or_default();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// File of a program in the directories of `PATH`.
pub(crate) fn on_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
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
