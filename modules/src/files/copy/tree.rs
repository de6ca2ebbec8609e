//! Copies whole trees.

use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::Task;
use crate::{
    Failure, Host, Plan,
    files::{directory, file::make_symbolic, info::octal, mode::Mode, way, write::Source},
    process::reason,
};

/// An entry of a tree.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    path: PathBuf,
    kind: EntryKind,
    #[serde(default)]
    content: Option<usize>,
    #[serde(default)]
    mode: Option<Value>,
    #[serde(default)]
    target: Option<String>,
    /// Path of a file on the host itself.
    #[serde(skip)]
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EntryKind {
    Directory,
    File,
    Link,
}

/// Parses the tree that the controller sends.
pub(super) fn parse(entries: &Value) -> Result<Vec<Entry>, Failure> {
    let entries: Vec<Entry> = serde_json::from_value(entries.clone())
        .map_err(|error| Failure::new(format!("The tree that the controller sends cannot be read: {error}.")))?;
    for entry in &entries {
        if !entry.path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(Failure::new(format!("The entry {} leads out of the tree.", entry.path.display())));
        }
    }
    Ok(entries)
}

/// Reads the tree of a directory on the host. Without `inside`, the directory itself is part of it.
pub(super) fn read(top: &Path, inside: bool, follow: bool, host: &Host) -> Result<Vec<Entry>, Failure> {
    let start = if inside { PathBuf::new() } else { top.file_name().map(PathBuf::from).unwrap_or_default() };
    let mut reader = Reader { follow, host, entries: Vec::new(), above: Vec::new() };
    reader.directory(top, &start)?;
    Ok(reader.entries)
}

struct Reader<'a> {
    follow: bool,
    host: &'a Host,
    entries: Vec<Entry>,
    /// Directories around the one that is read, without links.
    above: Vec<PathBuf>,
}

