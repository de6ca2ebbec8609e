//! Inputs of a resumed run that become known only while the next run goes on, such as answers to prompts. A file of its
//! own, since all others are compared before that run begins.

use std::collections::HashMap;

use super::reader::Journal;
use super::record::{InputKind, Record};
use super::resume::{cannot_resume, resumed_although};
use crate::error::Result;

/// The run that this one resumes, as far as it is compared while this one runs.
pub(super) struct Former {
    pub(super) run: String,
    /// Whether to resume it even if inputs have changed.
    pub(super) anyway: bool,
    /// Hashes of answers to prompts, by place.
    pub(super) answers: HashMap<String, String>,
}

impl Former {
    pub(super) fn new(journal: &Journal, anyway: bool) -> Former {
        let answer = |record: &Record| match record {
            Record::File(read) if read.kind == InputKind::Prompt => Some((read.path.clone(), read.sha256.clone())),
            _ => None,
        };
        let answers = journal.records.iter().filter_map(answer).collect();
        Former { run: journal.header.run.clone(), anyway, answers }
    }

    /// Refuses to resume the run because of a difference, or returns a warning if that is ignored.
    pub(super) fn differs(&self, difference: &str) -> Result<String> {
        match self.anyway {
            true => Ok(resumed_although(&self.run, difference)),
            false => Err(cannot_resume(&self.run, difference)),
        }
    }
}

/// Variables of vars plugins that a journal has.
#[derive(Default)]
pub(super) struct Given {
    /// Number of requests to the plugins of this run.
    pub(super) count: usize,
    /// Hashes by path.
    pub(super) hashes: HashMap<String, String>,
}

impl Given {
    /// Variables in the journal of the run that is resumed.
    pub(super) fn of(journal: Option<&Journal>) -> Given {
        let hash = |record: &Record| match record {
            Record::File(read) if read.kind == InputKind::Vars => Some((read.path.clone(), read.sha256.clone())),
            _ => None,
        };
        let records = journal.into_iter().flat_map(|journal| &journal.records);
        Given { count: 0, hashes: records.filter_map(hash).collect() }
    }
}
