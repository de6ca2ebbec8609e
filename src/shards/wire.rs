//! Messages between the processes of a run: a length of four bytes, and JSON.

use std::io;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use windlass_protocol::{MAX_WEIGHT, Shard, after_string};

use super::LOST;
use super::sent::{SentEvent, SentOutcome, SentResult};
use crate::connection::Secret;

/// Maximum size of a message in bytes. Results of one host are limited to half of it.
const LARGEST: u32 = 1 << 30;
/// Size of a part of a message that has a deadline of its own, in bytes.
const PART: usize = 64 << 10;
/// Deepest nesting of lists and mappings in a message, which the threads' stacks hold.
const DEEPEST: usize = 1000;

/// Estimated memory of a list or mapping, and of a value in one, in bytes. It takes several forms on its way.
const CONTAINER: usize = 128;
const MEMBER: usize = 64;

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
    /// Name of the run on its hosts, so that its processes do not wait for each other.
    pub(crate) run: String,
    /// The worker's part.
    pub(crate) shard: Shard,
    /// Whether outcomes are stored elsewhere, some time after the lead has them.
    pub(crate) is_spread: bool,
    /// Digest of the variables and hosts that the run begins with.
    pub(crate) inputs: u64,
    /// Key for the hashes of secret items in places of tasks, if the lead has a journal.
    pub(crate) item_key: Option<String>,
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
    /// The run is stopped, as by a signal: what runs on hosts ends now.
    Stop,
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
    /// The worker stops what runs on its hosts, whether or not the lead still lives.
    Stopping,
    /// The worker has followed to the end of the run.
    Ended,
}

/// Writes one message.
pub(super) async fn write(to: &mut Writer, message: &[u8]) -> io::Result<()> {
    to.write_u32(length_of(message)?).await?;
    to.write_all(message).await?;
    to.flush().await
}

/// Writes one message to a reader that may have stopped to read. Each part of it has to arrive in time.
pub(super) async fn write_in_time(to: &mut Writer, message: &[u8]) -> io::Result<()> {
    let length = length_of(message)?;
    timeout(LOST, to.write_u32(length)).await??;
    for part in message.chunks(PART) {
        timeout(LOST, to.write_all(part)).await??;
    }
    timeout(LOST, to.flush()).await?
}

fn length_of(message: &[u8]) -> io::Result<u32> {
    let length = u32::try_from(message.len()).ok().filter(|length| *length <= LARGEST);
    length.ok_or_else(|| io::Error::other("the result is too large for another process"))
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
    check(&bytes).map_err(io::Error::other)?;
    // Values of the project may be nested deeper than serde_json's own limit.
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    json.disable_recursion_limit();
    Ok(M::deserialize(&mut json)?)
}

/// Fails if the values of a JSON text are nested too deeply, or need too much memory beside that of their texts. The
/// text may be invalid JSON.
fn check(json: &[u8]) -> Result<(), &'static str> {
    let (mut rest, mut depth, mut weight) = (json, 0_usize, 0_usize);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'[' | b'{' => {
                depth += 1;
                weight += CONTAINER;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => weight += MEMBER,
            _ => {}
        }
        if depth > DEEPEST {
            return Err("it is nested too deeply");
        }
        if weight > MAX_WEIGHT {
            return Err("it has too many values");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_message_refused_and_brackets_in_texts_ignored() {
        let deep = |depth| check("[".repeat(depth).as_bytes());
        assert!(deep(DEEPEST).is_ok() && deep(DEEPEST + 1).is_err());
        assert!(check(format!(r#"["{}\"{}"]"#, "[".repeat(2000), "{".repeat(2000)).as_bytes()).is_ok());
        assert!(check(format!(r#"["\\",{}"#, "{".repeat(2000)).as_bytes()).is_err());
    }

    #[test]
    fn message_of_many_small_values_refused_before_it_is_decoded() {
        assert_eq!(check("0,".repeat(5 << 20).as_bytes()), Err("it has too many values"));
        assert_eq!(check("[],".repeat(2 << 20).as_bytes()), Err("it has too many values"));
        // Results as large as hosts may have them.
        assert!(check(format!(r#"["{}"]"#, "x".repeat(64 << 20)).as_bytes()).is_ok());
        let file =
            r#"{"path":"/usr/share/file.txt","mode":"0644","isdir":false,"size":1234,"uid":0,"pw_name":"root"},"#;
        assert!(check(file.repeat(200_000).as_bytes()).is_ok());
    }
}
