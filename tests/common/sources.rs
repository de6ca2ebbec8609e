//! Finds source files of the project.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all `.rs` files below `folders`, which are relative to the repository.
pub(crate) fn rust_files(folders: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<_> = folders.iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "rs"))),
            }
        }
    }
    found
}
