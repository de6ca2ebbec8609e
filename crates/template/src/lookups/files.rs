//! Lookups that find or read files on the control machine.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use minijinja::Value;

use super::call::{Answer, Call};
use crate::about::name_of;
use crate::filters::glob;
use crate::python::container::{dict, is_dict, is_list, step};
use crate::python::{text, truth};
use crate::reads::Read;

pub(super) fn file(call: &Call<'_>) -> Answer {
    let (strip_end, strip_start) = (call.flag("rstrip", true), call.flag("lstrip", false));
    let read = |term: String| {
        let content = call.read(&call.need_file("files", &term)?)?;
        let content = if strip_end { content.trim_end() } else { &content };
        Ok(Value::from(if strip_start { content.trim_start() } else { content }))
    };
    call.texts().into_iter().map(read).collect()
}

pub(super) fn unvault(call: &Call<'_>) -> Answer {
    let read = |term: String| Ok(Value::from(call.read(&call.need_file("files", &term)?)?));
    call.texts().into_iter().map(read).collect()
}

pub(super) fn fileglob(call: &Call<'_>) -> Answer {
    let mut found = Vec::new();
    for term in call.texts() {
        let term = crate::filters::paths::home_expanded(&term);
        let (directory, name) = match term.rsplit_once('/') {
            Some((directory, name)) => (Some(if directory.is_empty() { "/" } else { directory }), name),
            None => (None, term.as_str()),
        };
        let places = match directory {
            Some(directory) => call.find("files", directory).into_iter().collect(),
            None => call.directories().into_iter().flat_map(|place| [place.join("files"), place]).collect::<Vec<_>>(),
        };
        let matches = places.iter().map(|place| {
            let pattern = format!("{}/{name}", place.display());
            call.reads().note(Read::Search(pattern.clone()));
            glob::files(&pattern)
        });
        found.extend(matches.into_iter().find(|files| !files.is_empty()).unwrap_or_default());
    }
    Ok(found.into_iter().map(Value::from).collect())
}

/// Texts of an option, which is a list or a text with separators.
fn parts(value: &Value, separators: &[char]) -> Vec<String> {
    let split = |value: &Value| text(value).split(separators).map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    match is_list(value) {
        true => value.try_iter().into_iter().flatten().flat_map(|item| split(&item)).collect(),
        false => split(value),
    }
}

/// Candidates named by the terms of `first_found`, and whether a missing file is acceptable.
fn candidates(call: &Call<'_>, terms: &[Value], files: &mut Vec<String>, skip: &mut bool) -> Result<(), crate::Error> {
    for term in terms {
        if is_list(term) {
            let inner: Vec<Value> = term.try_iter().into_iter().flatten().collect();
            candidates(call, &inner, files, skip)?;
            continue;
        }
        let option = |name: &str| match is_dict(term) {
            true => step(term, &Value::from(name)),
            false => call.option(name).cloned(),
        };
        let names = match is_dict(term) {
            true => option("files").map(|files| parts(&files, &[',', ';'])).unwrap_or_default(),
            false if term.as_str().is_some() => parts(term, &[',', ';']),
            false => return Err(call.error(format!("takes names, lists and dictionaries, not '{}'", text(term)))),
        };
        if let Some(wanted) = option("skip") {
            *skip = wanted.as_str().map_or_else(|| truth(&wanted), windlass_yaml::boolean::is_true);
        }
        let paths = option("paths").map(|paths| parts(&paths, &[',', ':', ';'])).unwrap_or_default();
        match paths.is_empty() {
            true => files.extend(names),
            false => {
                for path in paths {
                    files.extend(names.iter().map(|name| crate::filters::paths::join(&[path.clone(), name.clone()])));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn first_found(call: &Call<'_>) -> Answer {
    let mut files = Vec::new();
    let mut skip = call.flag("skip", false);
    match (call.terms, call.option("files")) {
        ([], Some(names)) => candidates(
            call,
            &[dict([
                (Value::from("files"), names.clone()),
                (
                    Value::from("paths"),
                    call.option("paths").cloned().unwrap_or_else(|| Value::from(Vec::<Value>::new())),
                ),
            ])],
            &mut files,
            &mut skip,
        )?,
        (terms, _) => candidates(call, terms, &mut files, &mut skip)?,
    }
    let found = files.iter().find_map(|name| {
        ["", "files", "templates", "vars", "tasks"].iter().find_map(|subdirectory| call.find(subdirectory, name))
    });
    match found {
        Some(path) => Ok(vec![Value::from(path.to_string_lossy().into_owned())]),
        None if skip => Ok(Vec::new()),
        None => Err(call.error(format!("found none of these files: {}", files.join(", ")))),
    }
}

pub(super) fn filetree(call: &Call<'_>) -> Answer {
    let mut entries = Vec::new();
    for term in call.texts() {
        let root = call.need_file("files", term.trim_end_matches('/'))?;
        walk(call, &root, &root, &mut entries)?;
    }
    Ok(entries)
}

/// Lists directories before their content, by name.
fn walk(call: &Call<'_>, root: &Path, directory: &Path, entries: &mut Vec<Value>) -> Result<(), crate::Error> {
    let failed = |error: std::io::Error| call.error(format!("cannot read '{}': {error}", directory.display()));
    let mut paths: Vec<_> = fs::read_dir(directory)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    paths.sort_unstable();
    for path in paths {
        let metadata = path.symlink_metadata().map_err(failed)?;
        let (state, source) = if metadata.is_symlink() {
            let target = fs::read_link(&path).map_err(failed)?;
            ("link", target)
        } else {
            (if metadata.is_dir() { "directory" } else { "file" }, path.clone())
        };
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        entries.push(dict(
            [
                ("root", Value::from(format!("{}/", root.display()))),
                ("path", Value::from(relative)),
                ("state", Value::from(state)),
                ("src", Value::from(source.to_string_lossy().into_owned())),
                ("uid", Value::from(metadata.uid())),
                ("gid", Value::from(metadata.gid())),
                ("owner", Value::from(name_of("/etc/passwd", metadata.uid()))),
                ("group", Value::from(name_of("/etc/group", metadata.gid()))),
                ("mode", Value::from(format!("{:04o}", metadata.permissions().mode() & 0o7777))),
                ("size", Value::from(metadata.size())),
                ("mtime", Value::from(metadata.mtime())),
                ("ctime", Value::from(metadata.ctime())),
            ]
            .map(|(name, value)| (Value::from(name), value)),
        ));
        if metadata.is_dir() {
            walk(call, root, &path, entries)?;
        }
    }
    Ok(())
}
