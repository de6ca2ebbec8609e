//! Records of a journal, one per line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::object::ObjectText;

/// Version of the format; journals of other versions are refused.
pub const VERSION: u32 = 1;

/// One line of a journal, which [`Record::read`] reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum Record {
    /// The first line.
    Run(Box<Header>),
    /// A file was read.
    File(FileRead),
    /// A play starts.
    Play(PlayStart),
    /// A task is about to be sent.
    Sent(Sent),
    /// An item of a loop has a result.
    Item(Box<ItemDone>),
    /// A task on a host has a result.
    Done(Box<Done>),
    /// The run is alive.
    Alive(Alive),
    /// The run has ended.
    End(End),
}

/// The kind of a record, its first field.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Run,
    File,
    Play,
    Sent,
    Item,
    Done,
    Alive,
    End,
}

impl Record {
    /// Reads a line. The kind is looked up first: an enum with the kind as its tag would be read into a tree.
    pub fn read(line: &[u8]) -> serde_json::Result<Record> {
        #[derive(Deserialize)]
        struct Tagged {
            t: Kind,
        }
        Ok(match serde_json::from_slice::<Tagged>(line)?.t {
            Kind::Run => Record::Run(serde_json::from_slice(line)?),
            Kind::File => Record::File(serde_json::from_slice(line)?),
            Kind::Play => Record::Play(serde_json::from_slice(line)?),
            Kind::Sent => Record::Sent(serde_json::from_slice(line)?),
            Kind::Item => Record::Item(serde_json::from_slice(line)?),
            Kind::Done => Record::Done(serde_json::from_slice(line)?),
            Kind::Alive => Record::Alive(serde_json::from_slice(line)?),
            Kind::End => Record::End(serde_json::from_slice(line)?),
        })
    }
}

/// The run, with the inputs that a run must share to resume it.
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
    /// Login name on the controller.
    pub user: String,
    /// Host name of the controller.
    pub machine: String,
    /// Process id.
    pub pid: u32,
    /// Whether the run was a dry run (`--check`).
    pub check: bool,
    /// The command line, with secrets masked.
    pub argv: Vec<String>,
    /// Whether nothing in `argv` is masked or left out, so that it can be run again.
    #[serde(skip_serializing_if = "is_false")]
    pub whole: bool,
    /// Working directory of the controller; empty in journals of earlier releases.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Absolute paths of the playbooks.
    pub playbooks: Vec<String>,
    /// Inventory sources, with absolute paths.
    pub inventory: Vec<String>,
    /// `--limit`.
    pub limit: Option<String>,
    /// `--tags`.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Salt for the hashes of extra variables, hosts and secret items.
    pub salt: String,
    /// Whether places of tasks have hashes of secret items of loops; earlier releases record none.
    #[serde(skip_serializing_if = "is_false")]
    pub keyed: bool,
    /// Extra variables by name, each as a salted hash.
    pub extra_vars: BTreeMap<String, String>,
    /// Salted hash of hosts, groups and variables of an inventory that a program makes; empty if no program does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hosts: String,
    /// Options and settings that change how and as whom tasks run, by the name of the option.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Id of the run that this one resumes.
    pub resumes: Option<String>,
    /// Number of runs of several processes so far, this one and those that it resumes; 0 if all had one.
    #[serde(skip_serializing_if = "is_zero")]
    pub leads: u32,
    /// Start of the first of them, in UTC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// Kind of an input of the control machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A file that was read.
    #[default]
    File,
    /// A file that was missing.
    Missing,
    /// The names of the files that match a pattern.
    Search,
    /// The names of the entries of a directory.
    Folder,
    /// An environment variable.
    Environment,
    /// The answer to a prompt of a play (`vars_prompt`).
    Prompt,
    /// Variables that vars plugins gave to a group or host.
    Vars,
    /// Further inputs, which are not recorded.
    Rest,
}

impl InputKind {
    fn is_file(&self) -> bool {
        *self == InputKind::File
    }
}

/// A file or another input that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileRead {
    /// Its absolute path; the pattern of a search, or the name of a variable. Of a prompt, the number of its play, `/`
    /// and its variable; of a vars plugin, the file that its variables would have. Parts that contain a secret are
    /// masked.
    pub path: String,
    /// Hashes of the masked parts, with the journal's salt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// SHA-256 of its bytes, of the names that a search or a directory has, or of the journal's salt and the value of a
    /// variable. Of a large file, the hash of its start, its size and its time of change. Empty for what is missing.
    pub sha256: String,
    /// Kind of input.
    #[serde(default, skip_serializing_if = "InputKind::is_file")]
    pub kind: InputKind,
    /// Whether a task or a template read it, so that tasks may have made it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub source: bool,
    /// Whether it belongs to the inventory, where a new file counts as a difference too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inventory: bool,
}

