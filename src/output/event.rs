//! Events of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::forecast::Forecast;
use crate::executor::Cost;
use crate::outcome::{CustomStats, TaskResult};
use crate::playbook::Task;

/// Status of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Success; the result contains whether it changed something.
    Ok,
    /// Failure.
    Failed {
        /// Whether `ignore_errors` applied.
        ignored: bool,
    },
    /// Skipped.
    Skipped,
    /// The host was unreachable.
    Unreachable {
        /// Whether `ignore_unreachable` applied.
        ignored: bool,
    },
}

/// Result of a task on a host, or of one item of its loop.
#[derive(Debug, Clone)]
pub struct ResultEvent<R = Arc<TaskResult>> {
    /// The task.
    pub task: Arc<Task>,
    /// Name of the host.
    pub name: Arc<str>,
    /// Label of the host, including the one it was delegated to: `a -> b`.
    pub host: String,
    /// Status of the result.
    pub status: Status,
    /// The result, censored for `no_log`.
    pub result: R,
    /// Label of the item, if the result belongs to one.
    pub item: Option<String>,
    /// Whether this is the aggregate of a loop.
    pub looped: bool,
    /// Whether to show differences.
    pub diff: bool,
    /// Whether the result is hidden.
    pub no_log: bool,
    /// Error message with its location, for a failure.
    pub report: Option<String>,
}

/// An event of a run. `R` is the type of results: unmasked from tasks, or masked for callbacks.
#[derive(Debug, Clone)]
pub enum Event<R = Arc<TaskResult>> {
    /// A playbook starts.
    PlaybookStart {
        /// Path as given on the command line.
        path: String,
        /// Names of its plays, as written.
        plays: Vec<String>,
        /// Notified once the outputs are ready. Its sender waits for callbacks in Python, which measure time.
        ready: mpsc::UnboundedSender<()>,
    },
    /// A play starts, or its next batch (`serial`).
    PlayStart {
        /// Name of the play.
        name: String,
        /// Position of the play: `file:line`.
        path: Option<String>,
        /// Whether the play runs in check mode.
        check: bool,
        /// Number of the batch, from 0.
        batch: u32,
        /// Patterns of its hosts.
        hosts: Arc<[String]>,
    },
    /// A play has no hosts.
    NoHostsMatched,
    /// All hosts of the play have failed.
    NoHostsLeft,
    /// A task starts.
    TaskStart {
        /// Task that starts.
        task: Arc<Task>,
        /// Label of the task.
        name: String,
        /// Whether the task runs in check mode.
        check: bool,
        /// Whether to print the title only with the first result, because hosts do not wait for each other.
        lazy: bool,
    },
    /// A task starts on a host.
    HostStart {
        /// Name of the host.
        host: Arc<str>,
        /// Label of the task.
        name: String,
        /// Whether the task is a handler.
        handler: bool,
        /// The task.
        task: Arc<Task>,
    },
    /// A task or item has a result.
    Result(ResultEvent<R>),
    /// Result of an include on a host, for documents. [`Event::Included`] reports to people what was included.
    IncludeResult(ResultEvent<R>),
    /// The reported failure of a task does not count: an enclosing block rescues it, or the debugger repeats the task.
    Rescued {
        /// Name of the host.
        host: Arc<str>,
        /// Id of the task.
        task: u64,
    },
    /// A handler will run on a host.
    Notified {
        /// Name of the host.
        host: Arc<str>,
        /// The handler.
        handler: Arc<Task>,
    },
    /// Time spent on a part of a task (`--timings`, `--trace`).
    Spent {
        /// Name of the host.
        host: Arc<str>,
        /// Task that the time counts for.
        task: Arc<Task>,
        /// Start of that part.
        start: Instant,
        /// The part.
        on: Spending,
    },
    /// A task is retried.
    Retry {
        /// The task.
        of: Arc<Task>,
        /// Name of the host.
        host: String,
        /// Label of the task.
        task: String,
        /// Number of remaining attempts.
        left: u64,
        /// Result of the last attempt.
        result: R,
    },
    /// A background job was polled or has ended.
    Job {
        /// The task that started it.
        task: Arc<Task>,
        /// Name of the host.
        host: String,
        /// The job's id.
        id: String,
        /// State of the job.
        state: JobState,
    },
    /// A file or role was included.
    Included {
        /// The task that includes it.
        task: Arc<Task>,
        /// The file or role.
        what: String,
        /// Hosts that included it.
        hosts: Vec<String>,
        /// Label of the loop's item, if any.
        item: Option<String>,
    },
    /// Output of a running command.
    Live {
        /// Name of the host.
        host: String,
        /// Bytes of the output.
        bytes: Vec<u8>,
    },
    /// A line that a plugin in Python has printed.
    Printed {
        /// Name of the host that it worked for, if it is an action.
        host: Option<Arc<str>>,
        /// The line.
        line: String,
    },
    /// A warning to the user.
    Warning(String),
    /// A warning about a deprecated feature.
    Deprecation(String),
    /// A question or notice of `pause`.
    Notice(String),
    /// A detail for higher verbosity.
    Verbose {
        /// Number of `-v` required to print it.
        level: u8,
        /// Text of the detail.
        text: String,
    },
    /// A task waits for another run's lock on its host, or begins after that.
    Lock {
        /// Name of the task's host.
        host: Arc<str>,
        /// Whether the task still waits for the lock; otherwise it begins.
        waits: bool,
    },
    /// A line with stars.
    Banner(String),
    /// A question. Its sender waits until it is visible.
    Prompt {
        /// Text of the question.
        text: String,
        /// Notified once the question is visible.
        shown: mpsc::UnboundedSender<()>,
    },
    /// A signal ends the run.
    Interrupted {
        /// Name of the signal.
        signal: &'static str,
    },
    /// The run has a journal.
    Recorded {
        /// Id of the run.
        run: String,
    },
    /// Times of an earlier run of the same playbooks.
    Forecast(Arc<Forecast>),
    /// Summary per host at the end.
    Recap(Recap),
    /// The run ends with an error.
    Error {
        /// The message.
        message: String,
        /// Place of the error: `file:line:column`.
        place: Option<String>,
    },
    /// The exit code is known.
    Exit {
        /// The exit code.
        code: u8,
    },
    /// The last event.
    End,
}

