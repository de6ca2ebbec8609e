//! The file tree that facts are read from, so that tests can describe hosts that they do not run on.

use std::path::{Path, PathBuf};

/// File tree from which facts are read: `/` on a host, a temporary folder in a test.
pub(crate) struct Root {
    path: PathBuf,
}

impl Root {
    /// The host's own tree.
    pub(crate) fn host() -> Root {
        Root::at("/")
    }

    /// A tree below this folder.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Root {
        Root { path: path.into() }
    }

    /// The real position of an absolute path of the tree.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    /// Reads a file as text, replacing invalid bytes; `None` if it is unreadable.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a file as trimmed text; `None` if it is empty.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        self.read(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Whether a path exists; symbolic links are followed.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The sorted names in a folder; empty if it is unreadable.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last part of a symbolic link's target.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The canonical path of a file, as seen in the tree.
    pub(crate) fn real_path(&self, path: &str) -> Option<String> {
        let real = std::fs::canonicalize(self.path(path)).ok()?;
        let base = std::fs::canonicalize(&self.path).ok()?;
        Some(Path::new("/").join(real.strip_prefix(base).ok()?).to_string_lossy().into_owned())
    }

    /// The path of a program in the usual folders.
    pub(crate) fn program(&self, name: &str) -> Option<String> {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
        folders.iter().map(|folder| format!("{folder}/{name}")).find(|path| self.exists(path))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A temporary tree with these files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }
}
