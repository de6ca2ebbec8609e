//! Creates directories with their parents.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{
    attributes::{Attributes, Change, diff_of, with_changes},
    info::describe,
    way,
};
use crate::{Diff, Failure, Plan, process::reason};

/// Creates a directory and its parents with these attributes, or sets the attributes of an existing directory.
pub fn plan(path: &Path, attributes: &Attributes) -> Result<Plan, Failure> {
    let path = path.to_owned();
    if path.is_dir() {
        let changes = attributes.changes(&path, way::Link::Follow)?;
        if changes.is_empty() {
            return Ok(Plan::unchanged());
        }
        let (diff, attributes) = (diff_of(&path, &changes), attributes.clone());
        return Ok(
            Plan::change(move |_host, _outcome| attributes.apply(&path, way::Link::Follow).map(drop)).with_diff(diff)
        );
    }
    let attributes = attributes.clone();
    let side = |state: &str| serde_json::json!({ "path": path.display().to_string(), "state": state });
    let diff = Diff { before: side("absent"), after: side("directory"), ..Diff::default() };
    let plan = Plan::change(move |_host, outcome| {
        let changes = make(&path, &attributes)?;
        // The attributes of a new directory are known only now; they belong to the difference too.
        for diff in &mut outcome.diff {
            *diff = with_changes(std::mem::take(diff), &changes);
        }
        outcome.data.extend(describe(&path));
        Ok(())
    });
    Ok(plan.with_diff(diff))
}

/// Creates the missing directories of a path and sets the attributes of the new ones. Returns the attribute changes,
/// the last ones if there were several directories, including an inherited group.
pub fn make(path: &Path, attributes: &Attributes) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    let mut missing: Vec<PathBuf> = Vec::new();
    for part in path.ancestors() {
        if part.as_os_str().is_empty() || part.is_dir() {
            break;
        }
        missing.push(part.to_owned());
    }
    for part in missing.into_iter().rev() {
        match way::create_dir(&part, 0o777) {
            Ok(()) => {
                let new = attributes.apply(&part, way::Link::NoFollow)?;
                changes.retain(|old: &Change| new.iter().all(|new| new.name != old.name));
                changes.extend(new);
            }
            // Another process created the directory first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && part.is_dir() => {}
            Err(error) => {
                let (part, path) = (part.display(), path.display().to_string());
                let text = format!("There was an issue creating {part} as requested: {}.", reason(&error));
                return Err(Failure::new(text).with("path", path));
            }
        }
    }
    Ok(changes)
}