/// A play starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlayStart {
    /// Its number in the run, from 0.
    pub play: u32,
    /// Name of the play.
    pub name: String,
    /// Its hosts in order, if the order is random.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

/// Position of a task in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct At {
    /// Number of the play in the run.
    pub play: u32,
    /// Number of the batch in the play.
    pub batch: u32,
    /// Path through blocks, roles and includes: part and index of every level.
    pub path: Arc<str>,
    /// File position of the task, and its action.
    pub task: Arc<str>,
}

/// A task is about to be sent to a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The task.
    pub at: At,
    /// Name of the host.
    pub host: String,
    /// Handlers that a change will notify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// Masked arguments, of a loop the first item's; empty if they are secret, too long or not known.
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub args: ObjectText,
    /// Whether a run of one process sent it, although a run that it resumes, or that resumes it, has several.
    #[serde(default, skip_serializing_if = "is_false")]
    pub alone: bool,
    /// A time before the task was sent, in milliseconds since 1970 in UTC. Only copies in a journal of a run that
    /// resumes another have it; readers add it to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// Reason why a result is not stored unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// Hidden by `no_log`.
    NoLog,
    /// Contains a secret, which is masked.
    Masked,
    /// Exceeds the size limit.
    Size,
    /// The journal has room for no more results.
    Full,
    /// Nests lists and mappings too deeply.
    Depth,
    /// Repeated in any case: facts are gathered, hosts added and variables included again.
    Again,
}

impl Withheld {
    /// The reason as part of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Withheld::NoLog => "its result is hidden by no_log",
            Withheld::Masked => "its result contains a secret",
            Withheld::Size => "its result is too large for the journal",
            Withheld::Full => "the journal had no room for its result",
            Withheld::Depth => "its result nests too deeply for the journal",
            Withheld::Again => "its effect is evaluated again",
        }
    }
}

/// Flags of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Whether something changed.
    #[serde(skip_serializing_if = "is_false")]
    pub changed: bool,
    /// Whether it failed.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// Whether it was skipped.
    #[serde(skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// Whether the host was unreachable.
    #[serde(skip_serializing_if = "is_false")]
    pub unreachable: bool,
    /// Whether the failure is ignored.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored: bool,
}

/// Result of a loop's item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemDone {
    /// The task.
    pub at: At,
    /// Name of the host.
    pub host: String,
    /// Number of the item, from 0.
    pub index: u32,
    /// Short name of the action.
    pub action: String,
    /// Flags of the result.
    pub status: Status,
    /// Host that the item was delegated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// The masked result.
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub result: ObjectText,
    /// Values of the result that JSON lacks, by name, in the form of [`windlass_template::to_exact`].
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub exact: ObjectText,
    /// Origins of the texts that `set_fact` has set, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, String>,
    /// Reason why the result is withheld or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Groups, hosts or facts that the task added to the run, masked. A resumed run evaluates them again, except for
    /// the time; explanations read them.
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub effect: ObjectText,
    /// Start, in milliseconds since 1970 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

/// Result of a task on a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The task.
    pub at: At,
    /// Name of the host.
    pub host: String,
    /// Short name of the action.
    pub action: String,
    /// Flags of the result.
    pub status: Status,
    /// Whether one host ran it for all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// Whether it is a handler.
    #[serde(default, skip_serializing_if = "is_false")]
    pub handler: bool,
    /// Whether an enclosing block rescues its failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rescuable: bool,
    /// Whether later tasks may read the result: it is registered or contains facts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kept: bool,
    /// Number of items if it is a loop; their results are separate records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// Handlers it notified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// Host that it was delegated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// Whether facts belong to that host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delegate_facts: bool,
    /// The masked result.
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub result: ObjectText,
    /// Values of the result that JSON lacks, by name, in the form of [`windlass_template::to_exact`].
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub exact: ObjectText,
    /// Origins of the texts that `set_fact` has set, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, String>,
    /// Reason why the result is withheld or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Hash of the variables, hosts and groups that the task gave the run, if a resumed run evaluates them again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Groups, hosts or facts that the task added to the run, masked. A resumed run evaluates them again, except for
    /// the time; explanations read them.
    #[serde(default, skip_serializing_if = "ObjectText::is_empty")]
    pub effect: ObjectText,
    /// Start, in milliseconds since 1970 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
    /// Error report of a failure, masked: the message with its place and excerpt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// A sign of life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Its time, in milliseconds since 1970 in UTC.
    pub at: u64,
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Time of the end, in UTC.
    pub ended: String,
    /// Exit code; 99 if the run was interrupted.
    pub code: u8,
    /// Hosts that failed or were unreachable.
    pub failed: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