/// A part of a task that takes time.
#[derive(Debug, Clone, Copy)]
pub enum Spending {
    /// Evaluation of conditions and arguments, with its duration.
    Template(Duration),
    /// A request to the host.
    Request(Cost),
}

/// State of a background job that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// The job was polled.
    Polled {
        /// Whether the job has started, as displayed.
        started: String,
        /// Whether the job has finished, as displayed.
        finished: String,
    },
    /// The job succeeded.
    Ok,
    /// The job failed.
    Failed,
}

/// Summary of a run.
#[derive(Debug, Clone, Default)]
pub struct Recap {
    /// Counts per host.
    pub hosts: IndexMap<Arc<str>, Stats>,
    /// Statistics from `set_stats`.
    pub custom: Arc<CustomStats>,
}

/// Counts of tasks on one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Successful tasks, including changed ones.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks that could not reach the host.
    pub unreachable: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Skipped tasks.
    pub skipped: u32,
    /// Failures that were rescued.
    pub rescued: u32,
    /// Failures that were ignored.
    pub ignored: u32,
}

impl Stats {
    /// Counts under the names used by Ansible's callbacks.
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

/// Position as `file:line`; `None` for generated code.
pub(crate) fn place(span: &windlass_yaml::Span) -> Option<String> {
    let file = || crate::paths::absolute(std::path::Path::new(&*span.source.name));
    span.is_located().then(|| format!("{}:{}", file().display(), span.line))
}

/// Position of a task.
pub(super) fn path_of(task: &Task) -> Option<String> {
    place(&task.span)
}

/// Arguments of a task as written: `name=value, name=value`. `target` is the rendered path of its change, if known.
pub(super) fn arguments_of(task: &Task, target: Option<&str>) -> String {
    let name = target.and_then(|_| crate::builtin::target(task.short_action(), |name| task.args.contains_key(name)));
    let shown = task.args.iter().map(|(key, node)| match target.filter(|_| key.as_str() == name) {
        Some(path) => format!("{}={path}", key.to_text()),
        None => format!("{}={}", key.to_text(), windlass_yaml::python_str(node)),
    });
    shown.collect::<Vec<String>>().join(", ")
}
