//! The recorded runs, with what the list needs to know of each.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::journal::{RunFile, State};
use crate::report::{self, Kind, Summary};

/// Maximum number of runs, the newest ones.
const RUNS: usize = 2000;

/// Runs that are shown.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Runs that were started in this directory, or whose playbooks are below it.
    Directory(PathBuf),
    /// All.
    All,
}

/// Size and time of a file. A journal with the same ones has the same content.
type Stamp = (u64, Option<SystemTime>);

/// Recorded runs. Each journal is read again only after it has changed.
pub(super) struct Index {
    state: State,
    scope: Scope,
    known: Mutex<HashMap<PathBuf, (Stamp, Option<Arc<Summary>>)>>,
}

/// A recorded run.
pub(super) struct Run {
    pub(super) file: RunFile,
    /// `None` if the journal has no valid header.
    pub(super) summary: Option<Arc<Summary>>,
    is_alive: bool,
}

impl Run {
    /// Result of the run, or `unreadable`.
    pub(super) fn result(&self) -> &'static str {
        match &self.summary {
            Some(summary) if summary.problem.is_none() => {
                report::result_of(summary.end.as_ref().map(|(_, code)| *code), self.is_alive)
            }
            _ => "unreadable",
        }
    }

    /// Sentence about a damaged journal.
    pub(super) fn problem(&self) -> Option<String> {
        match &self.summary {
            Some(summary) => summary.problem.clone(),
            None => Some("the journal has no valid first line".to_owned()),
        }
    }

    /// Name of the run for people.
    pub(super) fn title(&self) -> String {
        let playbooks = self.summary.as_ref().map(|summary| summary.header.playbooks.as_slice());
        report::title(playbooks.unwrap_or_default(), &self.file.run)
    }

    /// Duration in milliseconds, if the run has ended.
    pub(super) fn took(&self) -> Option<u64> {
        let summary = self.summary.as_ref()?;
        let (ended, _) = summary.end.as_ref()?;
        Some(report::instant(ended)?.saturating_sub(report::instant(&summary.header.started)?))
    }

    /// The worst outcome on a host.
    pub(super) fn outcome(&self, host: &str) -> Option<Kind> {
        self.summary.as_ref()?.tally.find(host)?.worst()
    }

    /// Whether the run belongs to a directory. `None` if only another run of its project can tell.
    fn is_of(&self, directory: &Path) -> Option<bool> {
        let header = &self.summary.as_ref()?.header;
        let is_below = |path: &String| Path::new(path).starts_with(directory);
        Some(Path::new(&header.directory) == directory || header.playbooks.iter().any(is_below))
    }
}

impl Index {
    pub(super) fn new(state: State, scope: Scope) -> Index {
        Index { state, scope, known: Mutex::default() }
    }

    /// The runs, newest first.
    pub(super) fn runs(&self) -> Vec<Run> {
        let files: Vec<RunFile> =
            self.state.runs().into_iter().rev().filter(|run| !run.is_empty()).take(RUNS).collect();
        let paths: HashSet<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|path, _| paths.contains(path));
        let mut runs: Vec<Run> = files.into_iter().map(|file| self.run(file)).collect();
        if let Scope::Directory(directory) = &self.scope {
            let own: HashSet<String> = runs
                .iter()
                .filter(|run| run.is_of(directory) == Some(true))
                .map(|run| run.file.project.clone())
                .collect();
            runs.retain(|run| run.is_of(directory).unwrap_or_else(|| own.contains(&run.file.project)));
        }
        runs
    }

    /// A run by its id. The id is only compared, and never part of a path.
    pub(super) fn find(&self, id: &str) -> Option<Run> {
        self.runs().into_iter().find(|run| run.file.run == id)
    }

    fn run(&self, file: RunFile) -> Run {
        let stamp = std::fs::metadata(&file.path).map(|found| (found.len(), found.modified().ok())).unwrap_or_default();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&file.path).cloned();
        let known = known.filter(|(then, _)| *then == stamp).map(|(_, summary)| summary);
        let has_ended = |summary: &Option<Arc<Summary>>| summary.as_ref().is_some_and(|summary| summary.end.is_some());
        // Asked before the journal is read: a run that ends in between is then complete.
        let is_alive = !known.as_ref().is_some_and(has_ended) && file.is_alive();
        let summary = known.unwrap_or_else(|| {
            let summary = Summary::read(&file.path).map(Arc::new);
            let entry = (stamp, summary.clone());
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(file.path.clone(), entry);
            summary
        });
        Run { file, summary, is_alive }
    }
}
