//! Listings of module directories, read once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// File endings that are never modules.
const IGNORED: &[&str] = &[
    ".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".toml", ".orig", ".ini", ".cfg", ".yaml",
    ".yml",
];

/// Modules in a directory, by their names with and without file extension.
type Listing = Arc<HashMap<String, PathBuf>>;

/// Listings by directory.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<HashMap<PathBuf, Listing>>);

impl Listings {
    /// Path of a module in a directory.
    pub(super) fn find(&self, folder: &Path, name: &str) -> Option<PathBuf> {
        self.list(folder).get(name).cloned()
    }

    /// Names of the modules in a directory.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        self.list(folder).keys().filter(|name| !name.contains('.')).cloned().collect()
    }

    fn list(&self, folder: &Path) -> Listing {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(folder.to_owned()).or_insert_with(|| Arc::new(read(folder))))
    }
}

fn read(folder: &Path) -> HashMap<String, PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    // A Python module takes precedence over one in another language.
    paths.sort_by_key(|path| (path.extension().is_none_or(|extension| extension != "py"), path.clone()));
    let mut modules = HashMap::new();
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
        if name == "__init__.py" || IGNORED.iter().any(|ending| name.ends_with(ending)) || !path.is_file() {
            continue;
        }
        if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) {
            modules.entry(stem.to_owned()).or_insert_with(|| path.clone());
        }
        modules.entry(name).or_insert(path);
    }
    modules
}

/// A directory and its subdirectories, two levels deep and innermost first, in Ansible's order for configured paths.
pub(super) fn with_subfolders(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    let first = inside(folder);
    let second: Vec<PathBuf> = first.iter().flat_map(|folder| inside(folder)).collect();
    first.into_iter().chain(second).chain([folder.to_owned()]).collect()
}
