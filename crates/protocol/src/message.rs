//! Messages of both directions: [`ToExecutor`] from the controller, [`Reply`] from the executor.
//!
//! A change of these types is a change of the protocol and needs another [`crate::PROTOCOL_VERSION`].

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};
use windlass_secret::Secret;

use crate::{Holder, LockTerms, Locking, Shard};

/// Messages of the controller. `V` is the sender's value type: the controller has its own, the executor reads plain
/// JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "V: Deserialize<'de>", serialize = "V: Serialize"))]
pub enum ToExecutor<V> {
    /// Terms on which requests of this connection lock the host. Not answered.
    Lock(LockTerms),
    /// Runs a module. The frame's blob holds the inline contents of [`Request::contents`], concatenated.
    Run(Request<V>),
    /// The next piece of a content requested by [`Event::NeedContent`]; the blob is the piece.
    Content {
        /// Request that needs the content.
        id: u64,
        /// Index into [`Request::contents`].
        content: usize,
        /// No further piece follows.
        last: bool,
    },
    /// Names another host that sends a content, instead of its pieces. Only for contents requested as
    /// [`Event::NeedContent::whole`].
    Peer {
        /// Request that needs the content.
        id: u64,
        /// Index into [`Request::contents`].
        content: usize,
        /// The other host.
        peer: Peer,
    },
    /// Stops a running request: its process group gets SIGTERM, then SIGKILL.
    Cancel {
        /// Request to stop.
        id: u64,
    },
    /// The run has ended in order: results that are kept for another process of the run are not needed any more.
    End,
    /// Asks the process that runs a request to answer with [`Reply::Pong`].
    Ping {
        /// The request.
        id: u64,
    },
}

/// One module run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request<V> {
    /// Id chosen by the controller, unique on this connection; replies carry it.
    pub id: u64,
    /// Module name, short or fully qualified.
    pub module: String,
    /// Module arguments, fully templated.
    pub args: V,
    /// Predicts only and changes nothing.
    #[serde(default)]
    pub check: bool,
    /// The whole run only predicts, so changes that earlier tasks predicted are missing on the host.
    #[serde(default)]
    pub dry_run: bool,
    /// Reports changes as a diff.
    #[serde(default)]
    pub diff: bool,
    /// Maximum size of a text that is diffed, in bytes; 0 means no limit, `None` the executor's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_diff: Option<u64>,
    /// Environment of every process that the module starts.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Seconds after which the request is stopped and fails; 0 means no limit.
    #[serde(default)]
    pub timeout: u64,
    /// Runs as another user, in that user's own executor.
    #[serde(default, rename = "become", skip_serializing_if = "Option::is_none")]
    pub become_user: Option<Become>,
    /// Files of the controller that the module may use, in the order of the blob.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<Content>,
    /// Sends the lines of a running command as [`Event::Output`].
    #[serde(default)]
    pub stream: bool,
    /// Keeps running after an answer that only names the job (`async`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<Detached>,
    /// Position among pipelined requests, which are sent without waiting for each other's answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Lock that the request needs on the host, on the terms of [`ToExecutor::Lock`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Locking>,
    /// Identity in a run of several processes, which run the request once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flight: Option<Box<Flight>>,
}

/// Identity of a request in a run of several processes. Its result stays on the host until the run has recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    /// Id of the request, in [`Flight::ID`] hex digits. Every process of the run derives the same id for the same
    /// request.
    pub id: String,
    /// Requests whose results the run has recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<String>,
    /// Runs the request again although the host has its result, because the user asked for that.
    #[serde(default)]
    pub again: bool,
    /// Set if another process is likely to have sent the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Former>,
}

impl Flight {
    /// Length of an id.
    pub const ID: usize = 32;
}

/// A process that may have sent a request before it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Part of the lost process, with the token of its successor. `None` if the whole run was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Seconds since the lost process may have sent the request.
    pub age: u64,
    /// Whether the request runs again if its outcome is unknown.
    #[serde(default)]
    pub repeats: bool,
}

impl<V> Request<V> {
    /// A request with nothing but a module and its arguments.
    pub fn new(module: impl Into<String>, args: V) -> Request<V> {
        Request {
            id: 0,
            module: module.into(),
            args,
            check: false,
            dry_run: false,
            diff: false,
            max_diff: None,
            environment: BTreeMap::new(),
            timeout: 0,
            become_user: None,
            contents: Vec::new(),
            stream: false,
            detached: None,
            turn: None,
            lock: None,
            flight: None,
        }
    }
}

/// A run that outlives its answer, its connection and the executor that started it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Detached {
    /// Job id. The controller chooses its beginning; the executor appends the process id.
    pub job: String,
    /// Folder of the job's file; `~` is the home of the user the job runs as.
    pub directory: String,
    /// Seconds after which the job is stopped and fails.
    pub limit: u64,
    /// Name of the file by which the job holds the host lock; empty without one. The executor sets it.
    #[serde(default)]
    pub lock: String,
}

/// Position in a sequence of pipelined requests; these run one after the other, in the order of arrival.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Turn {
    /// Identifies the sequence.
    pub sequence: u64,
    /// Step within the sequence. If a request of an earlier step failed, this one is answered with [`Event::NotRun`].
    /// Items of a loop share one step.
    pub step: u32,
}

