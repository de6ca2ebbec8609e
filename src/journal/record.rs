//! Records of a journal, as they stand in its lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the format; a journal of another one is not read.
pub const VERSION: u32 = 1;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum Record {
    /// The first line.
    Run(Box<Header>),
    /// A file was read.
    File(FileRead),
    /// A play begins.
    Play(PlayStart),
    /// A task is about to be sent.
    Sent(Sent),
    /// An item of a loop has its result.
    Item(Box<ItemDone>),
    /// A task on a host has its result.
    Done(Box<Done>),
    /// The run has ended.
    End(End),
}

/// The run, and the inputs that a run to resume it must share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Version of Windlass.
    pub windlass: String,
    /// The run's id.
    pub run: String,
    /// Start, in UTC.
    pub started: String,
    /// Login name on the control machine.
    pub user: String,
    /// Name of the control machine.
    pub machine: String,
    /// Process id.
    pub pid: u32,
    /// Nothing was to be changed (`--check`).
    pub check: bool,
    /// The command line, secrets masked.
    pub argv: Vec<String>,
    /// Absolute paths of the playbooks.
    pub playbooks: Vec<String>,
    /// Inventory sources, paths made absolute.
    pub inventory: Vec<String>,
    /// `--limit`.
    pub limit: Option<String>,
    /// `--tags`.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Mixed into the hashes of extra variables.
    pub salt: String,
    /// Extra variables by name, each as a salted hash.
    pub extra_vars: BTreeMap<String, String>,
    /// The run that this one resumes.
    pub resumes: Option<String>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRead {
    /// Its absolute path.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// It belongs to the inventory, where a new file is a difference, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inventory: bool,
}

/// A play begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlayStart {
    /// Its number in the run, from 0.
    pub play: u32,
    /// Its name.
    pub name: String,
    /// Its hosts in order, if the order is random.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

/// The place of a task in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct At {
    /// Number of the play in the run.
    pub play: u32,
    /// Number of the batch in the play.
    pub batch: u32,
    /// Path through blocks, roles and includes: part and index of every level.
    pub path: Arc<str>,
    /// Where the task is written, and its action.
    pub task: Arc<str>,
}

/// A task is about to be sent to a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The task.
    pub at: At,
    /// The host.
    pub host: String,
    /// Handlers that a change will notify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
}

/// Reason why a result is not in the journal unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// It stood under `no_log`.
    NoLog,
    /// It held a secret, which is masked.
    Masked,
    /// It was too large.
    Size,
    /// The task is done again in any case: facts are gathered, hosts added and variables included again.
    Again,
}

impl Withheld {
    /// The reason as part of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Withheld::NoLog => "its result is hidden by no_log",
            Withheld::Masked => "its result holds a secret",
            Withheld::Size => "its result is too large for the journal",
            Withheld::Again => "its effect is evaluated again",
        }
    }
}

/// Flags of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Something was changed.
    #[serde(skip_serializing_if = "is_false")]
    pub changed: bool,
    /// It failed.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// It was not run.
    #[serde(skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// The host could not be reached.
    #[serde(skip_serializing_if = "is_false")]
    pub unreachable: bool,
    /// The failure is ignored.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored: bool,
}

/// An item of a loop has its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemDone {
    /// The task.
    pub at: At,
    /// The host.
    pub host: String,
    /// The item's number, from 0.
    pub index: u32,
    /// The action.
    pub action: String,
    /// Flags of the result.
    pub status: Status,
    /// The host the item was delegated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// The masked result.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub result: Map<String, Value>,
    /// Reason why the result was withheld or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// A task on a host has its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The task.
    pub at: At,
    /// The host.
    pub host: String,
    /// The action.
    pub action: String,
    /// Flags of the result.
    pub status: Status,
    /// One host ran it for all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// It is a handler.
    #[serde(default, skip_serializing_if = "is_false")]
    pub handler: bool,
    /// Something around it rescues its failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rescuable: bool,
    /// Later tasks may read the result: it is registered, or has facts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kept: bool,
    /// Number of items, if it is a loop; their results are records of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// Handlers it notified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// The host it was delegated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// Facts belong to that host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delegate_facts: bool,
    /// The masked result.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub result: Map<String, Value>,
    /// Reason why the result was withheld or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// The run has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// End, in UTC.
    pub ended: String,
    /// The exit code; 99 if it was interrupted.
    pub code: u8,
    /// Hosts that failed or could not be reached.
    pub failed: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}
