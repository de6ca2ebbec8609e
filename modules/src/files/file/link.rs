//! `state: link` and `hard` of `file`. A link is renamed into place, so that its path is never missing.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, linkat, symlinkat};

use super::{Task, existing::plan_attributes, show, state_diff, state_of};
use crate::{
    Diff, Failure, Host, Map, Plan,
    files::{
        info::describe,
        scratch::random_name,
        staged::directory_of,
        way::{self, Link, Place},
    },
    process::reason,
};

/// Creates a symbolic link.
pub(super) fn plan_symbolic(mut task: Task, host: &Host) -> Result<Plan, Failure> {
    let now = state_of(&task.path);
    let shown = show(&task.path);
    let refuse = |text: String| Failure::new(text).with("path", shown.clone());
    let old = std::fs::read_link(&task.path).ok();
    if task.src.is_none() && task.follow {
        task.src = old.as_deref().map(show);
    }
    let mut warning = None;
    if let Some(src) = &task.src
        && !task.force
    {
        let base = if now == "directory" { &task.path } else { directory_of(&task.path) };
        let full = base.join(src);
        if !full.exists() {
            let sentence = format!(
                "src file does not exist, use 'force=yes' if you really want to create the link: {}",
                full.display()
            );
            if !host.dry_run() {
                return Err(refuse(sentence).with("src", src.as_str()));
            }
            warning = Some(format!("{sentence}. An earlier task may be about to make it, so check mode goes on."));
        }
    }
    match now {
        "directory" if !task.force => {
            return Err(refuse(format!("refusing to convert from directory to symlink for {shown}")));
        }
        "directory" if std::fs::read_dir(&task.path).is_ok_and(|mut entries| entries.next().is_some()) => {
            return Err(refuse(format!("the directory {shown} is not empty, refusing to convert it")));
        }
        "file" | "hard" if !task.force => {
            return Err(refuse(format!("refusing to convert from {now} to symlink for {shown}")));
        }
        _ => {}
    }
    if task.src.is_none() && now != "link" {
        return Err(refuse("src is required for creating new symlinks".to_owned()));
    }
    let src = task.src.clone();
    let same = now == "link" && (src.is_none() || old.as_deref() == src.as_deref().map(Path::new));
    let with_keys = |plan: Plan| {
        let plan = plan.with("dest", shown.clone());
        let plan = if let Some(src) = &src { plan.with("src", src.as_str()) } else { plan };
        if let Some(warning) = warning { plan.with_warning(warning) } else { plan }
    };
    let mut diff = state_diff(&task.path, now, "link");
    if same {
        return match attribute_target(&task)? {
            Some((path, link)) => {
                Ok(with_keys(plan_attributes(&task, &path, link, diff)?.with_all(description(&task.path))))
            }
            None => Ok(with_keys(Plan::unchanged().with_all(description(&task.path)))),
        };
    }
    add_targets(&mut diff, old.as_deref(), src.as_deref());
    let target = src.clone().unwrap_or_default();
    let replaced = replaced(&task.path, host);
    let plan = Plan::change(move |host, outcome| {
        if now == "directory" {
            way::remove_dir(&task.path).map_err(|error| replacing(&task.path, &error))?;
        }
        make_symbolic(&target, &task.path)?;
        match attribute_target(&task)? {
            Some((path, link)) => {
                task.attributes.apply(&path, link)?;
                task.times.apply(&path, link)?;
            }
            None => host.warn("Cannot set fs attributes on a non-existent symlink target. follow should be set to False to avoid this."),
        }
        outcome.data.extend(description(&task.path));
        Ok(())
    });
    Ok(with_keys(plan.with_all(replaced).with_diff(diff)))
}