/// Programs that switch to another user.
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

    /// Name of the method and of its program.
    pub fn name(self) -> &'static str {
        match self {
            BecomeMethod::Sudo => "sudo",
            BecomeMethod::Su => "su",
            BecomeMethod::Doas => "doas",
        }
    }

    /// Looks up a method by name.
    pub fn named(name: &str) -> Option<BecomeMethod> {
        BecomeMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

impl std::fmt::Display for BecomeMethod {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Terms for starting another user's executor. The password only goes to the prompt, never into argv or the
/// environment.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Become {
    /// Program that switches the user.
    pub method: BecomeMethod,
    /// User to become.
    pub user: String,
    /// Program to use instead of the method's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    /// Flags to use instead of the method's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// Password for the prompt.
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

/// A file of the controller, referenced by its index in a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Content {
    /// Origin, for messages.
    pub name: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-1 in hex, which modules compare with the host's file (Ansible's `checksum`).
    pub sha1: String,
    /// SHA-256 in hex, if hosts may pass the content on to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Permission bits, for `mode: preserve`.
    pub mode: u32,
    /// Transfer to the executor.
    pub delivery: Delivery,
}

/// A host that sends one content to another, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peer {
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Name of this transfer, [`TICKET`] bytes in hex. It is sent in clear and accepted once.
    pub ticket: String,
    /// Key of this transfer, 32 bytes in hex.
    pub key: Secret,
}

/// Length of a [`Peer::ticket`], in bytes.
pub const TICKET: usize = 16;

/// Name in requests for the action that makes a host send a content it has received to another host; its arguments are
/// an [`Offer`], its result has the `port`.
pub const OFFER: &str = "windlass.offer";

/// Arguments of [`OFFER`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offer {
    /// SHA-256 of the content, in hex.
    pub sha256: String,
    /// Address to listen on; port 0 selects any free port.
    pub address: SocketAddr,
    /// As in [`Peer::ticket`].
    pub ticket: String,
    /// As in [`Peer::key`].
    pub key: Secret,
}

/// Transfer of a content to the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Within the blob of the request's own frame: small files cost no further round trip.
    Inline,
    /// Only after [`Event::NeedContent`]: a large file that the host already has is never sent.
    OnDemand,
}

/// Messages of the executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "V: Deserialize<'de>", serialize = "V: Serialize"))]
pub enum Reply<V> {
    /// The first frame of a session.
    Hello(Hello),
    /// Progress of a running request.
    Event {
        /// The request.
        id: u64,
        /// Event with its data.
        event: Event,
    },
    /// A request is done; sent exactly once for each request. When fetching a file, the blob may hold the last piece.
    Done {
        /// The request.
        id: u64,
        /// The module's result, a mapping with Ansible's keys.
        result: V,
        /// Time spent on the host.
        #[serde(default)]
        spent: Spent,
    },
    /// Answer to [`ToExecutor::Ping`] from the process that runs the request.
    Pong {
        /// The request.
        id: u64,
    },
}

/// Time that a request took on the host, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Time waiting for its turn.
    pub waited: u64,
    /// Time running its module.
    pub ran: u64,
}

/// Progress of a running request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Output of a running command; the blob holds the bytes.
    Output {
        /// The stream.
        stream: Stream,
    },
    /// The module needs a content that did not travel with the request.
    NeedContent {
        /// Index into [`Request::contents`].
        content: usize,
        /// The module stores the whole content and can begin again, so another host may send it.
        #[serde(default)]
        whole: bool,
    },
    /// A piece of a file for the controller (`fetch`); the blob holds the bytes.
    FileData,
    /// A warning for the user.
    Warning {
        /// Message, as a whole sentence.
        message: String,
    },
    /// The request was not run because one of an earlier step in its sequence failed.
    NotRun,
    /// Another run holds the host's lock. Repeated as a sign of life.
    LockWait {
        /// The holder of the lock.
        holder: Holder,
        /// Seconds waited so far.
        waited: u64,
        /// Seconds left before the request is refused.
        left: u64,
    },
    /// The lock was acquired after a wait; the request runs.
    LockTaken,
    /// Another run still held the host's lock at the end of the wait; nothing was run.
    LockRefused {
        /// The holder of the lock.
        holder: Holder,
        /// Seconds waited.
        waited: u64,
    },
    /// A lost process of the run sent this request, and nothing has its result. It was not sent again.
    Unknown {
        /// Message, as a whole sentence.
        message: String,
    },
    /// Something of a lost executor still runs on the host ([`LockTerms::after`]); nothing was run.
    Refused {
        /// Message, as a whole sentence.
        message: String,
    },
    /// The other user's executor could not be started (`become`); nothing was run.
    BecomeFailed {
        /// Message, as a whole sentence.
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

/// Greeting of the executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the executor.
    pub protocol: u32,
    /// The executor's process id.
    pub pid: u32,
    /// User id it runs as.
    pub uid: u32,
    /// `/proc/sys/kernel/random/boot_id`, for detecting a reboot between two tasks.
    pub boot_id: String,
}
