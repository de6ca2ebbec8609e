//! Inputs of the control machine that evaluations read, beyond variables. A resumed run compares them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of inputs to remember. Names of files may come from data, which is unbounded.
const INPUTS: usize = 20_000;

/// An input of the control machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Read {
    /// Content of a file.
    File(PathBuf),
    /// Absence of a file, so that another one was used.
    Missing(PathBuf),
    /// Names of the files that match a pattern.
    Search(String),
    /// Names of the entries of a directory.
    Folder(PathBuf),
    /// Value of an environment variable.
    Environment(String),
}

/// Inputs read so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    all: HashSet<Read>,
    new: Vec<Read>,
}

impl Reads {
    /// Notes an input.
    pub fn note(&self, read: Read) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.all.len() < INPUTS && !seen.all.contains(&read) {
            seen.all.insert(read.clone());
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

    /// All inputs.
    pub fn all(&self) -> Vec<Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.iter().cloned().collect()
    }

    /// Inputs that are new since the last call.
    pub fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).new)
    }
}

/// Files that match a pattern of Python's `glob`, sorted by name.
pub fn matching(pattern: &str) -> Vec<String> {
    crate::filters::glob::files(pattern)
}
