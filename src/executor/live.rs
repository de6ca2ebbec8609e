//! A running executor: one task writes frames, another reads them and routes each to its request.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use windlass_protocol::{Answer, Become, FrameDecoder, Hello, LockTerms, Reply, ToExecutor, Wiped, encode};

use super::budget::Share;
use super::counters::{Counters, add};
use super::expected::HOST_WARNINGS;
use super::heartbeat::Pulse;
use super::peers::Member;
use super::routes::{End, Incoming, Registered, Routes};
use super::start::Started;
use super::{Error, Extent};
use crate::connection::{Connection, Exit, Input, Output, Piece};

/// Maximum number of frames waiting to be written. A small number makes a slow line slow down the readers of local
/// files.
const OUTGOING: usize = 4;
/// Chunk size of larger frames, in bytes. Writing in chunks shows whether the host accepts them.
const PART: usize = 256 << 10;
/// Size in bytes from which accepting a frame proves that the host reads; smaller ones fit into buffers on the way.
const LARGE: usize = 64 << 10;
/// Time limit for a frame to arrive, plus an allowance for its size.
const ARRIVAL: Duration = Duration::from_secs(120);
/// Slowest rate at which a frame may arrive, in bytes per second.
const SLOWEST_ARRIVAL: usize = 64 << 10;
/// Time for an executor to end after its input has ended.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// Bytes kept of the executor's standard error.
const LAST_WORDS: usize = 2 << 10;

/// A connected, running executor.
pub(super) struct Live<V> {
    pub(super) hello: Hello,
    /// Random word among its arguments.
    pub(super) word: String,
    /// Whether the run has lost executors on the host before.
    pub(super) follows: bool,
    /// Its modules.
    pub(super) extent: Extent,
    pub(super) connection: Arc<dyn Connection>,
    pub(super) counters: Arc<Counters>,
    outgoing: mpsc::Sender<Outgoing>,
    routes: Arc<Routes<V>>,
    pub(super) pulse: Arc<Pulse>,
    /// Its part in the distribution of contents, if hosts pass them on.
    pub(super) member: Option<Member<V>>,
    warnings: AtomicUsize,
    ended: watch::Receiver<bool>,
    tasks: [AbortHandle; 2],
    wire_counted: AtomicBool,
    /// Users whose executors have been started.
    users: Mutex<HashSet<Become>>,
}

/// A frame to write; `None` ends the input.
struct Outgoing {
    frame: Option<Wiped>,
    /// Set as soon as the first byte may have left.
    departed: Option<Arc<AtomicBool>>,
}

