//! What a run tells about itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use tokio::sync::mpsc;

use crate::executor::Cost;
use crate::outcome::TaskResult;
use crate::playbook::Task;
use crate::strategy::CustomStats;

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
pub struct ResultEvent<R = Arc<TaskResult>> {
    /// The task.
    pub task: Arc<Task>,
    /// The host.
    pub name: Arc<str>,
    /// The host as it is shown, with the one it was delegated to: `a -> b`.
    pub host: String,
    /// What it came to.
    pub status: Status,
    /// The result, censored if `no_log` says so.
    pub result: R,
    /// The label of the loop's item, if this is one.
    pub item: Option<String>,
    /// Whether this is the summary of a loop.
    pub looped: bool,
    /// Whether differences are to be shown.
    pub diff: bool,
    /// Whether the result is hidden.
    pub no_log: bool,
    /// What went wrong and where, of a failure.
    pub report: Option<String>,
}

/// Something that happens in a run. Results are `R`: as tasks send them, or as callbacks may see them.
#[derive(Debug, Clone)]
pub enum Event<R = Arc<TaskResult>> {
    /// A playbook starts.
    PlaybookStart {
        /// Its path as given.
        path: String,
    },
    /// A play starts.
    PlayStart {
        /// Its name.
        name: String,
        /// Where it is written.
        path: Option<String>,
        /// Whether it only predicts.
        check: bool,
    },
    /// A play has no hosts.
    NoHostsMatched,
    /// All hosts have failed.
    NoHostsLeft,
    /// A task starts.
    TaskStart {
        /// The task.
        task: Arc<Task>,
        /// Its label.
        name: String,
        /// Whether it only predicts.
        check: bool,
        /// Its title is shown with its first result: hosts do not wait for each other.
        lazy: bool,
    },
    /// A task starts on a host.
    HostStart {
        /// The host.
        host: Arc<str>,
        /// The task's label.
        name: String,
        /// Whether it is a handler.
        handler: bool,
    },
    /// A result.
    Result(ResultEvent<R>),
    /// Where time of a task on a host went (`--timings`, `--trace`).
    Spent {
        /// The host.
        host: Arc<str>,
        /// The task.
        task: Arc<Task>,
        /// When it began.
        start: Instant,
        /// On what.
        on: Spending,
    },
    /// A task is tried again.
    Retry {
        /// The host.
        host: String,
        /// The task's label.
        task: String,
        /// How many tries are left.
        left: u64,
        /// What the last try came to.
        result: R,
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
        /// The task that includes it.
        task: Arc<Task>,
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
    /// A sentence about what will not work any more one day.
    Deprecation(String),
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
    /// A signal ends the run.
    Interrupted {
        /// Name of the signal.
        signal: &'static str,
    },
    /// The end: what came of every host.
    Recap(Recap),
    /// Nothing follows.
    End,
}

/// What time is spent on.
#[derive(Debug, Clone, Copy)]
pub enum Spending {
    /// Evaluating conditions and arguments, for so long.
    Template(Duration),
    /// A request.
    Request(Cost),
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

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Recap {
    /// What came of every host.
    pub hosts: IndexMap<Arc<str>, Stats>,
    /// What `set_stats` collected.
    pub custom: Arc<CustomStats>,
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

impl Stats {
    /// The counts under the names that Ansible's callbacks give them.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({
            "ok": self.ok,
            "changed": self.changed,
            "unreachable": self.unreachable,
            "failures": self.failed,
            "skipped": self.skipped,
            "rescued": self.rescued,
            "ignored": self.ignored,
        })
    }
}

/// Where something is written: `file:line`.
pub(crate) fn place(span: &windlass_yaml::Span) -> Option<String> {
    let file = || crate::vars::absolute(std::path::Path::new(&*span.source.name));
    span.is_located().then(|| format!("{}:{}", file().display(), span.line))
}

/// Where a task is written.
pub(super) fn path_of(task: &Task) -> Option<String> {
    place(&task.span)
}

/// A task's arguments as they are written: `name=value, name=value`.
pub(super) fn arguments_of(task: &Task) -> String {
    let shown: Vec<String> =
        task.args.iter().map(|(key, node)| format!("{}={}", key.to_text(), windlass_yaml::python_str(node))).collect();
    shown.join(", ")
}
