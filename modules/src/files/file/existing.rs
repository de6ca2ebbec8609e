//! `state: file`, `touch` and `directory` of `file`: owner, permissions and times, with `recurse` of a whole tree.

use std::path::{Path, PathBuf};

use super::{Task, directory, link::description, show, state_diff, state_of};
use crate::{
    Diff, Failure, Host, Plan,
    files::{
        attributes::{diff_of, with_changes},
        info::describe,
        staged::FRESH_FILE,
        way::{self, Link, Place},
    },
    process::reason,
};

/// Sets the attributes of an existing file.
pub(super) fn plan_file(task: Task) -> Result<Plan, Failure> {
    let path = followed(&task);
    let now = state_of(&path);
    if !matches!(now, "file" | "hard") {
        let shown = show(&path);
        return Err(Failure::new(format!("file ({shown}) is {now}, cannot continue"))
            .with("path", shown)
            .with("state", now));
    }
    Ok(plan_attributes(&task, &path, Link::Follow, state_diff(&path, now, now))?.with("path", show(&path)))
}

/// Creates an empty file, or sets the times of an existing one.
pub(super) fn plan_touch(task: Task) -> Result<Plan, Failure> {
    let shown = show(&task.path);
    let now = state_of(&task.path);
    let diff = state_diff(&task.path, now, "touch");
    if now != "absent" {
        return Ok(plan_attributes(&task, &followed(&task), Link::follow_if(task.follow), diff)?.with("dest", shown));
    }
    let diff = with_changes(diff, &task.attributes.changes_of_fresh()?);
    let plan = Plan::change(move |_host, outcome| {
        let path = &task.path;
        let refuse = |reason: String| {
            Failure::new(format!("Error, could not touch target: {}: {reason}.", show(path))).with("path", show(path))
        };
        let made = Place::to_write(path, Link::NoFollow).and_then(|place| place.create_new(FRESH_FILE));
        let file = made.map_err(|error| refuse(reason(&error)))?;
        let done = task.attributes.apply_to(&file, path).and_then(|_| task.times.apply(path, Link::Follow));
        if let Err(failure) = done {
            // The file was new and does not match the request.
            let _ = way::remove_file(path);
            return Err(failure);
        }
        outcome.data.extend(describe(path));
        Ok(())
    });
    Ok(plan.with("dest", shown).with_diff(diff))
}

/// Creates a directory with its parents, or sets the attributes of an existing one.
pub(super) fn plan_directory(task: Task, host: &Host) -> Result<Plan, Failure> {
    let path = followed(&task);
    match state_of(&path) {
        "absent" => {
            let times = task.times;
            let shown = show(&path);
            let plan = directory::plan(&path, &task.attributes)?.with("path", shown);
            Ok(plan.and_then(move |_host, outcome| {
                times.apply(&path, Link::Follow)?;
                outcome.data.extend(describe(&path));
                Ok(())
            }))
        }
        "directory" if task.recurse => plan_tree(task, path, host),
        "directory" => {
            let plan = plan_attributes(&task, &path, Link::Follow, state_diff(&path, "directory", "directory"))?;
            Ok(plan.with("path", show(&path)))
        }
        now => {
            let shown = show(&path);
            Err(Failure::new(format!("{shown} already exists as a {now}")).with("path", shown))
        }
    }
}

/// Sets attributes and times of one existing path, and adds them to the difference.
pub(super) fn plan_attributes(task: &Task, path: &Path, link: Link, diff: Diff) -> Result<Plan, Failure> {
    let mut changes = task.attributes.changes(path, link)?;
    let found = if link == Link::Follow { path.metadata() } else { path.symlink_metadata() };
    changes.extend(found.map(|found| task.times.changes(&found)).unwrap_or_default());
    let data = description(path);
    let diff = with_changes(diff, &changes);
    if changes.is_empty() {
        return Ok(Plan::unchanged().with_all(data).with_diff(diff));
    }
    let (attributes, times, path) = (task.attributes.clone(), task.times, path.to_owned());
    let plan = Plan::change(move |_host, outcome| {
        attributes.apply(&path, link)?;
        times.apply(&path, link)?;
        outcome.data.extend(description(&path));
        Ok(())
    });
    Ok(plan.with_all(data).with_diff(diff))
}

