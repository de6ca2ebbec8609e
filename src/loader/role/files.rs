//! Finds roles and their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_template::Read;
use windlass_yaml::Mapping;

use super::RoleRequest;
use crate::error::{Error, Result, nearest};
use crate::loader::load::Loader;
use crate::paths::without_parents;
use crate::playbook::Role;

impl Loader {
    /// Directory of a role. It is searched in its named collection, in the given `collections`, and in the search path
    /// for roles.
    pub(super) fn find_role(
        &self,
        request: &RoleRequest,
        parent: Option<&Arc<Role>>,
        collections: &[String],
    ) -> Result<PathBuf> {
        let name = &request.name;
        let mut folders = vec![request.playbook_dir.join("roles")];
        folders.extend(self.world.run.settings.code.roles_path.iter().cloned());
        let beside = request.beside.as_deref().or_else(|| parent.and_then(|role| role.path.parent()));
        folders.extend(beside.map(Path::to_owned));
        folders.push(request.playbook_dir.clone());
        let parts: Vec<&str> = name.split('.').collect();
        let places: Vec<(&str, &str, &str)> = match parts[..] {
            [namespace, collection, role] => vec![(namespace, collection, role)],
            [role] if !role.contains('/') => {
                let named = collections.iter().filter_map(|collection| collection.split_once('.'));
                named.map(|(namespace, collection)| (namespace, collection, role)).collect()
            }
            _ => Vec::new(),
        };
        for (namespace, collection, role) in places {
            let inside = |folder: &PathBuf| {
                folder.join("ansible_collections").join(namespace).join(collection).join("roles").join(role)
            };
            if let Some(path) = self.collections_path.iter().map(inside).find(|path| path.is_dir()) {
                return Ok(path);
            }
        }
        let candidates = folders.iter().map(|folder| without_parents(&folder.join(name)));
        let found = self.files.reads().first(candidates, Path::is_dir);
        // A role behind a link is named by its own path, as in Ansible.
        let found = found.map(|path| path.canonicalize().unwrap_or(path));
        found.ok_or_else(|| {
            let shown: Vec<_> =
                folders.iter().map(|folder| crate::paths::absolute(folder).display().to_string()).collect();
            let existing: Vec<String> = folders.iter().flat_map(|folder| names_in(folder)).collect();
            // Roles of one author share what stands before the dot.
            let limit = name.rsplit('.').next().unwrap_or(name).chars().count() / 3;
            let hint = nearest(name, limit, existing.iter().map(String::as_str)).map(|hint| format!("{hint} "));
            Error::parse(format!("the role '{name}' was not found"), &request.span).generic().hint(format!(
                "{}searched in {}",
                hint.unwrap_or_default(),
                shown.join(":")
            ))
        })
    }

    /// Variables from `defaults/` or `vars/`: one main file, or a directory of that name whose files are merged.
    pub(super) fn role_variables(
        &self,
        path: &Path,
        kind: &str,
        from_file: Option<&str>,
        request: &RoleRequest,
    ) -> Result<Arc<Mapping>> {
        let folder = path.join(kind);
        let whole = folder.join("main");
        if from_file.is_none() && whole.is_dir() {
            let mut merged = Mapping::new();
            self.files.reads().note(Read::Folder(whole.clone()));
            for file in variable_files(&whole) {
                for (key, node) in self.files.variables(&file)?.iter() {
                    merged.insert(key.clone(), node.clone());
                }
            }
            return Ok(Arc::new(merged));
        }
        match (main_file(&folder, from_file), from_file) {
            (Some(file), _) => self.files.variables(&file),
            (None, Some(name)) => {
                Err(Error::parse(format!("Could not find specified file in role: {kind}/{name}"), &request.span))
            }
            (None, None) => Ok(Arc::default()),
        }
    }
}

/// Whether a name stays inside the directory.
pub(super) fn is_inside(folder: &Path, name: &str) -> bool {
    let mut depth = 0;
    let path = Path::new(name);
    let Ok(within) = path.strip_prefix(folder).or(if path.is_absolute() { Err(()) } else { Ok(path) }) else {
        return false;
    };
    within.components().all(|part| {
        depth += match part {
            std::path::Component::Normal(_) => 1,
            std::path::Component::ParentDir => -1,
            _ => 0,
        };
        depth >= 0
    })
}

/// The main file in a role's directory, or the file called `name`.
pub(super) fn main_file(folder: &Path, name: Option<&str>) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = match name {
        None => ["main.yml", "main.yaml", "main.json", "main"].iter().map(|name| folder.join(name)).collect(),
        Some(name) => {
            ["", ".yml", ".yaml", ".json"].iter().map(|extension| folder.join(format!("{name}{extension}"))).collect()
        }
    };
    candidates.into_iter().find(|path| path.is_file())
}

fn variable_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        if path.is_dir() {
            files.extend(variable_files(&path));
        } else if matches!(
            path.extension().and_then(|extension| extension.to_str()),
            Some("yml" | "yaml" | "json") | None
        ) {
            files.push(path);
        }
    }
    files
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
