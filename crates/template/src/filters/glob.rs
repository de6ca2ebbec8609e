//! Python's `glob.glob`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// Files (not directories) that match a pattern, sorted by name.
pub(crate) fn files(pattern: &str) -> Vec<String> {
    paths(pattern).into_iter().filter(|path| Path::new(path).is_file()).collect()
}

/// Paths that match a pattern, sorted. Only a pattern with a leading dot matches names with one.
pub(crate) fn paths(pattern: &str) -> Vec<String> {
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => ("/".to_owned(), rest.trim_start_matches('/')),
        None => (String::new(), pattern),
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let mut found = vec![root];
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        found = found.iter().flat_map(|base| step(base, part, last)).collect();
    }
    found
}

fn step(base: &str, part: &str, last: bool) -> Vec<String> {
    let join = |name: &str| {
        if base.is_empty() || base.ends_with('/') { format!("{base}{name}") } else { format!("{base}/{name}") }
    };
    if !part.contains(['*', '?', '[']) {
        let path = join(part);
        let exists = if last { Path::new(&path).symlink_metadata().is_ok() } else { Path::new(&path).is_dir() };
        return if exists { vec![path] } else { Vec::new() };
    }
    let Some(matcher) = matcher(part) else {
        return Vec::new();
    };
    let directory = if base.is_empty() { "." } else { base };
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| (part.starts_with('.') || !name.starts_with('.')) && matcher.is_match(name))
        .collect();
    names.sort_unstable();
    names.iter().map(|name| join(name)).collect()
}

/// Compiles a pattern for one name: `*`, `?` and `[...]`. Braces and backslashes are literal.
pub(crate) fn matcher(pattern: &str) -> Option<GlobMatcher> {
    let mut plain = String::new();
    for character in pattern.chars() {
        match character {
            '{' | '}' | ',' | '\\' => plain.extend(['[', character, ']']),
            other => plain.push(other),
        }
    }
    let build = |pattern: &str| GlobBuilder::new(pattern).literal_separator(false).backslash_escape(false).build();
    build(&plain).ok().map(|glob| glob.compile_matcher())
}
