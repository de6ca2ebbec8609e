//! Filters for paths on the control machine and on Windows.

use std::path::{Component, Path, PathBuf};

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{is_list, list, tuple};
use crate::python::python_class;
use crate::tracker;

pub(super) fn basename(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    Ok(Value::from(path.rsplit('/').next().unwrap_or_default()))
}

pub(super) fn dirname(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    let head = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
    let trimmed = head.trim_end_matches('/');
    Ok(Value::from(if trimmed.is_empty() { head } else { trimmed }))
}

pub(super) fn splitext(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    let name_start = path.rfind('/').map_or(0, |slash| slash + 1);
    let name = &path[name_start..];
    let dots = name.len() - name.trim_start_matches('.').len();
    let cut = match name.rfind('.') {
        Some(dot) if dot > dots => name_start + dot,
        Some(dot) if dot == dots && dots > 0 => name_start + dot,
        Some(dot) if dots == 0 && dot > 0 => name_start + dot,
        _ => path.len(),
    };
    Ok(tuple(vec![Value::from(&path[..cut]), Value::from(&path[cut..])]))
}

/// `os.path.normpath`: removes `.`, doubled slashes, and steps that `..` reverts.
pub(crate) fn normalized(path: &str) -> String {
    let slashes = match path.len() - path.trim_start_matches('/').len() {
        0 => 0,
        2 => 2,
        _ => 1,
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if slashes > 0 => {}
            part => parts.push(part),
        }
    }
    let joined = "/".repeat(slashes) + &parts.join("/");
    if joined.is_empty() { ".".to_owned() } else { joined }
}

/// `os.path.abspath`.
pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        return normalized(path);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    normalized(&format!("{}/{path}", here.display()))
}

pub(super) fn normpath(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(normalized(args.string()?)))
}

pub(super) fn realpath(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    tracker::reads_outside();
    let mut rest: Vec<std::ffi::OsString> = Vec::new();
    let mut existing = PathBuf::from(absolute(args.string()?));
    // A missing path cannot be a link: resolve the part that exists and append the rest.
    loop {
        if let Ok(resolved) = existing.canonicalize() {
            let full = rest.iter().rev().fold(resolved, |path, part| path.join(part));
            return Ok(Value::from(normalized(&full.to_string_lossy())));
        }
        match (existing.file_name().map(ToOwned::to_owned), existing.parent().map(Path::to_path_buf)) {
            (Some(name), Some(parent)) => {
                rest.push(name);
                existing = parent;
            }
            _ => return Ok(Value::from(absolute(args.string()?))),
        }
    }
}

