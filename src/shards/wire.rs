//! Messages between the processes of a run: a length of four bytes, and JSON.

use std::io;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use windlass_protocol::after_string;

use super::sent::{SentEvent, SentOutcome, SentResult};
use crate::connection::Secret;

/// Maximum size of a message in bytes. Results of one host are limited to half of it.
const LARGEST: u32 = 1 << 30;
/// Deepest nesting of lists and mappings in a message, which the threads' stacks hold.
const DEEPEST: usize = 1000;

/// Both directions of a connection.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

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
    /// The lead is alive.
    Alive,
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
    /// A warning or line of a connection, a template or a plugin.
    Said(Box<SentEvent>),
    /// An event of a task.
    Event(Slot, Box<SentEvent>),
    /// Result of an item, and whether it was delegated.
    Item { slot: Slot, index: usize, result: Box<SentResult>, is_delegated: bool, no_log: bool },
    /// The outcome of a task.
    Done(Slot, Arc<SentOutcome>),
    /// The worker is not where the lead is, and runs nothing any more.
    Strayed(String),
    /// The worker has followed to the end of the run.
    Ended,
}

/// Writes one message.
pub(super) async fn write(to: &mut Writer, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|length| *length <= LARGEST);
    let length = length.ok_or_else(|| io::Error::other("the result is too large for another process"))?;
    to.write_u32(length).await?;
    to.write_all(message).await?;
    to.flush().await
}

/// Reads one message; `None` at the end of the connection.
pub(super) async fn read<M: DeserializeOwned>(from: &mut Reader) -> io::Result<Option<M>> {
    match length(from).await? {
        Some(length) => body(from, length).await.map(Some),
        None => Ok(None),
    }
}

/// Reads the length of the next message; `None` at the end of the connection.
pub(super) async fn length(from: &mut Reader) -> io::Result<Option<u32>> {
    match from.read_u32().await {
        Ok(length) if length <= LARGEST => Ok(Some(length)),
        Ok(_) => Err(io::Error::other("a message is too large")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a message of this length.
pub(super) async fn body<M: DeserializeOwned>(from: &mut Reader, length: u32) -> io::Result<M> {
    let mut bytes = Vec::new();
    (&mut *from).take(length.into()).read_to_end(&mut bytes).await?;
    if !is_flat(&bytes) {
        return Err(io::Error::other("a message is nested too deeply"));
    }
    // Values of the project may be nested deeper than serde_json's own limit.
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    json.disable_recursion_limit();
    Ok(M::deserialize(&mut json)?)
}

/// Whether no list or mapping is nested too deeply. The text may be invalid JSON.
fn is_flat(json: &[u8]) -> bool {
    let (mut rest, mut depth) = (json, 0_usize);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_message_refused_and_brackets_in_texts_ignored() {
        assert!(is_flat("[".repeat(DEEPEST).as_bytes()) && !is_flat("[".repeat(DEEPEST + 1).as_bytes()));
        assert!(is_flat(format!(r#"["{}\"{}"]"#, "[".repeat(2000), "{".repeat(2000)).as_bytes()));
        assert!(!is_flat(format!(r#"["\\",{}"#, "{".repeat(2000)).as_bytes()));
    }
}
