//! `MANIFEST.json` and `FILES.json`: what a built collection is and the hash of each of its files.

use std::io;
use std::path::{Component, Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::name::{Name, Range};
use crate::bundle::{Digest, Hashing};
use crate::error::{Error, Result};

pub(super) const MANIFEST: &str = "MANIFEST.json";
pub(super) const FILES: &str = "FILES.json";

/// Both documents of a collection. They may come from a server, so nothing in them counts before `parse` checked it.
#[derive(Debug, Clone)]
pub(super) struct Manifest {
    pub(super) name: Name,
    pub(super) version: Version,
    pub(super) dependencies: Vec<(Name, Range)>,
    pub(super) entries: Vec<Entry>,
    /// Content of `MANIFEST.json`.
    pub(super) manifest: Vec<u8>,
    /// Content of `FILES.json`.
    pub(super) files: Vec<u8>,
}

/// A file or a directory of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path below the collection's directory.
    pub(super) path: PathBuf,
    /// SHA-256 of a file in hexadecimal digits; `None` for a directory.
    pub(super) sha256: Option<String>,
}

/// Fields of `collection_info` that matter for an installation.
#[derive(Deserialize)]
struct Identity {
    namespace: String,
    name: String,
    version: String,
    dependencies: Option<Map<String, Value>>,
}

#[derive(Serialize, Deserialize)]
struct ManifestDocument {
    collection_info: Map<String, Value>,
    file_manifest_file: Listed,
    format: u64,
}

#[derive(Serialize, Deserialize)]
struct FilesDocument {
    files: Vec<Listed>,
    format: u64,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    name: String,
    ftype: String,
    chksum_type: Option<String>,
    chksum_sha256: Option<String>,
    format: u64,
}

impl Listed {
    fn file(name: &str, sha256: &str) -> Listed {
        Listed {
            name: name.to_owned(),
            ftype: "file".to_owned(),
            chksum_type: Some("sha256".to_owned()),
            chksum_sha256: Some(sha256.to_owned()),
            format: 1,
        }
    }

    fn directory(name: &str) -> Listed {
        Listed { name: name.to_owned(), ftype: "dir".to_owned(), chksum_type: None, chksum_sha256: None, format: 1 }
    }
}

impl Identity {
    fn checked(self) -> Result<(Name, Version, Vec<(Name, Range)>)> {
        let name = Name::require(&format!("{}.{}", self.namespace, self.name))?;
        let version = Version::parse(&self.version).map_err(|error| {
            Error::new(format!("the version `{}` of {name} is not a semantic version: {error}", self.version))
        })?;
        Ok((name, version, dependencies(&self.dependencies.unwrap_or_default())?))
    }
}

/// Reads a mapping of names to version requirements.
pub(super) fn dependencies(listed: &Map<String, Value>) -> Result<Vec<(Name, Range)>> {
    let one = |(name, range): (&String, &Value)| {
        let range = range.as_str().map_or_else(|| Ok(Range::any()), Range::parse)?;
        Ok((Name::require(name)?, range))
    };
    listed.iter().map(one).collect()
}

impl Manifest {
    /// Checks both documents: every path stays inside of the collection, and `FILES.json` has the hash that
    /// `MANIFEST.json` lists.
    pub(super) fn parse(manifest: Vec<u8>, files: Vec<u8>) -> Result<Manifest> {
        let broken = |name: &str, error: serde_json::Error| Error::new(format!("its {name} is not valid: {error}"));
        let document: ManifestDocument = serde_json::from_slice(&manifest).map_err(|error| broken(MANIFEST, error))?;
        let (name, version, dependencies) = identity(&document.collection_info)?;
        if document.file_manifest_file.chksum_sha256 != Some(sha256(&files)) {
            return Err(Error::new(format!("the hash of {FILES} differs from {MANIFEST}")));
        }
        let listed: FilesDocument = serde_json::from_slice(&files).map_err(|error| broken(FILES, error))?;
        let mut entries = Vec::new();
        for one in listed.files.into_iter().filter(|one| one.name != ".") {
            let path = PathBuf::from(&one.name);
            if !is_relative(&path) {
                return Err(Error::new(format!("{FILES} lists `{}`, which is outside of the collection", one.name)));
            }
            let sha256 = match (one.ftype.as_str(), one.chksum_sha256) {
                ("dir", _) => None,
                ("file", Some(sha256)) => Some(sha256),
                _ => return Err(Error::new(format!("{FILES} lists `{}` without a hash", one.name))),
            };
            entries.push(Entry { path, sha256 });
        }
        Ok(Manifest { name, version, dependencies, entries, manifest, files })
    }

    /// Writes both documents; `info` becomes `collection_info`.
    pub(super) fn new(info: Map<String, Value>, entries: Vec<Entry>) -> Result<Manifest> {
        let (name, version, dependencies) = identity(&info)?;
        let listed = entries.iter().map(|entry| {
            let path = entry.path.to_string_lossy();
            entry.sha256.as_ref().map_or_else(|| Listed::directory(&path), |sha256| Listed::file(&path, sha256))
        });
        let files = [Listed::directory(".")].into_iter().chain(listed).collect();
        let files = document(&FilesDocument { files, format: 1 })?;
        let file_manifest_file = Listed::file(FILES, &sha256(&files));
        let manifest = document(&ManifestDocument { collection_info: info, file_manifest_file, format: 1 })?;
        Ok(Manifest { name, version, dependencies, entries, manifest, files })
    }

    /// Hash of `MANIFEST.json`, which covers every file of the collection.
    pub(super) fn sha256(&self) -> String {
        sha256(&self.manifest)
    }
}

fn identity(info: &Map<String, Value>) -> Result<(Name, Version, Vec<(Name, Range)>)> {
    let identity: Identity = serde_json::from_value(Value::Object(info.clone()))
        .map_err(|error| Error::new(format!("the description of the collection is not valid: {error}")))?;
    identity.checked()
}

/// Formats a document as ansible-core does: indented by one space.
fn document(value: &impl Serialize) -> Result<Vec<u8>> {
    let fail = |error: serde_json::Error| Error::new(format!("the manifest cannot be written: {error}"));
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter)).map_err(fail)?;
    Ok(text)
}

pub(super) fn sha256(content: &[u8]) -> String {
    Digest::of(content).to_string()
}

/// SHA-256 of a file.
pub(super) fn file_sha256(path: &Path) -> io::Result<String> {
    let mut reader = Hashing::new(windlass_bounds::open(path)?);
    io::copy(&mut reader, &mut io::sink())?;
    reader.finish().map(|(digest, _)| digest.to_string())
}

/// Whether a path has only names, so that it stays below the directory it is joined to.
pub(super) fn is_relative(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(file: &str) -> Result<Manifest> {
        let info = serde_json::from_str(r#"{"namespace": "a", "name": "b", "version": "1.0.0"}"#).unwrap();
        let entry = Entry { path: file.into(), sha256: Some(sha256(b"")) };
        let Manifest { manifest, files, .. } = Manifest::new(info, vec![entry]).unwrap();
        Manifest::parse(manifest, files)
    }

    #[test]
    fn paths_that_leave_collection_are_refused() {
        assert!(parsed("plugins/a.py").is_ok());
        for path in ["/etc/passwd", "../a", "a/../../b", ""] {
            assert!(parsed(path).is_err(), "{path}");
        }
    }

    #[test]
    fn changed_list_of_files_is_refused() {
        let Manifest { manifest, mut files, .. } = parsed("a").unwrap();
        files.push(b' ');
        assert!(Manifest::parse(manifest, files).unwrap_err().message().contains("differs"));
    }
}