/// Sets attributes and times of a directory and everything in it.
fn plan_tree(task: Task, top: PathBuf, host: &Host) -> Result<Plan, Failure> {
    let mut changed = Vec::new();
    let mut first = None;
    let mut seen = Seen::default();
    walk(&top, &task, host, &mut seen, &mut |path, link| {
        let changes = task.attributes.changes(path, link)?;
        let found = if link == Link::Follow { path.metadata() } else { path.symlink_metadata() };
        if !changes.is_empty() || found.is_ok_and(|found| task.times.differ(&found)) {
            first.get_or_insert_with(|| diff_of(path, &changes));
            changed.push((path.to_owned(), link));
        }
        Ok(())
    })?;
    let (shown, data) = (show(&top), describe(&top));
    let warned = |plan: Plan| seen.refused.iter().fold(plan, |plan, text| plan.with_warning(text.as_str()));
    let Some(diff) = first else { return Ok(warned(Plan::unchanged().with("path", shown).with_all(data))) };
    let plan = Plan::change(move |host, outcome| {
        for (path, link) in &changed {
            host.check_cancelled()?;
            // A file that was removed meanwhile needs no attributes.
            if path.symlink_metadata().is_ok() {
                task.attributes.apply(path, *link)?;
                task.times.apply(path, *link)?;
            }
        }
        outcome.data.extend(describe(&top));
        Ok(())
    });
    Ok(warned(plan.with("path", shown).with_all(data).with_diff(diff)))
}

/// Visited directories, and links that were skipped.
#[derive(Default)]
struct Seen {
    nodes: std::collections::HashSet<(u64, u64)>,
    refused: Vec<String>,
}

type Visit<'a> = dyn FnMut(&Path, Link) -> Result<(), Failure> + 'a;

fn walk(path: &Path, task: &Task, host: &Host, seen: &mut Seen, visit: &mut Visit<'_>) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    host.check_cancelled()?;
    if path.is_symlink() {
        if !task.follow {
            return visit(path, Link::NoFollow);
        }
        return match Place::to_write(path, Link::Follow) {
            Ok(place) if place.node().is_some() => walk(place.real(), task, host, seen, visit),
            // Otherwise a user could obtain ownership of any file by a link in their own directory.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                seen.refused.push(format!("{} was left alone: {}.", path.display(), reason(&error)));
                Ok(())
            }
            _ => Ok(()),
        };
    }
    let refuse =
        |error: std::io::Error| Failure::new(format!("{} could not be read: {}.", path.display(), reason(&error)));
    let found = path.symlink_metadata().map_err(refuse)?;
    // Links may form a loop.
    if !seen.nodes.insert((found.dev(), found.ino())) {
        return Ok(());
    }
    if found.is_dir() {
        let mut children: Vec<PathBuf> =
            list(path).map_err(refuse)?.filter_map(Result::ok).map(|entry| path.join(entry.file_name())).collect();
        children.sort();
        for child in children {
            walk(&child, task, host, seen, visit)?;
        }
    }
    // A directory comes after its content, which may be unreachable once its permissions are set.
    visit(path, Link::Follow)
}

fn list(path: &Path) -> std::io::Result<std::fs::ReadDir> {
    std::fs::read_dir(way::handle(&Place::to_write(path, Link::NoFollow)?.open()?))
}

/// The target of a link, if links are followed.
fn followed(task: &Task) -> PathBuf {
    match Place::to_write(&task.path, Link::Follow) {
        Ok(place) if task.follow && task.path.is_symlink() && place.node().is_some() => place.real().to_owned(),
        _ => task.path.clone(),
    }
}
