//! Names that the last check found, for completion, hover and definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use windlass_inventory::Inventory;
use windlass_yaml::Span;

use crate::lint::{Index, Spot};

/// Groups and hosts, each with the place that names it first, if it is in a file.
pub(super) type Inventoried = BTreeMap<String, Option<Spot>>;

/// Names of all projects with open documents.
#[derive(Debug, Default)]
pub(super) struct Names {
    indexes: BTreeMap<PathBuf, Index>,
    /// Groups and hosts of the inventory.
    pub(super) inventory: Inventoried,
    /// Variables that the inventory's own files set.
    pub(super) inventory_variables: BTreeSet<String>,
    /// Names of modules of the projects and of the settings.
    pub(super) modules: BTreeSet<String>,
    /// Roles in the directories of `roles_path`.
    pub(super) roles: BTreeMap<String, PathBuf>,
}

impl Names {
    /// Replaces the names of projects, or if they are incomplete, adds the names of projects that have none.
    pub(super) fn update(&mut self, indexes: Vec<(PathBuf, Index)>, are_complete: bool) {
        for (root, index) in indexes {
            if are_complete || !self.indexes.contains_key(&root) {
                self.indexes.insert(root, index);
            }
        }
    }

    /// Forgets projects in which no document is open.
    pub(super) fn keep_only(&mut self, is_used: impl Fn(&Path) -> bool) {
        self.indexes.retain(|root, _| is_used(root));
    }

    /// Names of the project that contains a path.
    pub(super) fn of(&self, path: Option<&Path>) -> Option<&Index> {
        let containing = self.indexes.iter().filter(|(root, _)| path.is_some_and(|path| path.starts_with(root)));
        containing.max_by_key(|(root, _)| root.components().count()).map(|(_, index)| index)
    }

    /// Directory of a role, by its name or the last part of its qualified name.
    pub(super) fn role(&self, path: Option<&Path>, name: &str) -> Option<&Path> {
        let short = if name.contains('/') { name } else { name.rsplit('.').next().unwrap_or(name) };
        let project = self.of(path).map(|index| &index.roles);
        let roles = project.into_iter().chain([&self.roles]);
        roles.flat_map(|roles| roles.get(name).or_else(|| roles.get(short))).next().map(PathBuf::as_path)
    }
}

/// Names of hosts and groups.
pub(super) fn of_inventory(inventory: &Inventory) -> Inventoried {
    let hosts = inventory.hosts().map(|host| (host.name().to_string(), host.span()));
    let groups = inventory.groups().map(|group| (group.name().to_string(), group.span()));
    hosts.chain(groups).map(|(name, span)| (name.clone(), spot(&name, span))).collect()
}

/// Names of variables that the inventory's own files set, which are not part of a project's names.
pub(super) fn variables_of(inventory: &Inventory) -> BTreeSet<String> {
    inventory.variables().flat_map(|variables| variables.keys()).map(windlass_yaml::Key::to_text).collect()
}

fn spot(name: &str, span: &Span) -> Option<Spot> {
    let (line, start) = (span.line.checked_sub(1)?, span.column.checked_sub(1)?);
    let length = u32::try_from(name.encode_utf16().count()).ok()?;
    let path = crate::paths::absolute(Path::new(&span.source.name));
    Some(Spot { path, line, start, end: start + length, text: String::new() })
}

/// Roles in directories, which are the entries with tasks or metadata.
pub(super) fn roles_in(folders: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    const MOST: usize = 5_000;
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let roles = entries
        .take(MOST)
        .map(|entry| entry.path())
        .filter(|path| ["tasks", "meta", "handlers", "defaults"].iter().any(|part| path.join(part).is_dir()));
    roles.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect()
}