impl<V: Serialize + DeserializeOwned + Send + 'static> Live<V> {
    /// Takes over an executor that has sent its greeting.
    pub(super) fn new(
        started: Started,
        connection: Arc<dyn Connection>,
        counters: Arc<Counters>,
        share: Share,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let (end, ended) = watch::channel(false);
        let (routes, pulse) = (Arc::new(Routes::default()), Arc::new(Pulse::default()));
        let writer = tokio::spawn(write(started.input, queue, counters.clone(), pulse.clone()));
        let reader = Reader {
            output: started.output,
            decoder: started.decoder,
            routes: routes.clone(),
            connection: connection.clone(),
            counters: counters.clone(),
            pulse: pulse.clone(),
            share,
        };
        let (writer_abort, end_writer) = (writer.abort_handle(), writer.abort_handle());
        let reader = tokio::spawn(async move {
            reader.run().await;
            // The writer may wait for an SSH window that never opens again.
            end_writer.abort();
            end.send_replace(true);
        });
        Self {
            hello: started.hello,
            word: started.word,
            follows: false,
            extent: started.extent,
            connection,
            counters,
            outgoing,
            routes,
            pulse,
            member: None,
            warnings: AtomicUsize::new(0),
            ended,
            tasks: [writer_abort, reader.abort_handle()],
            wire_counted: AtomicBool::new(false),
            users: Mutex::default(),
        }
    }

    /// Whether the executor or its connection is gone.
    pub(super) fn is_closed(&self) -> bool {
        *self.ended.borrow() || self.routes.end().is_some() || self.connection.is_closed()
    }

    /// Records that this user's executor is running.
    pub(super) fn has_answered(&self, user: &Become) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !users.contains(user) {
            users.insert(user.clone());
        }
    }

    /// Whether a request as this user needs no further executor to be started.
    pub(super) fn is_ready(&self, user: Option<&Become>) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_closed() && user.is_none_or(|user| users.contains(user))
    }

    /// Registers a request for incoming frames.
    pub(super) fn register(&self) -> Result<Registered<V>, End> {
        self.routes.register(self.pulse.now())
    }

    /// Unregisters a request; later frames for it are dropped.
    pub(super) fn unregister(&self, id: u64) {
        self.routes.unregister(id);
    }

    /// Reason why the executor is gone.
    pub(super) fn end(&self) -> End {
        self.routes.end().unwrap_or_else(|| End::Lost(self.connection.lost_reason()))
    }

    /// Cuts off an executor that broke the protocol or a limit. `reason` is the rest of a sentence whose subject is the
    /// executor.
    pub(super) fn condemn(&self, reason: String) {
        self.routes.close(End::Violation(reason));
        self.tasks.iter().for_each(AbortHandle::abort);
    }

    /// Whether one more warning of this host may be shown.
    pub(super) fn may_warn(&self) -> bool {
        self.warnings.fetch_add(1, Ordering::Relaxed) < HOST_WARNINGS
    }

    /// Pings a request, unless other frames are queued already.
    pub(super) fn ping(&self, id: u64) {
        if let Ok(frame) = encode(&ToExecutor::<V>::Ping { id }, &[]) {
            let _ = self.outgoing.try_send(Outgoing { frame: Some(frame), departed: None });
        }
    }

    /// Queues a frame and returns its size. `departed` is set once the frame may have left. If the executor is gone,
    /// the request's receiver fails.
    pub(super) async fn send(
        &self,
        message: &ToExecutor<V>,
        blob: &[u8],
        departed: Option<Arc<AtomicBool>>,
    ) -> Result<usize, Error> {
        let frame = encode(message, blob)
            .map_err(|error| Error::Controller { message: format!("the task cannot be sent: {error}") })?;
        let size = frame.len();
        let _ = self.outgoing.send(Outgoing { frame: Some(frame), departed }).await;
        Ok(size)
    }

    /// Requests the executor to stop a request, without waiting.
    pub(super) fn cancel(&self, id: u64) {
        let Ok(frame) = encode(&ToExecutor::<V>::Cancel { id }, &[]) else { return };
        let outgoing = self.outgoing.clone();
        let message = Outgoing { frame: Some(frame), departed: None };
        if let Err(mpsc::error::TrySendError::Full(message)) = outgoing.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { outgoing.send(message).await });
        }
    }

    /// Reports that the run has ended in order.
    pub(super) async fn end_in_order(&self) {
        if let Ok(frame) = encode(&ToExecutor::<V>::End, &[]) {
            let _ = self.outgoing.send(Outgoing { frame: Some(frame), departed: None }).await;
        }
    }

    /// Sends the terms for locking the host ahead of every request. They have no reply, so they cost no round trip.
    pub(super) fn agree(&self, terms: &LockTerms) {
        // The queue is still empty, and the first request reports an executor that has ended.
        if let Ok(frame) = encode(&ToExecutor::<V>::Lock(terms.clone()), &[]) {
            let _ = self.outgoing.try_send(Outgoing { frame: Some(frame), departed: None });
        }
    }

    /// Ends the executor, which stops everything it still runs, and closes the connection.
    pub(super) async fn close(&self) {
        let mut ended = self.ended.clone();
        let end = async {
            // In a run of several processes, requests outlive their connection.
            for id in self.routes.open() {
                if let Ok(frame) = encode(&ToExecutor::<V>::Cancel { id }, &[]) {
                    let _ = self.outgoing.send(Outgoing { frame: Some(frame), departed: None }).await;
                }
            }
            // Errors mean that the executor has ended already.
            let _ = self.outgoing.send(Outgoing { frame: None, departed: None }).await;
            let _ = ended.wait_for(|&ended| ended).await;
        };
        if tokio::time::timeout(END_DEADLINE, end).await.is_err() {
            tracing::debug!("an executor did not end in time; its connection is cut");
        }
        self.connection.close().await;
        self.count_wire();
        self.tasks.iter().for_each(AbortHandle::abort);
    }

    /// Adds the connection's traffic to the totals, once.
    pub(super) fn count_wire(&self) {
        if !self.wire_counted.swap(true, Ordering::Relaxed) {
            let (sent, received) = self.connection.wire_bytes();
            self.counters.wire_sent.fetch_add(sent, Ordering::Relaxed);
            self.counters.wire_received.fetch_add(received, Ordering::Relaxed);
        }
    }
}

