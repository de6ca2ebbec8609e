//! Collections that are given as archives, directories or git repositories.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use tempfile::TempDir;

use super::archive;
use super::manifest::Manifest;
use super::requirement::{Requirement, collections_in};
use super::tree::Tree;
use crate::cli::galaxy::fetch::{self, Checkout};
use crate::cli::galaxy::server::Servers;
use crate::cli::galaxy::state::{Common, Galaxy};
use crate::error::{Error, Result};

/// A collection that needs no server to be described.
pub(super) struct Given {
    pub(super) content: Content,
    /// Path or URL it came from.
    pub(super) source: String,
    /// Commit, if it came from a git repository.
    pub(super) commit: Option<String>,
    /// Keeps a download until its last collection is installed.
    _temporary: Option<Rc<TempDir>>,
}

pub(super) enum Content {
    Archive { path: PathBuf, manifest: Manifest },
    Tree(Tree),
}

impl Given {
    pub(super) fn manifest(&self) -> &Manifest {
        match &self.content {
            Content::Archive { manifest, .. } | Content::Tree(Tree { manifest, .. }) => manifest,
        }
    }

    /// Writes the files of the collection into an existing, empty directory.
    pub(super) fn write(&self, to: &Path) -> Result<()> {
        match &self.content {
            Content::Archive { path, manifest } => archive::unpack(path, manifest, to),
            Content::Tree(tree) => {
                tree.copy(to).map_err(|error| Error::new(format!("{} cannot be copied: {error}", tree.root.display())))
            }
        }
    }

    /// Collection in an archive.
    pub(super) fn archive(path: PathBuf, source: String, temporary: Option<TempDir>) -> Result<Given> {
        let manifest = archive::read(&path)?;
        Ok(Given {
            content: Content::Archive { path, manifest },
            source,
            commit: None,
            _temporary: temporary.map(Rc::new),
        })
    }
}

/// Fetches what a requirement names; nothing for a published collection.
pub(super) fn fetch(
    requirement: &Requirement,
    commit: Option<&str>,
    common: &Common,
    galaxy: &Galaxy,
) -> Result<Vec<Given>> {
    match requirement {
        Requirement::Published { .. } => Ok(Vec::new()),
        Requirement::Archive { path, .. } => Ok(vec![Given::archive(path.clone(), path.display().to_string(), None)?]),
        Requirement::Directory(path) => {
            let content = Content::Tree(Tree::read(path, galaxy)?);
            Ok(vec![Given { content, source: path.display().to_string(), commit: None, _temporary: None }])
        }
        Requirement::Url { url, .. } => {
            let servers: Servers = galaxy.servers(&Common { token: None, ..common.clone() })?;
            let temporary = fetch::temporary()?;
            let path = temporary.path().join("collection.tar.gz");
            galaxy.say(&format!("Downloading {url} to {}", path.display()));
            servers.first()?.download(url, &path)?;
            Ok(vec![Given::archive(path, url.clone(), Some(temporary))?])
        }
        Requirement::Git { url, version, folder } => {
            let check_certificates = galaxy.servers(common)?.first()?.check_certificates;
            let version = commit.or(version.as_deref());
            let Checkout { temporary, clone, commit } = fetch::checkout(url, version, check_certificates)?;
            let found = match folder {
                Some(folder) if super::manifest::is_relative(folder) => collections_in(&clone.join(folder), url)?,
                Some(folder) => return Err(Error::new(format!("`{}` is not below {url}", folder.display()))),
                None => collections_in(&clone, url)?,
            };
            let temporary = Rc::new(temporary);
            let given = |folder: &PathBuf| {
                Ok(Given {
                    content: Content::Tree(Tree::read(folder, galaxy)?),
                    source: url.clone(),
                    commit: Some(commit.clone()),
                    _temporary: Some(Rc::clone(&temporary)),
                })
            };
            found.iter().map(given).collect()
        }
    }
}
