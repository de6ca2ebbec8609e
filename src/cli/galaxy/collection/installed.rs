//! Installed collections.

use std::path::{Path, PathBuf};

use semver::Version;
use serde_json::Value;

use super::manifest::{FILES, MANIFEST, Manifest, dependencies};
use super::name::{Name, Range};
use super::tree;
use crate::cli::galaxy::state::Galaxy;
use crate::error::{Error, Result};

/// Directory below a collections path that has the namespaces.
const ROOT: &str = "ansible_collections";

/// An installed collection.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) name: Name,
    /// `None` if it is unknown.
    pub(super) version: Option<Version>,
    pub(super) dependencies: Vec<(Name, Range)>,
    pub(super) folder: PathBuf,
}

/// Directory `ansible_collections` of a collections path. The path itself may be that directory.
pub(super) fn root(path: &Path) -> PathBuf {
    if path.ends_with(ROOT) { path.to_owned() } else { path.join(ROOT) }
}

impl Installed {
    /// Collection in this directory.
    pub(super) fn find(root: &Path, name: &Name, galaxy: &Galaxy) -> Option<Installed> {
        let folder = root.join(&name.namespace).join(&name.name);
        folder.is_dir().then(|| Installed::read(folder, name, galaxy))
    }

    fn read(folder: PathBuf, name: &Name, galaxy: &Galaxy) -> Installed {
        let (version, dependencies) = match described(&folder, galaxy) {
            Ok((version, dependencies)) => (Some(version), dependencies),
            Err(error) => {
                let (place, reason) = (folder.display(), error.message());
                galaxy.printer.warning(&format!("Collection at '{place}' has no known version: {reason}"));
                (None, Vec::new())
            }
        };
        Installed { name: name.clone(), version, dependencies, folder }
    }

    /// The version, or `*` if it is unknown.
    pub(super) fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| "*".to_owned(), Version::to_string)
    }

    /// Reads both documents of the collection.
    pub(super) fn manifest(&self) -> Result<Manifest> {
        let read = |name: &str| {
            windlass_bounds::read(self.folder.join(name))
                .map_err(|error| Error::new(format!("{} of {} cannot be read: {error}", name, self.name)))
        };
        Manifest::parse(read(MANIFEST)?, read(FILES)?)
            .map_err(|error| Error::new(format!("{}: {}", self.folder.display(), error.message())))
    }
}

/// Version and dependencies of a built collection, or of a checkout with `galaxy.yml`.
fn described(folder: &Path, galaxy: &Galaxy) -> Result<(Version, Vec<(Name, Range)>)> {
    let path = folder.join(MANIFEST);
    let info = if !path.is_file() && tree::metadata(folder).is_some() {
        tree::description(folder, galaxy)?.0
    } else {
        let text =
            windlass_bounds::read(&path).map_err(|error| Error::new(format!("{MANIFEST} cannot be read: {error}")))?;
        let document: Value =
            serde_json::from_slice(&text).map_err(|error| Error::new(format!("{MANIFEST} is not valid: {error}")))?;
        document.get("collection_info").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let version = info.get("version").and_then(Value::as_str).and_then(|text| Version::parse(text).ok());
    let version = version.ok_or_else(|| Error::new("its `version` is missing or not a semantic version"))?;
    let listed = info.get("dependencies").and_then(Value::as_object).map(dependencies);
    Ok((version, listed.transpose()?.unwrap_or_default()))
}

/// Collections below a directory of namespaces, by name.
pub(super) fn all(root: &Path, galaxy: &Galaxy) -> Vec<Installed> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let mut found: Vec<Name> = Vec::new();
    for namespace in names(root) {
        let own = names(&root.join(&namespace));
        found.extend(own.iter().filter_map(|name| Name::parse(&format!("{namespace}.{name}"))));
    }
    found.sort();
    found.iter().filter_map(|name| Installed::find(root, name, galaxy)).collect()
}