impl Reader<'_> {
    fn directory(&mut self, directory: &Path, relative: &Path) -> Result<(), Failure> {
        self.host.check_cancelled()?;
        let refuse = |path: &Path, error: std::io::Error| {
            Failure::new(format!("{} could not be read: {}.", path.display(), reason(&error)))
        };
        let open = way::open(directory).map_err(|error| refuse(directory, error))?;
        let found = open.metadata().map_err(|error| refuse(directory, error))?;
        let entry = |path: &Path, kind, mode: u32| Entry {
            path: path.to_owned(),
            kind,
            content: None,
            mode: Some(octal(mode).into()),
            target: None,
            file: None,
        };
        if relative != Path::new("") {
            self.entries.push(entry(relative, EntryKind::Directory, found.mode()));
        }
        let listed = std::fs::read_dir(way::handle(&open)).map_err(|error| refuse(directory, error))?;
        let mut children: Vec<_> = listed.filter_map(Result::ok).map(|child| child.file_name()).collect();
        children.sort();
        self.above.push(directory.canonicalize().map_err(|error| refuse(directory, error))?);
        for name in children {
            let (path, relative) = (directory.join(&name), relative.join(&name));
            // A dangling link, or one to a parent directory, which would loop, stays a link.
            let leads_back = |real: PathBuf| self.above.iter().any(|directory| directory.starts_with(&real));
            if path.is_symlink() && (!self.follow || path.canonicalize().map_or(true, leads_back)) {
                let target = std::fs::read_link(&path).map_err(|error| refuse(&path, error))?;
                self.entries.push(Entry {
                    target: Some(target.display().to_string()),
                    ..entry(&relative, EntryKind::Link, 0o777)
                });
                continue;
            }
            let found = way::metadata(&path).map_err(|error| refuse(&path, error))?;
            if found.is_dir() {
                self.directory(&path, &relative)?;
            } else if found.is_file() {
                self.entries.push(Entry { file: Some(path), ..entry(&relative, EntryKind::File, found.mode()) });
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// The plan that makes `dest` match the tree.
pub(super) fn plan(task: &Task, entries: &[Entry], host: &Host) -> Result<Plan, Failure> {
    let top = PathBuf::from(&task.dest);
    if top.exists() && !top.is_dir() {
        return Err(Failure::new(format!(
            "{} is not a directory, so a directory cannot be copied to it.",
            top.display()
        )));
    }
    let mut plans = Vec::new();
    if !top.is_dir() {
        plans.push(directory::plan(&top, &task.directories)?);
    }
    for entry in entries {
        host.check_cancelled()?;
        let path = top.join(&entry.path);
        match entry.kind {
            EntryKind::Directory => plans.push(plan_directory(task, entry, &path)?),
            EntryKind::File => plans.push(plan_file(task, entry, &path, host)?),
            EntryKind::Link => plans.extend(plan_link(task, entry, &path)?),
        }
    }
    if task.delete {
        let kept: BTreeSet<&Path> = entries.iter().map(|entry| entry.path.as_path()).collect();
        plans.extend(others(&top, Path::new(""), &kept)?.into_iter().map(removal));
    }
    let plan = Plan::sequence(plans).with("dest", task.dest.clone()).and_then(move |_, _| flush(&top));
    Ok(if let Some(src) = &task.src { plan.with("src", src.as_str()) } else { plan })
}

/// Entries below `top` that the tree does not contain. For a folder that is removed as a whole, only the folder.
fn others(top: &Path, relative: &Path, kept: &BTreeSet<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let folder = top.join(relative);
    if folder.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let refuse =
        |error: std::io::Error| Failure::new(format!("{} could not be read: {}.", folder.display(), reason(&error)));
    let mut found = Vec::new();
    for child in std::fs::read_dir(&folder).map_err(refuse)? {
        let child = child.map_err(refuse)?;
        let path = relative.join(child.file_name());
        if !kept.contains(path.as_path()) {
            found.push(child.path());
        } else if child.path().is_dir() && !child.path().is_symlink() {
            found.extend(others(top, &path, kept)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Flushes the copied files, so that they survive a power failure. A single flush is many times faster than one per
/// file.
fn flush(top: &Path) -> Result<(), Failure> {
    let flushed = File::open(top).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    flushed.map_err(|error| Failure::new(format!("{} could not be flushed: {}.", top.display(), reason(&error))))
}

fn removal(path: PathBuf) -> Plan {
    Plan::change(move |_host, _outcome| {
        let folder = path.is_dir() && !path.is_symlink();
        let removed = if folder { way::remove_dir_all(&path) } else { way::remove_file(&path) };
        removed.map_err(|error| Failure::new(format!("{} cannot be removed: {}.", path.display(), reason(&error))))
    })
}

fn plan_directory(task: &Task, entry: &Entry, path: &Path) -> Result<Plan, Failure> {
    if path.exists() && !path.is_dir() {
        return Err(Failure::new(format!("{} is in the way of a directory.", path.display())));
    }
    let mut attributes = task.directories.clone();
    if attributes.mode == Some(Mode::Preserve) {
        attributes.mode = entry.mode.as_ref().map(Mode::parse).transpose()?;
    }
    directory::plan(path, &attributes)
}

fn plan_file(task: &Task, entry: &Entry, path: &Path, host: &Host) -> Result<Plan, Failure> {
    let source = match (&entry.file, entry.content) {
        (Some(file), _) => Source::File(file.clone()),
        (None, Some(index)) => Source::Controller(index),
        (None, None) => {
            return Err(Failure::new(format!("The controller sent no content for {}.", entry.path.display())));
        }
    };
    let mut wanted = task.wanted(path, source, host)?;
    wanted.directory_to_come = true;
    wanted.flushed_later = true;
    wanted.plan(host)
}

fn plan_link(task: &Task, entry: &Entry, path: &Path) -> Result<Option<Plan>, Failure> {
    let target = entry
        .target
        .clone()
        .ok_or_else(|| Failure::new(format!("The link {} has no target.", entry.path.display())))?;
    let old = std::fs::read_link(path).ok();
    if old.as_deref() == Some(Path::new(&target)) || (old.is_some() && !task.force) {
        return Ok(None);
    }
    if path.is_dir() && old.is_none() {
        return Err(Failure::new(format!("The directory {} is in the way of a link.", path.display())));
    }
    let path = path.to_owned();
    Ok(Some(Plan::change(move |_host, _outcome| make_symbolic(&target, &path))))
}
