//! The document of a plan, as `--format json` prints it and a plan file holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::FileRead;

/// Name of the schema.
pub const SCHEMA: &str = "windlass.plan";
/// Version of the schema; files of other versions are refused.
pub const VERSION: u32 = 1;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Version of the schema.
    pub version: u32,
    /// Version of Windlass.
    pub windlass: String,
    /// Time at which the plan was complete, in UTC.
    pub created: String,
    /// The run that was planned.
    pub request: Request,
    /// Files of the project and inventory that were read.
    pub inputs: Vec<FileRead>,
    /// Fingerprints of gathered facts, by host and name.
    pub facts: BTreeMap<String, BTreeMap<String, String>>,
    /// Counts of all hosts.
    pub totals: Counts,
    /// Counts by host.
    pub hosts: BTreeMap<String, Counts>,
    /// Tasks that would change something, are unknown or failed, in the order of the run.
    pub tasks: Vec<Planned>,
}

/// The run that was planned: options that a plan file may carry. None of them holds code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Playbooks with absolute paths.
    pub playbooks: Vec<String>,
    /// Current directory, which configuration and relative paths depend on.
    pub directory: String,
    /// Inventory sources (`-i`); empty for the configured ones.
    pub inventory: Vec<String>,
    /// Options with one value, by name without dashes: `limit`, `user`.
    pub options: BTreeMap<String, String>,
    /// Options without a value: `become`.
    pub flags: Vec<String>,
    /// `--tags`.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Extra variables in their order.
    pub extra_vars: Vec<ExtraVars>,
    /// Options that `windlass apply` needs again, because a plan file must not carry their values.
    pub repeat: Vec<String>,
    /// Salt of `vars`.
    pub salt: String,
    /// All extra variables by name, each as a salted hash.
    pub vars: BTreeMap<String, String>,
}

/// Extra variables that a plan file may carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExtraVars {
    /// `-e @FILE`.
    File(String),
    /// Values that are data, never templates.
    Values(BTreeMap<String, Value>),
}

/// Number of tasks, by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Tasks that would change something.
    pub change: u32,
    /// Tasks that would change nothing.
    pub unchanged: u32,
    /// Tasks whose outcome only a run shows.
    pub unknown: u32,
    /// Tasks that fail.
    pub failed: u32,
    /// Tasks whose condition is false.
    pub skipped: u32,
    /// Commands that a plan does not run and that change nothing (`changed_when: false`).
    pub not_run: u32,
}

impl Counts {
    /// Count of this status.
    pub fn of(&mut self, status: Status) -> &mut u32 {
        match status {
            Status::Change => &mut self.change,
            Status::Unchanged => &mut self.unchanged,
            Status::Unknown => &mut self.unknown,
            Status::Failed => &mut self.failed,
            Status::Skipped => &mut self.skipped,
            Status::NotRun => &mut self.not_run,
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |sum, one| Counts {
            change: sum.change.saturating_add(one.change),
            unchanged: sum.unchanged.saturating_add(one.unchanged),
            unknown: sum.unknown.saturating_add(one.unknown),
            failed: sum.failed.saturating_add(one.failed),
            skipped: sum.skipped.saturating_add(one.skipped),
            not_run: sum.not_run.saturating_add(one.not_run),
        })
    }
}

/// Expectation of a task on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The task would change something.
    Change,
    /// The task would change nothing.
    Unchanged,
    /// Only the run knows.
    Unknown,
    /// The task fails, or the host is unreachable.
    Failed,
    /// The task's condition is false.
    Skipped,
    /// A command that a plan does not run, and that changes nothing.
    NotRun,
}

/// A task with equal expectations on some hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Name of the play.
    pub play: String,
    /// Name of the task, with its role.
    pub task: String,
    /// Position of the task: `file:line`.
    pub place: String,
    /// Name of the action as written.
    pub action: String,
    /// The hosts.
    pub hosts: Vec<String>,
    /// Worst status of its parts.
    pub status: Status,
    /// Whether the task has run already, because it has `check_mode: false`.
    pub ran: bool,
    /// Handlers that the task notifies if it changes something, as written. Their own changes are unknown with it.
    pub notifies: Vec<String>,
    /// The task itself, or each item of its loop.
    pub parts: Vec<Part>,
}

/// A task, or an item of its loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Label of the item.
    pub item: Option<String>,
    /// Expectation.
    pub status: Status,
    /// Message of a failure, or reason why the part is unknown.
    pub reason: Option<String>,
    /// Command that would run.
    pub command: Option<String>,
    /// Arguments as written, with the rendered path of the change, if nothing else describes it.
    pub arguments: Option<String>,
    /// Values that would change.
    pub attributes: Vec<Attribute>,
    /// Contents that would change.
    pub differences: Vec<Difference>,
}

/// A value that would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// Name of the attribute: `mode`.
    pub name: String,
    /// Present value; null if there is none.
    pub from: Value,
    /// Value after the change; null if there is none.
    pub to: Value,
}

/// Content that would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Path or name of the content.
    pub path: String,
    /// Unified diff without its header, or the module's own description; long ones are cut.
    pub text: String,
    /// Number of lines that were cut.
    pub omitted: usize,
    /// SHA-256 of the whole text.
    pub sha256: String,
}

impl Document {
    /// Whether a run would change something, or may.
    pub fn has_changes(&self) -> bool {
        self.totals.change > 0 || self.totals.unknown > 0
    }
}
