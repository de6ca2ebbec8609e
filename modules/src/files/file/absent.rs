//! `state: absent` of `file`.

use std::{io::ErrorKind, path::Path};

use serde_json::json;

use super::{Task, show, state_diff, state_of};
use crate::{
    Failure, Host, Plan,
    files::{info::describe, way},
    process::reason,
};

/// Removes the file, or a directory with its content.
pub(super) fn plan(task: Task, host: &Host) -> Result<Plan, Failure> {
    let path = task.path;
    let now = state_of(&path);
    let shown = show(&path);
    if now == "absent" {
        return Ok(Plan::unchanged().with("path", shown).with("state", "absent"));
    }
    let mut diff = state_diff(&path, now, "absent");
    if let (true, Some(before)) = (now == "directory" && host.diff(), diff.before.as_object_mut()) {
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        list(&path, host, &mut directories, &mut files)?;
        before.insert("path_content".into(), json!({ "directories": directories, "files": files }));
    }
    let described = describe(&path);
    let plan = Plan::change(move |_host, _outcome| {
        let removed = if now == "directory" { way::remove_dir_all(&path) } else { way::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let what = if now == "directory" { "rmtree failed" } else { "unlinking failed" };
                Err(Failure::new(format!("{what}: {} could not be removed: {}.", path.display(), reason(&error)))
                    .with("path", show(&path)))
            }
            _ => Ok(()),
        }
    });
    let plan = plan.with("path", shown).with_diff(diff);
    // Check mode describes the existing file.
    Ok(if host.check() { plan.with_all(described) } else { plan.with("state", "absent") })
}

/// Lists everything that is removed with a directory.
fn list(folder: &Path, host: &Host, directories: &mut Vec<String>, files: &mut Vec<String>) -> Result<(), Failure> {
    host.check_cancelled()?;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            directories.push(show(&path));
            list(&path, host, directories, files)?;
        } else {
            files.push(show(&path));
        }
    }
    Ok(())
}
