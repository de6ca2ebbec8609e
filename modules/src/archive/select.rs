//! Selects members by `include` and `exclude`. As in tar, an inclusion matches from the start of a name, an exclusion
//! from any part of it.

use std::cell::RefCell;

use crate::{Failure, files::glob::matches};

/// Selection of members by `include` and `exclude`.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    /// Entries of `include` without a match so far.
    missing: RefCell<Vec<String>>,
}

impl Selection {
    pub(super) fn new(include: Vec<String>, exclude: Vec<String>) -> Selection {
        let trim = |names: Vec<String>| {
            names.into_iter().map(|name| name.trim_end_matches('/').to_owned()).collect::<Vec<_>>()
        };
        let include = trim(include);
        Selection { missing: RefCell::new(include.clone()), include, exclude: trim(exclude) }
    }

    /// Whether the selection contains a member of this name.
    pub(super) fn takes(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        if self.exclude.iter().any(|pattern| anywhere(pattern, name)) {
            return false;
        }
        let mut taken = self.include.is_empty();
        for pattern in self.include.iter().filter(|pattern| from_start(pattern, name)) {
            taken = true;
            self.missing.borrow_mut().retain(|missing| missing != pattern);
        }
        taken
    }

    /// Fails if an entry of `include` matched nothing.
    pub(super) fn check_complete(&self) -> Result<(), Failure> {
        let missing = self.missing.borrow();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("Not found in archive: {}", missing.join(", "))))
    }
}

/// Whether a pattern matches the name or one of its parent directories.
fn from_start(pattern: &str, name: &str) -> bool {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let name = name.strip_prefix("./").unwrap_or(name);
    ends(name).any(|end| name.get(..end).is_some_and(|front| front == pattern || matches(pattern, front)))
}

/// Whether a pattern matches from any part of the name.
fn anywhere(pattern: &str, name: &str) -> bool {
    let starts = std::iter::once(0).chain(name.match_indices('/').map(|(at, _)| at + 1));
    starts.into_iter().any(|start| name.get(start..).is_some_and(|rest| from_start(pattern, rest)))
}

/// End positions of the name and of its parent directories.
fn ends(name: &str) -> impl Iterator<Item = usize> {
    name.match_indices('/').map(|(at, _)| at).chain(std::iter::once(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn members_selected_with_their_directories() {
        let selection = Selection::new(names(&["bin/", "etc/*.conf"]), names(&[]));
        assert!(selection.takes("bin/") && selection.takes("./bin/tool") && selection.takes("etc/a.conf"));
        assert!(!selection.takes("share/bin") && !selection.takes("binary"));
        assert!(selection.check_complete().is_ok());
        assert!(Selection::new(names(&["none"]), names(&[])).check_complete().is_err());
    }

    #[test]
    fn excluded_members_skipped_at_any_depth() {
        let selection = Selection::new(names(&[]), names(&["*.md", "docs/"]));
        assert!(!selection.takes("README.md") && !selection.takes("a/b.md") && !selection.takes("x/docs/y"));
        assert!(selection.takes("docs2/y") && selection.takes("a"));
    }
}
