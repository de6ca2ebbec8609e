//! `windlass galaxy collection verify`: compares installed files with the manifest.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::install::{Request, download};
use super::installed::Installed;
use super::manifest::{FILES, MANIFEST, Manifest, file_sha256, sha256};
use super::requirement::Requirement;
use super::signature::Signatures;
use crate::cli::galaxy::server::Servers;
use crate::cli::galaxy::state::{Common, Galaxy};
use crate::error::{Error, Result};

/// Where and how collections are verified.
pub(super) struct Verifier<'a> {
    pub(super) galaxy: &'a Galaxy,
    pub(super) common: &'a Common,
    pub(super) servers: Servers,
    pub(super) roots: Vec<PathBuf>,
    /// Compare with the installed manifest, and not with that of the server.
    pub(super) offline: bool,
    pub(super) ignore_errors: bool,
    pub(super) signatures: Signatures<'a>,
}

impl Verifier<'_> {
    /// Verifies collections. Returns whether all are as published.
    pub(super) fn verify(&self, requirements: &[Requirement]) -> Result<bool> {
        let mut is_good = true;
        for requirement in requirements {
            match self.one(requirement) {
                Ok(verified) => is_good &= verified,
                Err(error) if self.ignore_errors => {
                    is_good = false;
                    self.galaxy.printer.warning(&format!("Failed to verify a collection: {}", error.message()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(is_good)
    }

    fn one(&self, requirement: &Requirement) -> Result<bool> {
        let Requirement::Published { name, range, signatures, .. } = requirement else {
            return Err(Error::new("only installed collections can be verified; name them as NAMESPACE.NAME"));
        };
        let found = self.roots.iter().find_map(|root| Installed::find(root, name, self.galaxy));
        let Some(installed) = found else {
            return Err(Error::new(format!("Collection {name} is not installed in any of the collection paths.")));
        };
        let shown = format!("{name}:{}", installed.version_text());
        self.galaxy.say(&format!("Verifying '{shown}'."));
        self.galaxy.say(&format!("Installed collection found at '{}'", installed.folder.display()));
        if !range.contains(installed.version.as_ref()) {
            let (version, wanted) = (installed.version_text(), &range.text);
            self.galaxy.say(&format!("{name} has the version '{version}' but is being compared to '{wanted}'"));
            return Ok(false);
        }
        let (manifest, of_server) = match self.offline {
            true => (installed.manifest()?, Vec::new()),
            false => self.remote(requirement, &installed)?,
        };
        // Without a server, there are only those that are given.
        self.signatures.verify(name, &manifest.manifest, &of_server, signatures, self.servers.first()?)?;
        self.galaxy.say(&format!("{MANIFEST} hash: {}", manifest.sha256()));
        let changed = differences(&manifest, &installed.folder)?;
        if !changed.is_empty() {
            self.galaxy.say(&format!("Collection {name} contains modified content in the following files:"));
            changed.iter().for_each(|path| self.galaxy.say(&format!("    {}", path.display())));
            return Ok(false);
        }
        let agreement =
            if self.offline { "are internally consistent with its manifest" } else { "match the remote collection" };
        self.galaxy.say(&format!("Successfully verified that checksums for '{shown}' {agreement}."));
        Ok(true)
    }

    /// Manifest of the same version on its server, and its signatures there.
    fn remote(&self, requirement: &Requirement, installed: &Installed) -> Result<(Manifest, Vec<String>)> {
        let Some(version) = &installed.version else {
            return Err(Error::new(format!("the installed {} has no version to look for", installed.name)));
        };
        let request = Request::new(std::slice::from_ref(requirement), None, self.common, self.galaxy)?;
        let (resolution, _) = request.resolution(&self.servers);
        let manifest = download(&installed.name, version, &resolution, self.galaxy)?.manifest().clone();
        Ok((manifest, resolution.published(&installed.name, version)?.signatures))
    }
}

/// Files that differ from the manifest, are missing, or are not listed.
pub(super) fn differences(manifest: &Manifest, folder: &Path) -> Result<Vec<PathBuf>> {
    let own = [(MANIFEST, &manifest.manifest), (FILES, &manifest.files)];
    let own = own.map(|(name, content)| (PathBuf::from(name), Some(sha256(content))));
    let listed = manifest.entries.iter().map(|entry| (entry.path.clone(), entry.sha256.clone()));
    let listed: BTreeMap<PathBuf, Option<String>> = own.into_iter().chain(listed).collect();
    let mut changed = Vec::new();
    for (path, wanted) in &listed {
        let full = folder.join(path);
        let is_same = match wanted {
            None => full.is_dir(),
            Some(wanted) => full.is_file() && file_sha256(&full).is_ok_and(|found| found == *wanted),
        };
        if !is_same {
            changed.push(path.clone());
        }
    }
    let known: HashSet<&Path> = listed.keys().map(PathBuf::as_path).collect();
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be read: {error}", folder.display()));
    added(folder, Path::new(""), &known, &mut changed).map_err(fail)?;
    Ok(changed)
}

fn added(root: &Path, folder: &Path, known: &HashSet<&Path>, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut names: Vec<_> = std::fs::read_dir(root.join(folder))?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let (path, full) = (folder.join(&name), root.join(folder).join(&name));
        if !known.contains(path.as_path()) {
            found.push(path);
        } else if full.is_dir() && !full.is_symlink() {
            added(root, &path, known, found)?;
        }
    }
    Ok(())
}
