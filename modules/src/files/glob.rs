//! Wildcards with the semantics of Python's `fnmatch` and `glob`.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

/// Whether a name matches a pattern with `*`, `?` and `[...]`. A slash has no special meaning.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Backtracking only to the last `*` bounds the time by the product of the lengths.
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(at), name.get(position)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((at + 1, position));
                at += 1;
                continue;
            }
            (Some(_), None) | (None, Some(_)) => None,
            (Some(_), Some(character)) => one(pattern.get(at..).unwrap_or_default(), *character),
        };
        match (step, star) {
            (Some(width), _) => {
                at += width;
                position += 1;
            }
            (None, Some((after, from))) if from < name.len() => {
                star = Some((after, from + 1));
                (at, position) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one character against the front of a pattern; returns the length of the pattern it used.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let negated = rest.first() == Some(&'!');
            let body = if negated { rest.get(1..).unwrap_or_default() } else { rest };
            // A bracket directly at the beginning is a member, not the end.
            let Some(end) = body.iter().skip(1).position(|c| *c == ']').map(|at| at + 1) else {
                return (character == '[').then_some(1);
            };
            let members = body.get(..end).unwrap_or_default();
            let mut found = false;
            let mut at = 0;
            while let Some(low) = members.get(at) {
                match (members.get(at + 1), members.get(at + 2)) {
                    (Some('-'), Some(high)) => {
                        found |= (*low..=*high).contains(&character);
                        at += 3;
                    }
                    _ => {
                        found |= *low == character;
                        at += 1;
                    }
                }
            }
            (found != negated).then_some(end + 2 + usize::from(negated))
        }
        [literal, ..] => (*literal == character).then_some(1),
        [] => None,
    }
}

/// Whether any path matches the pattern.
pub fn any(pattern: &Path) -> bool {
    !expand(pattern).is_empty()
}

/// The paths that match a pattern, sorted. Hidden names match only a pattern that begins with a dot.
pub fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(part) = component else {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let text = part.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            found.retain(|path| path.symlink_metadata().is_ok());
            continue;
        }
        found = found.iter().flat_map(|path| children(path, &text)).collect();
    }
    found.retain(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_ok());
    found.sort();
    found
}

fn children(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = std::fs::read_dir(listed) else { return Vec::new() };
    let visible = |name: &OsStr| pattern.starts_with('.') || !name.to_string_lossy().starts_with('.');
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .filter(|name| visible(name) && matches(pattern, &name.to_string_lossy()))
        .map(|name| directory.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_like_fnmatch() {
        assert!(matches("*.conf", "a.conf") && matches("*", "") && matches("a?c", "abc") && matches("[a-c]x", "bx"));
        assert!(
            matches("[!a]x", "bx") && !matches("[!a]x", "ax") && matches("[]]", "]") && matches("a*b*c", "a-b-b-c")
        );
        assert!(!matches("*.conf", "a.conf.bak") && !matches("a?c", "ac") && !matches("", "a") && matches("[", "["));
        assert!(matches("{a,b}", "{a,b}") && !matches("{a,b}", "a"));
    }

    #[test]
    fn patterns_expand_to_paths() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.txt", "b.txt", ".c.txt", "d.md"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let count = |pattern: &str| expand(&directory.path().join(pattern)).len();
        assert_eq!((count("*.txt"), count(".*.txt"), count("d.md"), count("x*"), count("no.md")), (2, 1, 1, 0, 0));
        assert!(any(&directory.path().join("[ab].txt")));
    }
}
