//! Inputs of the control machine that evaluations read, beyond variables. A resumed run compares them.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of inputs to remember whole.
const INPUTS: usize = 20_000;

/// Maximum number of inputs to report. Names of files may come from data, which is unbounded.
const MOST: usize = 200_000;

/// An input of the control machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Read {
    /// Content of a file.
    File(PathBuf),
    /// A file that does not exist, so that another one was used.
    Missing(PathBuf),
    /// Names of the files that match a pattern.
    Search(String),
    /// Names of the entries of a directory.
    Folder(PathBuf),
    /// Value of an environment variable.
    Environment(String),
    /// Further inputs that are not reported.
    Rest,
}

/// Inputs read so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    all: HashSet<Read>,
    /// Hashes of the inputs beyond them.
    more: HashSet<u64>,
    hasher: RandomState,
    new: Vec<Read>,
}

impl Reads {
    /// Notes an input.
    pub fn note(&self, read: Read) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.all.contains(&read) {
            return;
        }
        if seen.all.len() < INPUTS {
            seen.all.insert(read.clone());
            return seen.new.push(read);
        }
        let read = if seen.all.len() + seen.more.len() < MOST { read } else { Read::Rest };
        let hash = seen.hasher.hash_one(&read);
        if seen.more.insert(hash) {
            seen.new.push(read);
        }
    }

    /// Notes the files that were missing before one was found, and returns that one.
    pub fn first(
        &self,
        candidates: impl IntoIterator<Item = PathBuf>,
        is_it: impl Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        candidates.into_iter().find(|path| {
            let found = is_it(path);
            if !found {
                self.note(Read::Missing(path.clone()));
            }
            found
        })
    }

    /// The first 20,000 inputs.
    pub fn all(&self) -> Vec<Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.iter().cloned().collect()
    }

    /// Inputs that are new since the last call.
    pub fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).new)
    }
}

/// Paths that match a pattern of Python's `glob`.
pub fn matching_paths(pattern: &str) -> Vec<String> {
    crate::filters::glob::paths(pattern)
}

/// Files that match a pattern of Python's `glob`, sorted by name.
pub fn matching(pattern: &str) -> Vec<String> {
    crate::filters::glob::files(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_beyond_the_limit_are_reported_as_one() {
        let reads = Reads::default();
        for number in 0..MOST + 5 {
            reads.note(Read::Environment(number.to_string()));
            reads.note(Read::Environment(number.to_string()));
        }
        assert_eq!(reads.all().len(), INPUTS);
        let new = reads.take();
        assert_eq!((new.len(), new.last()), (MOST + 1, Some(&Read::Rest)));
        assert!(reads.take().is_empty());
    }
}