/// Creates a hard link.
pub(super) fn plan_hard(task: Task, host: &Host) -> Result<Plan, Failure> {
    let now = state_of(&task.path);
    let shown = show(&task.path);
    let refuse = |text: &str| {
        let failure = Failure::new(text).with("dest", shown.clone());
        if let Some(src) = &task.src { failure.with("src", src.as_str()) } else { failure }
    };
    let Some(src) = task.src.clone() else {
        if now != "hard" {
            return Err(refuse("src is required for creating new hardlinks"));
        }
        let plan = plan_attributes(&task, &task.path, Link::Follow, state_diff(&task.path, now, now))?;
        return Ok(plan.with("dest", shown).with("src", serde_json::Value::Null));
    };
    let Ok(source) = Path::new(&src).metadata() else { return Err(refuse("src does not exist")) };
    let same =
        task.path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == (source.dev(), source.ino()));
    if same {
        let plan = plan_attributes(&task, &task.path, Link::Follow, state_diff(&task.path, now, "hard"))?;
        return Ok(plan.with("dest", shown).with("src", src));
    }
    match now {
        "hard" if !task.force => return Err(refuse("Cannot link, different hard link exists at destination")),
        "file" if !task.force => return Err(refuse("Cannot link, file exists at destination")),
        "directory" => return Err(refuse("Cannot link, directory exists at destination")),
        _ => {}
    }
    let mut diff = state_diff(&task.path, now, "hard");
    add_targets(&mut diff, std::fs::read_link(&task.path).ok().as_deref(), Some(&src));
    let (source, replaced) = (src.clone(), replaced(&task.path, host));
    let plan = Plan::change(move |_host, outcome| {
        replace(&task.path, |temporary| {
            let real = Place::to_write(Path::new(&source), Link::Follow)?;
            let (from, to) = (real.directory(), temporary.directory());
            Ok(linkat(from, real.name(), to, temporary.name(), AtFlags::empty())?)
        })?;
        task.attributes.apply(&task.path, Link::Follow)?;
        task.times.apply(&task.path, Link::Follow)?;
        outcome.data.extend(describe(&task.path));
        Ok(())
    });
    Ok(plan.with_all(replaced).with("dest", shown.clone()).with("src", src).with_diff(diff))
}

/// Adds the old and new target of a link to the difference.
fn add_targets(diff: &mut Diff, old: Option<&Path>, new: Option<&str>) {
    let Some(old) = old else { return };
    for (side, target) in [(&mut diff.before, Some(show(old))), (&mut diff.after, new.map(str::to_owned))] {
        if let (Some(side), Some(target)) = (side.as_object_mut(), target) {
            side.insert("src".into(), target.into());
        }
    }
}

/// Check mode describes the path that would be replaced.
fn replaced(path: &Path, host: &Host) -> Map {
    if host.check() { description(path) } else { Map::new() }
}

/// Result keys of a path; empty for a dangling link.
pub(super) fn description(path: &Path) -> Map {
    if path.exists() { describe(path) } else { Map::new() }
}

/// Creates a symbolic link, replacing any other file.
pub(in crate::files) fn make_symbolic(target: &str, path: &Path) -> Result<(), Failure> {
    replace(path, |temporary| Ok(symlinkat(target, temporary.directory(), temporary.name())?))
}

/// Creates an entry beside a path and renames it, so that the path is never missing.
fn replace(path: &Path, make: impl Fn(&Place) -> io::Result<()>) -> Result<(), Failure> {
    let made = (|| {
        let place = Place::to_write(path, Link::NoFollow)?;
        let temporary = place.sibling(format!(".windlass-{}.tmp", random_name()?).as_ref())?;
        make(&temporary)?;
        temporary.rename_to(&place).inspect_err(|_| {
            let _ = temporary.unlink();
        })
    })();
    made.map_err(|error| replacing(path, &error))
}

fn replacing(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("Error while linking {}: {}.", path.display(), reason(error))).with("path", show(path))
}

/// The path that gets the attributes: the link, or its target if that exists.
fn attribute_target(task: &Task) -> Result<Option<(PathBuf, Link)>, Failure> {
    if !task.follow {
        return Ok(Some((task.path.clone(), Link::NoFollow)));
    }
    match Place::to_write(&task.path, Link::Follow) {
        Ok(place) => Ok(place.node().is_some().then(|| (place.real().to_owned(), Link::Follow))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let path = show(&task.path);
            Err(Failure::new(format!("{path} cannot be examined: {}.", reason(&error))).with("path", path))
        }
        Err(_) => Ok(None),
    }
}
