use std::io::ErrorKind;

use super::{Task, show, state_diff, state_of};
use crate::{Failure, Plan, process::reason};

/// Removes what is there, a directory with all it holds.
pub(super) fn plan(task: Task) -> Result<Plan, Failure> {
    let path = task.path;
    let now = state_of(&path);
    let shown = show(&path);
    if now == "absent" {
        return Ok(Plan::unchanged().with("path", shown).with("state", "absent"));
    }
    let diff = state_diff(&path, now, "absent");
    let plan = Plan::change(move |_host, _outcome| {
        let removed = if now == "directory" { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let what = if now == "directory" { "rmtree failed" } else { "unlinking failed" };
                Err(Failure::new(format!("{what}: {} could not be removed: {}.", path.display(), reason(&error)))
                    .with("path", show(&path)))
            }
            _ => Ok(()),
        }
    });
    Ok(plan.with("path", shown).with("state", "absent").with_diff(diff))
}
