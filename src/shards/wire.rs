//! Messages between the processes of a run: a length of four bytes, and JSON.

use std::io;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::sent::{SentEvent, SentOutcome, SentResult};
use crate::connection::Secret;

/// Maximum size of a message in bytes. Results of one host are limited to half of it.
const LARGEST: u32 = 1 << 30;

/// A task on a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// Number of the task's start in the run.
    pub(crate) step: u64,
    /// Name of the host.
    pub(crate) host: Arc<str>,
}

/// First message to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Name of the run in its locks on hosts, so that its processes do not wait for each other.
    pub(crate) lock: Option<String>,
    /// Digest of the variables and hosts that the run begins with.
    pub(crate) inputs: u64,
}

/// A message to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    Welcome(Welcome),
    /// A task starts. A worker that is not at the same task with the same hosts takes another path.
    Step {
        step: u64,
        task: String,
        hosts: u64,
    },
    /// The worker is to run the task on a host.
    Run(Slot),
    /// Another process ran the task on a host.
    Done(Slot, Arc<SentOutcome>),
    /// The run ends without further tasks.
    End,
}

/// A message to the lead.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToLead {
    /// The worker is alive.
    Alive,
    /// A value that the lead has to mask from now on.
    Secret { text: Secret, is_password: bool },
    /// The worker has read what the run begins with (1), or has begun the step with this number less 2.
    Reached(u64),
    /// A task of the controller has a value that cannot be sent, and runs in the lead instead.
    Inexact,
    /// A warning or line of a connection, a template or a plugin.
    Said(Box<SentEvent>),
    /// An event of a task.
    Event(Slot, Box<SentEvent>),
    /// The task is about to be sent to the host; a change notifies these handlers.
    Sent(Slot, Vec<String>),
    /// Result of an item, and the host it was delegated to.
    Item { slot: Slot, index: usize, result: Box<SentResult>, delegate: Option<String>, no_log: bool },
    /// The outcome of a task.
    Done(Slot, Arc<SentOutcome>),
    /// The worker is not where the lead is, and runs nothing any more.
    Strayed(String),
    /// The worker has followed to the end of the run.
    Ended,
}

/// Writes one message.
pub(super) async fn write<W: tokio::io::AsyncWrite + Unpin>(to: &mut W, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|length| *length <= LARGEST);
    let length = length.ok_or_else(|| io::Error::other("the result is too large for another process"))?;
    to.write_u32(length).await?;
    to.write_all(message).await?;
    to.flush().await
}

/// Reads one message; `None` at the end of the connection.
pub(super) async fn read<M: DeserializeOwned>(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<Option<M>> {
    let length = match from.read_u32().await {
        Ok(length) if length <= LARGEST => length,
        Ok(_) => return Err(io::Error::other("a message is too large")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    (&mut *from).take(length.into()).read_to_end(&mut bytes).await?;
    // Values of the project may be nested deeper than serde_json's own limit; the threads have large stacks.
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    json.disable_recursion_limit();
    Ok(Some(M::deserialize(&mut json)?))
}
