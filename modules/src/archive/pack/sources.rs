//! The sources of `archive`: expands `path` and `exclude_path`, and lists the members with their names in the archive.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{
    Args, Failure,
    files::glob::{expand, matches},
    process::reason,
};

/// The expanded paths of a task.
pub(super) struct Sources {
    pub(super) expanded: Vec<PathBuf>,
    pub(super) excluded: Vec<PathBuf>,
    pub(super) paths: Vec<PathBuf>,
    pub(super) found: Vec<PathBuf>,
    pub(super) missing: Vec<PathBuf>,
    /// Folder that member names are relative to.
    pub(super) root: PathBuf,
    /// Creates an archive instead of a single compressed file.
    pub(super) several: bool,
    patterns: Vec<String>,
}

/// A member of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// Name in the archive, possibly not valid UTF-8.
    pub(super) place: PathBuf,
    /// The name as text.
    pub(super) name: String,
    pub(super) is_directory: bool,
}

impl Sources {
    pub(super) fn of(args: &Args) -> Result<Sources, Failure> {
        let (expanded, patterned) = paths(&args.list("path"));
        let (excluded, _) = paths(&args.list("exclude_path"));
        let unique: BTreeSet<&PathBuf> = expanded.iter().filter(|path| !excluded.contains(path)).collect();
        let paths: Vec<PathBuf> = unique.into_iter().cloned().collect();
        let Some(first) = paths.first() else {
            let shown =
                |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(Failure::new("Error, no source paths were found")
                .with("path", args.list("path").join(", "))
                .with("expanded_paths", shown(&expanded))
                .with("expanded_exclude_paths", shown(&excluded)));
        };
        let several = args.bool("force_archive") || patterned || paths.len() > 1 || first.is_dir();
        let (found, missing) = paths.iter().cloned().partition(|path| path.symlink_metadata().is_ok());
        Ok(Sources {
            root: common_folder(&paths),
            several,
            found,
            missing,
            patterns: args.list("exclusion_patterns").into_iter().map(str::to_owned).collect(),
            expanded,
            excluded,
            paths,
        })
    }

    /// The first path, which always exists.
    pub(super) fn first(&self) -> &Path {
        self.paths.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The members, folders before their content. Excludes the archive itself.
    pub(super) fn members(&self, dest: &Path) -> Result<Vec<Entry>, Failure> {
        let mut members = Vec::new();
        for path in &self.found {
            if path.is_dir() && !path.is_symlink() {
                self.below(path, dest, &mut members)?;
            } else {
                self.add(path, dest, &mut members);
            }
        }
        Ok(members)
    }

    fn below(&self, folder: &Path, dest: &Path, members: &mut Vec<Entry>) -> Result<(), Failure> {
        let listed = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let listed = listed
            .map_err(|error| Failure::new(format!("{} could not be listed: {}.", folder.display(), reason(&error))))?;
        let mut paths: Vec<PathBuf> = listed.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            self.add(&path, dest, members);
            if path.is_dir() && !path.is_symlink() {
                self.below(&path, dest, members)?;
            }
        }
        Ok(())
    }

    fn add(&self, path: &Path, dest: &Path, members: &mut Vec<Entry>) {
        let place = path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        let name = place.to_string_lossy().into_owned();
        let left_out =
            self.patterns.iter().any(|pattern| matches(pattern, &name) || matches(pattern, &path.to_string_lossy()));
        if path != dest && !left_out {
            let is_directory = path.is_dir() && !path.is_symlink();
            members.push(Entry { path: path.to_owned(), place, name, is_directory });
        }
    }
}

/// Expands patterns, and reports whether any pattern was given.
fn paths(given: &[&str]) -> (Vec<PathBuf>, bool) {
    let mut all = Vec::new();
    let mut patterned = false;
    for text in given {
        // A trailing slash has no meaning.
        let text = if text.len() > 1 { text.trim_end_matches('/') } else { text };
        if text.contains(['*', '?']) {
            patterned = true;
            all.extend(expand(Path::new(text)));
        } else {
            all.push(PathBuf::from(text));
        }
    }
    (all, patterned)
}

/// The common parent folder of all paths.
fn common_folder(paths: &[PathBuf]) -> PathBuf {
    let mut parents = paths.iter().map(|path| path.parent().unwrap_or(Path::new("/")));
    let Some(first) = parents.next() else { return PathBuf::from("/") };
    let mut common: Vec<_> = first.components().collect();
    for parent in parents {
        let same = common.iter().zip(parent.components()).take_while(|(one, other)| **one == *other).count();
        common.truncate(same);
    }
    common.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_names_relative_to_common_folder() {
        let common = |paths: &[&str]| common_folder(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(common(&["/a/b/c"]), Path::new("/a/b"));
        assert_eq!(common(&["/a/b/c", "/a/bc/d"]), Path::new("/a"));
        assert_eq!(common(&["/x", "/a/b"]), Path::new("/"));
    }
}
