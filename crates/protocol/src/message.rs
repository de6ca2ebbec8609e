use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_secret::Secret;

use crate::{Holder, LockTerms, Locking};

/// What the controller sends. `V` is the value type of the sender: the controller has its own, the executor reads plain JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "V: Deserialize<'de>", serialize = "V: Serialize"))]
pub enum ToExecutor<V> {
    /// The terms on which requests of this connection lock the host. Not answered.
    Lock(LockTerms),
    /// Run a module. The frame's blob holds the contents of [`Request::contents`] that travel along, one after the other.
    Run(Request<V>),
    /// The next piece of a content that was asked for with [`Event::NeedContent`]; the piece is the blob.
    Content {
        /// The request it belongs to.
        id: u64,
        /// Index into [`Request::contents`].
        content: usize,
        /// No further piece follows.
        last: bool,
    },
    /// Stop a running request: its process group gets SIGTERM, then SIGKILL.
    Cancel {
        /// The request to stop.
        id: u64,
    },
    /// Answer with [`Reply::Pong`] from the process that runs the request.
    Ping {
        /// The request.
        id: u64,
    },
}

/// One module run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request<V> {
    /// Chosen by the controller, unique on this connection; replies carry it.
    pub id: u64,
    /// The module's name, short or fully qualified.
    pub module: String,
    /// The module's arguments, fully templated.
    pub args: V,
    /// Predict only: nothing may be changed.
    #[serde(default)]
    pub check: bool,
    /// The whole run is such a prediction, so that what earlier tasks would have made is not there.
    #[serde(default)]
    pub dry_run: bool,
    /// Report what changes as a diff.
    #[serde(default)]
    pub diff: bool,
    /// How large a text may be that a diff is made of, in bytes; 0 is no limit. The executor's own limit if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_diff: Option<u64>,
    /// The environment of every process the module starts.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Seconds after which the run is stopped and failed; 0 is no limit.
    #[serde(default)]
    pub timeout: u64,
    /// Run as another user, in an executor of that user's own.
    #[serde(default, rename = "become", skip_serializing_if = "Option::is_none")]
    pub become_user: Option<Become>,
    /// Files of the controller that the module may use, in the order of the blob.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<Content>,
    /// Send the lines of a running command as [`Event::Output`].
    #[serde(default)]
    pub stream: bool,
    /// Run on after an answer that only says where the result will be (`async`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<Detached>,
    /// Its turn among the requests that are sent ahead, without waiting for each other's answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The lock on the host that it needs, on the terms of [`ToExecutor::Lock`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Locking>,
}

/// A run that outlives its answer, the connection and the executor that started it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Detached {
    /// The job's id. The controller chooses its beginning, the executor adds the number of the process.
    pub job: String,
    /// The folder of the job's file; `~` is the home of the user it runs as.
    pub directory: String,
    /// Seconds after which the job is stopped and failed.
    pub limit: u64,
}

/// Requests with a turn run one after the other, in the order they came.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Turn {
    /// Which requests belong together.
    pub sequence: u64,
    /// Its place there: it is not run once one of an earlier step has failed; the answer is then [`Event::NotRun`]. Items of a loop share
    /// one step.
    pub step: u32,
}

/// The programs by which one becomes another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BecomeMethod {
    /// `sudo`.
    Sudo,
    /// `su`.
    Su,
    /// `doas`.
    Doas,
}

impl BecomeMethod {
    /// Every method.
    pub const ALL: [BecomeMethod; 3] = [BecomeMethod::Sudo, BecomeMethod::Su, BecomeMethod::Doas];

    /// What the method and its program are called.
    pub fn name(self) -> &'static str {
        match self {
            BecomeMethod::Sudo => "sudo",
            BecomeMethod::Su => "su",
            BecomeMethod::Doas => "doas",
        }
    }

    /// The method of this name.
    pub fn named(name: &str) -> Option<BecomeMethod> {
        BecomeMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

impl std::fmt::Display for BecomeMethod {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How another user's executor is started. The password is only ever written to the prompt, never into argv or the environment.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Become {
    /// The program that does it.
    pub method: BecomeMethod,
    /// The user to become.
    pub user: String,
    /// Another program than the method's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    /// Flags instead of the method's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// The password to answer the prompt with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Seconds to wait for the prompt and for the executor's start.
    pub timeout: u64,
}

impl std::fmt::Debug for Become {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Become").field("method", &self.method).field("user", &self.user).finish_non_exhaustive()
    }
}

/// A file of the controller that a request refers to by its index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Content {
    /// Where it comes from, for messages.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-1 in hex, which modules compare with what the host has (Ansible's `checksum`).
    pub sha1: String,
    /// Its permission bits, for `mode: preserve`.
    pub mode: u32,
    /// How it reaches the executor.
    pub delivery: Delivery,
}

/// How a content reaches the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// In the blob of the request's own frame: small files cost no further round trip.
    Inline,
    /// Only after [`Event::NeedContent`]: a large file that the host already has is never sent.
    OnDemand,
}

/// What the executor sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "V: Deserialize<'de>", serialize = "V: Serialize"))]
pub enum Reply<V> {
    /// The first frame of a session.
    Hello(Hello),
    /// Something that happens while a request runs.
    Event {
        /// The request.
        id: u64,
        /// What happened.
        event: Event,
    },
    /// The request is done; exactly one for each request. Of a module that fetches a file the last piece may be in the blob.
    Done {
        /// The request.
        id: u64,
        /// The module's result, as a mapping with Ansible's keys.
        result: V,
        /// How long it took on the host.
        #[serde(default)]
        spent: Spent,
    },
    /// The process that runs the request answers a [`ToExecutor::Ping`].
    Pong {
        /// The request.
        id: u64,
    },
}

/// How long a request took on the host, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// It waited for its turn.
    pub waited: u64,
    /// Its module ran.
    pub ran: u64,
}

/// Something that happens while a request runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Output of a running command; the bytes are the blob.
    Output {
        /// Which of its streams.
        stream: Stream,
    },
    /// The module needs a content that was not sent along.
    NeedContent {
        /// Index into [`Request::contents`].
        content: usize,
    },
    /// A piece of a file for the controller (`fetch`); the bytes are the blob.
    FileData,
    /// A warning for the user.
    Warning {
        /// A whole sentence.
        message: String,
    },
    /// A request of an earlier step of its sequence has failed, so it was not run.
    NotRun,
    /// Another run holds the host's lock; repeated as a sign of life.
    LockWait {
        /// Who holds it.
        holder: Holder,
        /// Seconds waited so far.
        waited: u64,
        /// Seconds left before the request is refused.
        left: u64,
    },
    /// The lock was taken after a wait; the request runs.
    LockTaken,
    /// Another run holds the host's lock and was not waited for any longer; nothing was run.
    LockRefused {
        /// Who holds it.
        holder: Holder,
        /// Seconds waited.
        waited: u64,
    },
    /// The user's executor could not be started (`become`): nothing was run.
    BecomeFailed {
        /// A whole sentence.
        message: String,
    },
}

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Who answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the executor.
    pub protocol: u32,
    /// The executor's process id.
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// `/proc/sys/kernel/random/boot_id`, to notice a reboot between two tasks.
    pub boot_id: String,
}