impl<V> Drop for Live<V> {
    fn drop(&mut self) {
        // Aborting the tasks drops the streams; an executor ends when its input does.
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn write(mut input: Input, mut queue: mpsc::Receiver<Outgoing>, counters: Arc<Counters>, pulse: Arc<Pulse>) {
    while let Some(Outgoing { frame, departed }) = queue.recv().await {
        let Some(frame) = frame else { break };
        if let Some(departed) = departed {
            departed.store(true, Ordering::Release);
        }
        add(&counters.sent, frame.len());
        if !pass(&mut input, frame, &pulse).await {
            // The reader notices the end and reports the reason.
            return;
        }
    }
    input.finish().await;
}

/// Writes a frame. Returns false if the executor no longer reads.
async fn pass(input: &mut Input, frame: Wiped, pulse: &Pulse) -> bool {
    if frame.len() < LARGE {
        return input.send(frame).await;
    }
    if frame.len() <= PART {
        let sent = input.send(frame).await;
        pulse.moves();
        return sent;
    }
    for part in frame.chunks(PART) {
        if !input.send(part.to_vec()).await {
            return false;
        }
        pulse.moves();
    }
    true
}

struct Reader<V> {
    output: Output,
    decoder: FrameDecoder,
    routes: Arc<Routes<V>>,
    connection: Arc<dyn Connection>,
    counters: Arc<Counters>,
    pulse: Arc<Pulse>,
    share: Share,
}

impl<V: DeserializeOwned> Reader<V> {
    async fn run(mut self) {
        let end = self.pass_frames().await;
        self.routes.close(end);
    }

    /// Routes frames until the end, and returns the reason for it.
    async fn pass_frames(&mut self) -> End {
        let mut stderr = Vec::new();
        let mut exit = None;
        // Memory for a large frame that has partly arrived, and the deadline for the rest.
        let mut arriving = None;
        loop {
            loop {
                let announced = match self.decoder.announced() {
                    Ok(Some(announced)) => announced,
                    Ok(None) => break,
                    Err(error) => return unacceptable(&error),
                };
                if arriving.is_none() {
                    let room = self.pulse.holding(self.share.arriving(announced)).await;
                    let deadline = ARRIVAL + Duration::from_secs((announced / SLOWEST_ARRIVAL) as u64);
                    arriving = Some((room, Instant::now() + deadline));
                }
                match self.pass().await {
                    Ok(true) => arriving = None,
                    Ok(false) => break,
                    Err(end) => return end,
                }
            }
            let piece = match &arriving {
                None => self.output.next().await,
                Some((_, deadline)) => match timeout_at(*deadline, self.output.next()).await {
                    Ok(piece) => piece,
                    Err(_) => return End::Violation("began a frame that did not arrive in time".to_owned()),
                },
            };
            match piece {
                Some(Piece::Stdout(bytes)) => {
                    let bytes = Wiped::from(bytes);
                    add(&self.counters.received, bytes.len());
                    if arriving.is_some() {
                        // Each part of a large answer over a slow link is a sign of life; the answer has a deadline of
                        // its own.
                        self.pulse.moves();
                    }
                    self.decoder.extend(&bytes);
                }
                Some(Piece::Stderr(bytes)) => {
                    stderr.extend(bytes);
                    let excess = stderr.len().saturating_sub(LAST_WORDS);
                    stderr.drain(..excess);
                }
                Some(Piece::Exit(end)) => exit = Some(end),
                Some(Piece::Refused) => {}
                None => break,
            }
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        let said = if said.is_empty() { said } else { format!("; it printed: {said}") };
        End::Lost(match exit {
            Some(Exit::Status(status)) => format!("the executor ended with status {status}{said}"),
            Some(Exit::Signal(signal)) => format!("the executor was ended by signal {signal}{said}"),
            None => format!("{}{said}", self.connection.lost_reason()),
        })
    }

    /// Routes the next frame to its request. Returns false if it has not arrived completely.
    async fn pass(&mut self) -> Result<bool, End> {
        let Some(frame) = self.decoder.next_raw().map_err(|error| unacceptable(&error))? else { return Ok(false) };
        let reserved = self.pulse.holding(self.share.delivered(frame.weight())).await;
        let size = frame.size() as u64;
        let (reply, blob) = frame.decode::<Reply<Answer<V>>>().map_err(|error| unacceptable(&error))?;
        let destination = self.routes.destination(&reply, self.pulse.now()).map_err(End::Violation)?;
        if let Some(sender) = destination {
            // An error means that the caller abandoned the request.
            let _ =
                self.pulse.holding(sender.send(Box::new(Incoming { reply, blob, size, _reserved: reserved }))).await;
        }
        Ok(true)
    }
}

fn unacceptable(error: &windlass_protocol::Error) -> End {
    End::Violation(format!("sent what cannot be accepted: {error}"))
}
