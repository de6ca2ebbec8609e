//! The lock file, which pins installed roles and collections exactly.

use std::path::Path;

use windlass_yaml::Node;
use windlass_yaml::emit::{DumpOptions, Item, dump};

use super::requirement::Requirement;
use super::state::Galaxy;
use crate::error::{Error, Result};
use crate::playbook::Files;

/// An installed role or collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// URL or path it came from.
    pub(super) src: String,
    pub(super) version: Option<String>,
    /// Commit, if it came from a git repository.
    pub(super) commit: Option<String>,
    /// SHA-256 over all files of a role, or of the `MANIFEST.json` of a collection.
    pub(super) sha256: String,
}

/// All installed roles and collections.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) roles: Vec<Entry>,
    pub(super) collections: Vec<Entry>,
}

impl Entry {
    pub(super) fn of(role: &Requirement, commit: Option<String>, sha256: String) -> Entry {
        Entry { name: role.name.clone(), src: role.src.clone(), version: role.version.clone(), commit, sha256 }
    }
}

/// Entry of this name. Fails if it is not locked.
pub(super) fn find<'a>(entries: &'a [Entry], name: &str) -> Result<&'a Entry> {
    let found = entries.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| Error::new(format!("{name} is not in the lock file; update it with --lock")))
}

/// Reason why fetched content differs from the lock file.
pub(super) const CHANGED: &str = "its source now has other content under that version";
/// Remedy for installed content that differs from the lock file.
pub(super) const STALE: &str = "reinstall it with --force";

/// Compares an entry with the lock file, if there is one. `hint` ends the error's sentence.
pub(super) fn check(locked: Option<&[Entry]>, entry: &Entry, hint: &str) -> Result<()> {
    match locked {
        Some(locked) if find(locked, &entry.name)?.sha256 != entry.sha256 => {
            Err(Error::new(format!("the content of {} differs from the lock file; {hint}", entry.name)))
        }
        _ => Ok(()),
    }
}

impl Lock {
    /// Reads a lock file.
    pub(super) fn read(path: &Path, files: &Files) -> Result<Lock> {
        if !path.is_file() {
            return Err(Error::new(format!("the lock file {} does not exist; create it with --lock", path.display())));
        }
        let node = files.yaml(path).map_err(Error::generic)?;
        Ok(Lock { roles: entries(&node, "roles")?, collections: entries(&node, "collections")? })
    }

    /// Writes the lock file, and prints its path.
    pub(super) fn write(self, path: &Path, galaxy: &Galaxy) -> Result<()> {
        let fail = |reason: String| Error::new(format!("the lock file {} cannot be written: {reason}", path.display()));
        let parts = [("roles", self.roles), ("collections", self.collections)];
        let parts = parts.into_iter().filter(|(_, entries)| !entries.is_empty());
        let document = Item::Map(parts.map(|(key, entries)| (Item::Str(key.to_owned()), items(entries))).collect());
        let options =
            DumpOptions { default_flow_style: Some(false), sort_keys: false, width: -1, ..DumpOptions::to_yaml() };
        let written = dump(&document, &options).map_err(|error| fail(error.to_string()))?;
        crate::replace::replace(path, &written, 0o644).map_err(|error| fail(error.to_string()))?;
        galaxy.say(&format!("The lock file {} was written", path.display()));
        Ok(())
    }
}

fn entries(node: &Node, key: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for item in node.get(key).and_then(Node::as_list).unwrap_or_default() {
        let field = |key: &str| item.get(key).and_then(Node::scalar_text);
        let (Some(name), Some(src), Some(sha256)) = (field("name"), field("src"), field("sha256")) else {
            let message = "an entry of a lock file needs `name`, `src` and `sha256`";
            return Err(Error::parse(message, &item.span).generic());
        };
        entries.push(Entry { name, src, version: field("version"), commit: field("commit"), sha256 });
    }
    Ok(entries)
}

fn items(mut entries: Vec<Entry>) -> Item {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let text = |text: &str| Item::Str(text.to_owned());
    let items = entries.iter().map(|entry| {
        let fields = [
            ("name", Some(&entry.name)),
            ("src", Some(&entry.src)),
            ("version", entry.version.as_ref()),
            ("commit", entry.commit.as_ref()),
            ("sha256", Some(&entry.sha256)),
        ];
        Item::Map(fields.into_iter().filter_map(|(key, value)| Some((text(key), text(value?)))).collect())
    });
    Item::List(items.collect())
}
