//! Requirements: which collections are wanted, and from where.

use std::path::{Path, PathBuf};

use windlass_yaml::Node;

use super::name::{Name, Range};
use super::tree;
use crate::error::{Error, Result};
use crate::settings::expand_home;

/// A collection to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::galaxy) enum Requirement {
    /// A name on a Galaxy server: a URL or a name in `server_list`, or else any server.
    Published { name: Name, range: Range, server: Option<String>, signatures: Vec<String> },
    /// An archive.
    Archive { path: PathBuf, signatures: Vec<String> },
    /// An archive on a web server.
    Url { url: String, signatures: Vec<String> },
    /// A directory with `galaxy.yml`.
    Directory(PathBuf),
    /// A git repository: its URL, a branch, tag or commit, and a directory in it.
    Git { url: String, version: Option<String>, folder: Option<PathBuf> },
}

/// How an entry of a requirements file names its source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Galaxy,
    File,
    Url,
    Git,
    Directory,
    Subdirectories,
}

impl Requirement {
    /// Parses an argument: `NAMESPACE.NAME[:RANGE]`, a path, a URL, or `git+URL[#DIRECTORY][,VERSION]`.
    pub(super) fn of_word(word: &str) -> Result<Vec<Requirement>> {
        let kind = type_of(word);
        // A path may have a colon.
        let (name, range) = match (kind, word.split_once(':')) {
            (Type::Galaxy, Some((name, range))) => (name, Some(range.to_owned())),
            _ => (word, None),
        };
        of(kind, name, range, None)
    }

    /// Parses an entry of a requirements file.
    pub(in crate::cli::galaxy) fn of_node(node: &Node) -> Result<Vec<Requirement>> {
        let wrong = |message: String| Error::parse(message, &node.span).generic();
        if let Some(word) = node.as_str() {
            return Requirement::of_word(word).map_err(|error| wrong(error.message().to_owned()));
        }
        let Some(map) = node.as_map() else {
            return Err(wrong("a required collection must be a name, or a mapping with `name`".to_owned()));
        };
        let known = ["name", "version", "source", "type", "signatures"];
        if let Some(key) = map.keys().filter_map(|key| key.as_str()).find(|key| !known.contains(key)) {
            let hint = crate::error::did_you_mean(key, known);
            return Err(wrong(format!("a required collection has no option `{key}`")).maybe_hint(hint));
        }
        let signatures = match map.get("signatures") {
            None => Vec::new(),
            Some(node) if node.is_null() => Vec::new(),
            Some(node) => {
                let several = node.as_list().unwrap_or(std::slice::from_ref(node));
                let read: Option<Vec<String>> = several.iter().map(|one| one.as_str().map(str::to_owned)).collect();
                read.ok_or_else(|| wrong("`signatures` must be a list of addresses".to_owned()))?
            }
        };
        let field = |name: &str| map.get(name).and_then(Node::scalar_text).filter(|text| !text.is_empty());
        let source = field("source");
        let Some(name) = field("name").or_else(|| source.clone()) else {
            return Err(wrong("a required collection needs `name`".to_owned()));
        };
        let kind = match field("type").as_deref() {
            None => type_of(&name),
            Some("galaxy") => Type::Galaxy,
            Some("file") => Type::File,
            Some("url") => Type::Url,
            Some("git") => Type::Git,
            Some("dir") => Type::Directory,
            Some("subdirs") => Type::Subdirectories,
            Some(other) => {
                let known = "galaxy, file, url, git, dir or subdirs";
                return Err(wrong(format!("`{other}` is not a type of collection sources: {known}")));
            }
        };
        let requirements = of(kind, &name, field("version"), source).and_then(|requirements| {
            requirements.into_iter().map(|requirement| requirement.signed_by(signatures.clone())).collect()
        });
        requirements.map_err(|error: Error| wrong(error.message().to_owned()))
    }

    /// The requirement with the addresses of further signatures. Fails if they cannot be verified.
    pub(super) fn signed_by(mut self, addresses: Vec<String>) -> Result<Requirement> {
        match &mut self {
            Requirement::Published { signatures, .. }
            | Requirement::Archive { signatures, .. }
            | Requirement::Url { signatures, .. } => *signatures = addresses,
            Requirement::Directory(_) | Requirement::Git { .. } if addresses.is_empty() => {}
            Requirement::Directory(_) | Requirement::Git { .. } => {
                return Err(Error::new("signatures are of built archives, not of directories and git repositories"));
            }
        }
        Ok(self)
    }

