//! Contents that a running request needs: the controller sends them, or names a host that does.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use windlass_protocol::{Delivery, ToExecutor};

use super::Error;
use super::call::{Call, Source};
use super::live::Live;
use super::peers::{Share, Supply};

/// Chunk size in which contents are sent, in bytes.
const PIECE: usize = 256 << 10;

/// Contents on their way to a request.
pub(super) struct Contents<V> {
    sending: JoinSet<Result<Sent<V>, Error>>,
    /// Contents requested while another one is being sent; `Expected` limits their number.
    waiting: VecDeque<Sending<V>>,
    /// Sources of contents, which this request occupies until it needs the next one or is done.
    shares: HashMap<usize, Share<V>>,
}

type Sending<V> = Pin<Box<dyn Future<Output = Result<Sent<V>, Error>> + Send>>;

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> Contents<V> {
    pub(super) fn new() -> Self {
        Self { sending: JoinSet::new(), waiting: VecDeque::new(), shares: HashMap::new() }
    }

    /// Bytes of frames of the next content that has been sent; never returns while none is being sent.
    pub(super) async fn next(&mut self) -> Result<u64, Error> {
        let Some(sent) = self.sending.join_next().await else { return std::future::pending().await };
        let mut bytes = 0;
        if let Ok(sent) = sent {
            let sent = sent?;
            bytes = sent.bytes;
            self.shares.extend(sent.share.map(|share| (sent.content, share)));
        }
        if let Some(next) = self.waiting.pop_front() {
            self.sending.spawn(next);
        }
        Ok(bytes)
    }

    /// Starts to send a content. `whole` permits another host to send it.
    pub(super) fn send(&mut self, live: &Arc<Live<V>>, call: &Call<V>, index: usize, whole: bool) -> Result<(), Error> {
        let source = call.sources.get(index).cloned().ok_or_else(|| Error::Controller {
            message: format!("the task has no content {index}, although it announced one"),
        })?;
        // The host that was to send it has failed.
        if let (Some(member), Some(share)) = (&live.member, self.shares.remove(&index)) {
            member.has_lost(&share);
        }
        // A module reads one content after the other, so it has the earlier ones. Keeping their sources occupied would
        // let hosts wait for each other, or for themselves if two contents are equal.
        self.arrived(live, call);
        let described = call.request.contents.get(index);
        let wanted = Wanted {
            id: call.request.id,
            content: index,
            source,
            size: described.map(|content| content.size),
            sha256: described.and_then(|content| content.sha256.clone()).filter(|_| whole),
        };
        let sending = Box::pin(provide(live.clone(), wanted));
        // One at a time: a module reads a content to its end before it requests it again.
        if self.sending.is_empty() {
            self.sending.spawn(sending);
        } else {
            self.waiting.push_back(sending);
        }
        Ok(())
    }

    /// Frees the sources of all contents, and makes the host a sender of those that others may fetch.
    pub(super) fn arrived(&mut self, live: &Arc<Live<V>>, call: &Call<V>) {
        let Some(member) = &live.member else { return };
        for (content, share) in self.shares.drain() {
            member.has_taken(&share);
            if let Some(sha256) = call.request.contents.get(content).and_then(|content| content.sha256.as_ref()) {
                member.has_received(live, sha256, call.request.become_user.as_ref());
            }
        }
    }
}

/// Bytes of the contents that travel in the request's own frame.
pub(super) async fn inline<V>(call: &Call<V>) -> Result<Vec<u8>, Error> {
    let mut blob = Vec::new();
    for (content, source) in call.request.contents.iter().zip(&call.sources) {
        if content.delivery != Delivery::Inline {
            continue;
        }
        let before = blob.len();
        match source {
            Source::Bytes(bytes) => blob.extend_from_slice(bytes),
            Source::File(path) => {
                blob.extend(tokio::fs::read(path).await.map_err(|error| unreadable(path.display(), &error))?);
            }
        }
        if (blob.len() - before) as u64 != content.size {
            return Err(changed(&content.name));
        }
    }
    Ok(blob)
}

/// A content that a request needs.
struct Wanted {
    id: u64,
    /// Its index.
    content: usize,
    source: Source,
    size: Option<u64>,
    /// Its hash, if another host may send it.
    sha256: Option<String>,
}

/// A content that has been sent, by the controller or another host.
struct Sent<V> {
    /// Its index.
    content: usize,
    /// Bytes of the frames.
    bytes: u64,
    share: Option<Share<V>>,
}

/// Sends a content, or names the host that does.
async fn provide<V>(live: Arc<Live<V>>, wanted: Wanted) -> Result<Sent<V>, Error>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let (id, content) = (wanted.id, wanted.content);
    let supply = match (&live.member, &wanted.sha256) {
        (Some(member), Some(sha256)) => Some(member.supply(&live, sha256, wanted.size.unwrap_or_default()).await),
        _ => None,
    };
    let (bytes, share) = match supply {
        Some(Supply { peer: Some(peer), share }) => {
            (live.send(&ToExecutor::Peer { id, content, peer }, &[], None).await? as u64, Some(share))
        }
        supply => (feed(live.clone(), wanted).await?, supply.map(|supply| supply.share)),
    };
    Ok(Sent { content, bytes, share })
}

/// Sends a content in chunks. Returns the bytes of its frames.
async fn feed<V>(live: Arc<Live<V>>, wanted: Wanted) -> Result<u64, Error>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let Wanted { id, content, source, size, .. } = wanted;
    let message = |last| ToExecutor::<V>::Content { id, content, last };
    let mut written = 0;
    match source {
        Source::Bytes(bytes) => {
            let mut pieces = bytes.chunks(PIECE).peekable();
            if pieces.peek().is_none() {
                written += live.send(&message(true), &[], None).await? as u64;
            }
            while let Some(piece) = pieces.next() {
                written += live.send(&message(pieces.peek().is_none()), piece, None).await? as u64;
            }
        }
        Source::File(path) => {
            let mut file = File::open(&path).await.map_err(|error| unreadable(path.display(), &error))?;
            let mut sent = 0;
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                let mut part = (&mut file).take(PIECE as u64);
                part.read_to_end(&mut piece).await.map_err(|error| unreadable(path.display(), &error))?;
                sent += piece.len() as u64;
                let last = piece.len() < PIECE;
                if last && size.is_some_and(|size| size != sent) {
                    return Err(changed(&path.display().to_string()));
                }
                written += live.send(&message(last), &piece, None).await? as u64;
                if last {
                    break;
                }
            }
        }
    }
    Ok(written)
}

fn unreadable(path: impl std::fmt::Display, error: &std::io::Error) -> Error {
    Error::Controller { message: format!("the file {path} cannot be read: {error}") }
}

fn changed(name: &str) -> Error {
    Error::Controller {
        message: format!("the file {name} was changed while it was being sent; nothing was written on the host"),
    }
}