pub(super) fn relpath(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = absolute(args.string()?);
    let start = absolute(&args.text_of("start").unwrap_or_else(|| ".".to_owned()));
    let parts = |path: &str| {
        let components = Path::new(path).components();
        components
            .filter_map(|component| match component {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let (path, start) = (parts(&path), parts(&start));
    let common = path.iter().zip(&start).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", start.len() - common);
    let relative: Vec<&str> = up.chain(path[common..].iter().map(String::as_str)).collect();
    Ok(Value::from(if relative.is_empty() { ".".to_owned() } else { relative.join("/") }))
}

/// `os.path.join`: an absolute part replaces everything before it.
pub(crate) fn join(parts: &[String]) -> String {
    let mut joined = String::new();
    for part in parts {
        if part.starts_with('/') || joined.is_empty() {
            joined.clone_from(part);
        } else if joined.ends_with('/') {
            joined.push_str(part);
        } else {
            joined.push('/');
            joined.push_str(part);
        }
    }
    joined
}

/// Items of the value, which must be texts.
fn paths(args: &Arguments) -> Result<Vec<String>, minijinja::Error> {
    let path = |item: Value| item.as_str().map(str::to_owned).ok_or_else(|| args.unsuitable("a list of paths"));
    args.items()?.into_iter().map(path).collect()
}

pub(super) fn path_join(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    let parts: Vec<String> = match value.as_str() {
        Some(path) => vec![path.to_owned()],
        None if is_list(value) && value.len() != Some(0) => paths(args)?,
        None => {
            let class = python_class(value);
            return Err(args.failed(format!("|path_join expects string or sequence, got {class} instead.")));
        }
    };
    Ok(Value::from(join(&parts)))
}

pub(super) fn commonpath(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if !is_list(args.value()) {
        let class = python_class(args.value());
        return Err(args.failed(format!("|commonpath expects sequence, got {class} instead.")));
    }
    let paths = paths(args)?;
    let Some(first) = paths.first() else {
        return Err(args.failed("the list is empty"));
    };
    if paths.iter().any(|path| path.starts_with('/') != first.starts_with('/')) {
        return Err(args.failed("absolute and relative paths have nothing in common"));
    }
    let parts = |path: &str| {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect::<Vec<_>>()
    };
    let mut common = parts(first);
    for path in &paths {
        let same = common.iter().zip(parts(path)).take_while(|(one, other)| *one == other).count();
        common.truncate(same);
    }
    let root = if first.starts_with('/') { "/" } else { "" };
    Ok(Value::from(format!("{root}{}", common.join("/"))))
}

pub(super) fn expanduser(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(home_expanded(args.string()?)))
}

/// `os.path.expanduser`.
pub(crate) fn home_expanded(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else {
        return path.to_owned();
    };
    let (user, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let home = match user {
        "" => std::env::var("HOME").ok().or_else(|| home_of("root")),
        user => home_of(user),
    };
    match home {
        Some(home) => {
            let expanded = home.trim_end_matches('/').to_owned() + rest;
            if expanded.is_empty() { "/".to_owned() } else { expanded }
        }
        None => path.to_owned(),
    }
}

fn home_of(user: &str) -> Option<String> {
    let passwd = windlass_bounds::read_text("/etc/passwd").ok()?;
    let line = passwd.lines().find(|line| line.split(':').next() == Some(user))?;
    line.split(':').nth(5).map(str::to_owned)
}

pub(super) fn expandvars(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(variables_expanded(args.string()?)))
}

/// `os.path.expandvars`: expands `$NAME` and `${NAME}`; unset variables stay as written.
pub(crate) fn variables_expanded(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        let (name, length) = match after.strip_prefix('{') {
            Some(braced) => match braced.find('}') {
                Some(end) => (&braced[..end], end + 2),
                None => ("", 0),
            },
            None => {
                let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        match if name.is_empty() { None } else { std::env::var(name).ok() } {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[dollar..dollar + 1 + length]),
        }
        rest = &after[length..];
    }
    out + rest
}

pub(super) fn fileglob(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    tracker::reads_outside();
    let found = super::glob::files(args.string()?);
    Ok(list(found.into_iter().map(Value::from).collect()))
}

/// Splits a Windows path after its drive, `C:` or `\\server\share`.
fn split_drive(path: &str) -> (&str, &str) {
    let separator = |character| character == '\\' || character == '/';
    if path.as_bytes().get(1) == Some(&b':') && path.is_char_boundary(2) {
        return path.split_at(2);
    }
    let leading: String = path.chars().take(2).map(|c| if c == '/' { '\\' } else { c }).collect();
    if leading == "\\\\" && !path[2..].starts_with(separator) {
        let Some(server) = path[2..].find(separator).map(|end| end + 2) else {
            return (path, "");
        };
        return match path[server + 1..].find(separator) {
            Some(end) => path.split_at(server + 1 + end),
            None => (path, ""),
        };
    }
    ("", path)
}

pub(super) fn win_basename(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    let (_, rest) = split_drive(path);
    Ok(Value::from(rest.rsplit(['\\', '/']).next().unwrap_or_default()))
}

pub(super) fn win_dirname(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    let (drive, rest) = split_drive(path);
    let head = &rest[..rest.rfind(['\\', '/']).map_or(0, |slash| slash + 1)];
    let trimmed = head.trim_end_matches(['\\', '/']);
    Ok(Value::from(format!("{drive}{}", if trimmed.is_empty() { head } else { trimmed })))
}

pub(super) fn win_splitdrive(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.string()?;
    let (drive, rest) = split_drive(path);
    Ok(tuple(vec![Value::from(drive), Value::from(rest)]))
}