    /// Addresses of further signatures.
    pub(super) fn signatures(&self) -> &[String] {
        match self {
            Requirement::Published { signatures, .. }
            | Requirement::Archive { signatures, .. }
            | Requirement::Url { signatures, .. } => signatures,
            Requirement::Directory(_) | Requirement::Git { .. } => &[],
        }
    }
}

fn type_of(word: &str) -> Type {
    let path = expand_home(word);
    if word.starts_with("git+") || word.starts_with("git@") {
        Type::Git
    } else if word.starts_with("http://") || word.starts_with("https://") {
        Type::Url
    } else if word.starts_with("file://") || path.is_file() {
        Type::File
    } else if !path.is_dir() {
        Type::Galaxy
    } else if tree::metadata(&path).is_some() {
        Type::Directory
    } else {
        Type::Subdirectories
    }
}

fn of(kind: Type, name: &str, version: Option<String>, server: Option<String>) -> Result<Vec<Requirement>> {
    let path = || expand_home(name.strip_prefix("file://").unwrap_or(name));
    Ok(vec![match kind {
        Type::Galaxy => {
            let Some(name) = Name::parse(name) else {
                return Err(Error::new(format!(
                    "`{name}` is neither a collection's name (NAMESPACE.NAME), nor an existing file or directory, nor a URL"
                )));
            };
            let range = Range::parse(version.as_deref().unwrap_or("*"))?;
            Requirement::Published { name, range, server, signatures: Vec::new() }
        }
        Type::File => Requirement::Archive { path: path(), signatures: Vec::new() },
        Type::Url => Requirement::Url { url: name.to_owned(), signatures: Vec::new() },
        Type::Directory => Requirement::Directory(path()),
        Type::Subdirectories => return subdirectories(&path()),
        Type::Git => git(name, version),
    }])
}

/// Parses `[git+]URL[#DIRECTORY][,VERSION]`; the version may also precede the directory.
fn git(word: &str, version: Option<String>) -> Requirement {
    let word = word.strip_prefix("git+").unwrap_or(word);
    let (rest, folder) = word.split_once('#').unwrap_or((word, ""));
    let (url, before) = rest.split_once(',').map_or((rest, None), |(url, version)| (url, Some(version)));
    let (folder, after) = folder.split_once(',').map_or((folder, None), |(folder, version)| (folder, Some(version)));
    let version = version.filter(|version| version != "*").or_else(|| before.or(after).map(str::to_owned));
    let folder = folder.trim_matches('/');
    Requirement::Git {
        url: url.to_owned(),
        version: version.filter(|version| !version.is_empty()),
        folder: (!folder.is_empty()).then(|| PathBuf::from(folder)),
    }
}

fn subdirectories(root: &Path) -> Result<Vec<Requirement>> {
    let found = collections_in(root, &root.display().to_string())?;
    Ok(found.into_iter().map(Requirement::Directory).collect())
}

/// Directories of collections: this one, or else those directly below it. Fails if there are none, with their `source`.
pub(super) fn collections_in(root: &Path, source: &str) -> Result<Vec<PathBuf>> {
    if tree::metadata(root).is_some() {
        return Ok(vec![root.to_owned()]);
    }
    let entries =
        std::fs::read_dir(root).map_err(|error| Error::new(format!("{} cannot be read: {error}", root.display())))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| tree::metadata(path).is_some());
    if found.is_empty() {
        return Err(Error::new(format!("neither {source} nor a directory in it has a galaxy.yml")));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(word: &str) -> Requirement {
        Requirement::of_word(word).unwrap().remove(0)
    }

    #[test]
    fn word_names_published_collection_or_its_place() {
        let Requirement::Published { name, range, server: None, .. } = one("a.b:>=1.0.0,<2") else { panic!() };
        assert_eq!((name.to_string(), range.text), ("a.b".to_owned(), ">=1.0.0,<2".to_owned()));
        let url = "https://x/a-b-1.0.0.tar.gz";
        assert_eq!(one(url), Requirement::Url { url: url.to_owned(), signatures: Vec::new() });
        let repository = |version: Option<&str>, folder: Option<&str>| Requirement::Git {
            url: "https://x/r.git".to_owned(),
            version: version.map(str::to_owned),
            folder: folder.map(PathBuf::from),
        };
        assert_eq!(one("git+https://x/r.git"), repository(None, None));
        assert_eq!(one("git+https://x/r.git,v1"), repository(Some("v1"), None));
        assert_eq!(one("git+https://x/r.git#/a/b/,v1"), repository(Some("v1"), Some("a/b")));
        assert_eq!(one("git+https://x/r.git,v1#/a"), repository(Some("v1"), Some("a")));
        assert!(Requirement::of_word("nodot").is_err());
    }
}
