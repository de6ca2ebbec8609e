//! Files between checks: texts of an editor in place of files, and parsed files and templates that have not changed.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use windlass_template::uses::{Fault, Form, Uses, uses};

use super::source::SourceFile;

/// Files between checks. The default reads every file, without a limit on their number.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Texts that replace files or stand for new ones, by absolute path.
    buffers: HashMap<PathBuf, Arc<str>>,
    kept: HashMap<PathBuf, Kept>,
    /// Maximum number of files of a project, for checks that repeat.
    most_files: Option<usize>,
    /// Names that texts use, by the form of the text.
    uses: [KnownUses; 3],
}

/// Names that a text uses, or its error.
pub(super) type Used = Arc<Result<Uses, Fault>>;

/// Texts of the last check and of the current one, with the names that they use.
#[derive(Debug, Default)]
struct KnownUses {
    last: HashMap<Arc<str>, Used>,
    current: HashMap<Arc<str>, Used>,
}

impl KnownUses {
    fn of(&mut self, text: &str, form: Form) -> Used {
        if let Some(used) = self.current.get(text) {
            return Arc::clone(used);
        }
        let (text, used) =
            self.last.remove_entry(text).unwrap_or_else(|| (Arc::from(text), Arc::new(uses(text, form))));
        self.current.insert(text, Arc::clone(&used));
        used
    }
}

/// A parsed file.
#[derive(Debug)]
struct Kept {
    modified: SystemTime,
    length: u64,
    file: SourceFile,
}

impl Workspace {
    /// Creates a workspace that keeps parsed files, and refuses projects with more files than this.
    pub fn with_limit(most_files: usize) -> Workspace {
        Workspace { most_files: Some(most_files), ..Workspace::default() }
    }

    /// Replaces the texts that stand for files.
    pub fn set_buffers(&mut self, buffers: HashMap<PathBuf, Arc<str>>) {
        self.buffers = buffers;
    }

    /// Whether checks repeat, so that parsed files are kept and names are listed.
    pub(super) fn is_lasting(&self) -> bool {
        self.most_files.is_some()
    }

    pub(super) fn most_files(&self) -> usize {
        self.most_files.unwrap_or(usize::MAX)
    }

    pub(super) fn buffer(&self, path: &Path) -> Option<&str> {
        self.buffers.get(path).map(|text| &**text)
    }

    pub(super) fn buffers_below(&self, root: &Path) -> impl Iterator<Item = &Path> {
        self.buffers.keys().map(PathBuf::as_path).filter(move |path| path.starts_with(root))
    }

    /// The file as parsed before, if it has not changed.
    pub(super) fn kept(&self, path: &Path, metadata: &Metadata) -> Option<SourceFile> {
        let kept = self.kept.get(path)?;
        let is_same = kept.length == metadata.len() && metadata.modified().is_ok_and(|time| time == kept.modified);
        is_same.then(|| kept.file.clone())
    }

    pub(super) fn keep(&mut self, path: &Path, metadata: &Metadata, file: &SourceFile) {
        let Ok(modified) = metadata.modified() else { return };
        // Clocks of file systems are coarse: a changed file may change again within the same tick.
        let is_settled = modified.elapsed().is_ok_and(|age| age.as_secs() >= 2);
        if self.is_lasting() && is_settled {
            let kept = Kept { modified, length: metadata.len(), file: file.clone() };
            self.kept.insert(path.to_owned(), kept);
        }
    }

    /// Names that a text uses. If checks repeat, only texts that the last one did not have are parsed.
    pub(super) fn uses(&mut self, text: &str, form: Form) -> Used {
        match self.is_lasting() {
            true => self.uses[form as usize].of(text, form),
            false => Arc::new(uses(text, form)),
        }
    }

    /// Forgets texts that the check which ends now did not have.
    pub(super) fn end_check(&mut self) {
        self.uses.iter_mut().for_each(|known| known.last = std::mem::take(&mut known.current));
    }

    /// Forgets files of a project that no longer exist.
    pub(super) fn forget_others(&mut self, root: &Path, paths: &[PathBuf]) {
        if self.is_lasting() {
            let paths: HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
            self.kept.retain(|path, _| !path.starts_with(root) || paths.contains(path.as_path()));
        }
    }
}
