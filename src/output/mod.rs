//! Events in, text out. This is the one place where a run becomes text, and where secrets are masked.

mod default;
mod diff;
mod json;
mod minimal;
mod printer;

use std::sync::Arc;

use indexmap::IndexMap;
use tokio::sync::mpsc;

use crate::strategy::{CustomStats, TaskResult};

pub use default::DefaultOutput;
pub use diff::unified;
pub use json::{nice_json, python_json, python_json_as_is};
pub use minimal::{MinimalOutput, MinimalStyle};
pub use printer::{Color, Printer, Secrets};

/// What a result stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It went well; changed or not is in the result.
    Ok,
    /// It failed, and whether that is ignored.
    Failed {
        /// `ignore_errors`.
        ignored: bool,
    },
    /// Its condition was false.
    Skipped,
    /// The host could not be reached.
    Unreachable {
        /// `ignore_unreachable`.
        ignored: bool,
    },
}

/// One result of a task on a host, or of one item of its loop.
#[derive(Debug, Clone)]
pub struct ResultEvent {
    /// The host, with the host it was delegated to: `a -> b`.
    pub host: String,
    /// What it came to.
    pub status: Status,
    /// The result, censored if `no_log` says so.
    pub result: Arc<TaskResult>,
    /// The label of the loop's item, if this is one.
    pub item: Option<String>,
    /// Whether this is the summary of a loop.
    pub looped: bool,
    /// The task's number.
    pub task: u64,
    /// The action, without its collection.
    pub action: String,
    /// Whether differences are to be shown.
    pub diff: bool,
    /// What went wrong and where, of a failure.
    pub report: Option<String>,
}

/// Something that happens in a run.
#[derive(Debug, Clone)]
pub enum Event {
    /// A playbook starts.
    PlaybookStart {
        /// Its path as given.
        path: String,
    },
    /// A play starts.
    PlayStart {
        /// Its name.
        name: String,
    },
    /// A play has no hosts.
    NoHostsMatched,
    /// All hosts have failed.
    NoHostsLeft,
    /// A task starts.
    TaskStart {
        /// The task's number.
        id: u64,
        /// Its label.
        name: String,
        /// `TASK` or `RUNNING HANDLER`.
        handler: bool,
        /// Whether it only predicts.
        check: bool,
        /// Where it is written.
        path: Option<String>,
        /// How many hosts run it.
        hosts: usize,
        /// Its title is shown with its first result: hosts do not wait for each other.
        lazy: bool,
    },
    /// A result.
    Result(ResultEvent),
    /// A task is tried again.
    Retry {
        /// The host.
        host: String,
        /// The task's label.
        task: String,
        /// How many tries are left.
        left: u64,
        /// What the last try came to.
        result: Arc<TaskResult>,
    },
    /// A look at a job that a task waits for, or its end.
    Job {
        /// The host.
        host: String,
        /// The job's id.
        id: String,
        /// What is known of it.
        state: JobState,
    },
    /// A file or role was included.
    Included {
        /// The number of the task that includes it.
        task: u64,
        /// The file or role.
        what: String,
        /// The hosts.
        hosts: Vec<String>,
        /// The label of the loop's item, if any.
        item: Option<String>,
    },
    /// Output of a running command.
    Live {
        /// The host.
        host: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A sentence for the user.
    Warning(String),
    /// A question or notice of `pause`.
    Notice(String),
    /// A sentence for those who want to know more.
    Verbose {
        /// How many `-v` it takes.
        level: u8,
        /// The sentence.
        text: String,
    },
    /// A line with stars.
    Banner(String),
    /// A question; whoever reads the answer waits until it is shown.
    Prompt {
        /// The question.
        text: String,
        /// Hears that it was shown.
        shown: mpsc::UnboundedSender<()>,
    },
    /// The end: what came of every host.
    Recap(IndexMap<Arc<str>, Stats>),
    /// What `set_stats` collected, if it is to be shown.
    CustomStats(Arc<CustomStats>),
    /// Nothing follows.
    End,
}

/// What is known of a job that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It was looked at.
    Polled {
        /// Whether it has started, as it is shown.
        started: String,
        /// Whether it has finished, as it is shown.
        finished: String,
    },
    /// It went well.
    Ok,
    /// It failed.
    Failed,
}

/// What came of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tasks that went well, changed ones included.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks that could not reach the host.
    pub unreachable: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks whose condition was false.
    pub skipped: u32,
    /// Failures that were rescued.
    pub rescued: u32,
    /// Failures that were ignored.
    pub ignored: u32,
}

/// Turns events into text.
pub trait Output: Send {
    /// Something happened.
    fn event(&mut self, event: &Event);
}
