//! A running executor: one task writes frames, one reads them and hands each to the request it belongs to.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use windlass_protocol::{Become, FrameDecoder, Hello, LockTerms, Reply, ToExecutor, encode};

use super::counters::{Counters, add};
use super::start::Started;
use super::{Error, Extent};
use crate::connection::{Connection, Exit, Input, Output, Piece};

/// Frames that wait to be written. Few, so that a slow line slows down who reads files for it.
const OUTGOING: usize = 4;
/// Frames of one request that wait to be taken. When they are not, the host is slowed down, never the memory filled.
const INCOMING: usize = 32;
/// How long an executor may take to end once its input has ended.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// What is kept of the executor's standard error.
const LAST_WORDS: usize = 2 << 10;

/// What the executor sends for one request.
pub(super) struct Incoming<V> {
    pub(super) reply: Reply<V>,
    pub(super) blob: Vec<u8>,
    /// The bytes of the frame.
    pub(super) size: u64,
}

/// An executor in work.
pub(super) struct Live<V> {
    pub(super) hello: Hello,
    /// The modules it has.
    pub(super) extent: Extent,
    pub(super) connection: Arc<dyn Connection>,
    pub(super) counters: Arc<Counters>,
    outgoing: mpsc::Sender<Outgoing>,
    routes: Arc<Mutex<Routes<V>>>,
    next_id: AtomicU64,
    ended: watch::Receiver<bool>,
    tasks: [AbortHandle; 2],
    wire_counted: AtomicBool,
    /// The users whose executors have been started.
    users: Mutex<HashSet<Become>>,
}

/// Where frames of running requests go; once the executor is gone, why.
enum Routes<V> {
    Open(HashMap<u64, mpsc::Sender<Incoming<V>>>),
    Closed(String),
}

/// A frame to write; `None` ends the input.
struct Outgoing {
    frame: Option<Vec<u8>>,
    /// Set as soon as the first byte may be on its way.
    departed: Option<Arc<AtomicBool>>,
}

impl<V: Serialize + DeserializeOwned + Send + 'static> Live<V> {
    /// Takes over an executor that has greeted.
    pub(super) fn new(started: Started, connection: Arc<dyn Connection>, counters: Arc<Counters>) -> Self {
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let (end, ended) = watch::channel(false);
        let routes = Arc::new(Mutex::new(Routes::Open(HashMap::new())));
        let writer = tokio::spawn(write(started.input, queue, counters.clone()));
        let reader = Reader {
            output: started.output,
            decoder: started.decoder,
            routes: routes.clone(),
            connection: connection.clone(),
            counters: counters.clone(),
        };
        let (writer_abort, end_writer) = (writer.abort_handle(), writer.abort_handle());
        let reader = tokio::spawn(async move {
            reader.run().await;
            // A writer may wait for a window that will never open again.
            end_writer.abort();
            end.send_replace(true);
        });
        Self {
            hello: started.hello,
            extent: started.extent,
            connection,
            counters,
            outgoing,
            routes,
            next_id: AtomicU64::new(1),
            ended,
            tasks: [writer_abort, reader.abort_handle()],
            wire_counted: AtomicBool::new(false),
            users: Mutex::default(),
        }
    }

    /// The executor or the connection to it is gone.
    pub(super) fn is_closed(&self) -> bool {
        *self.ended.borrow() || self.connection.is_closed()
    }

    /// Notes that this user's executor is there.
    pub(super) fn has_answered(&self, user: &Become) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !users.contains(user) {
            users.insert(user.clone());
        }
    }

    /// Whether a request as this user goes its way without anything having to be started.
    pub(super) fn is_ready(&self, user: Option<&Become>) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_closed() && user.is_none_or(|user| users.contains(user))
    }

    /// Makes room for the answers of a new request.
    pub(super) fn register(&self) -> Result<(u64, mpsc::Receiver<Incoming<V>>), String> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(INCOMING);
        match &mut *self.routes.lock().unwrap_or_else(PoisonError::into_inner) {
            Routes::Open(routes) => {
                routes.insert(id, sender);
                Ok((id, receiver))
            }
            Routes::Closed(reason) => Err(reason.clone()),
        }
    }

    /// Forgets a request; what still comes for it is dropped.
    pub(super) fn unregister(&self, id: u64) {
        if let Routes::Open(routes) = &mut *self.routes.lock().unwrap_or_else(PoisonError::into_inner) {
            routes.remove(&id);
        }
    }

    /// Why the executor is gone.
    pub(super) fn closed_reason(&self) -> String {
        match &*self.routes.lock().unwrap_or_else(PoisonError::into_inner) {
            Routes::Closed(reason) => reason.clone(),
            Routes::Open(_) => self.connection.lost_reason(),
        }
    }

    /// Queues a frame and tells its size; `departed` is set once it may be on its way. An executor that is gone is noticed by the request's receiver.
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

    /// Asks the executor to stop a request, without waiting.
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

    /// Sends the terms on which hosts are locked, ahead of every request. Nothing answers, so it costs no round trip.
    pub(super) fn agree(&self, terms: &LockTerms) {
        // The queue is empty so far, and an executor that is gone is noticed by the first request.
        if let Ok(frame) = encode(&ToExecutor::<V>::Lock(terms.clone()), &[]) {
            let _ = self.outgoing.try_send(Outgoing { frame: Some(frame), departed: None });
        }
    }

    /// Lets the executor end, which stops what it still runs, and closes the connection.
    pub(super) async fn close(&self) {
        let mut ended = self.ended.clone();
        let end = async {
            // Errors mean that it has ended already.
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

    /// Adds the bytes of the connection to the sums, once.
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
        // Dropping the streams closes them, and an executor without its input ends.
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn write(mut input: Input, mut queue: mpsc::Receiver<Outgoing>, counters: Arc<Counters>) {
    while let Some(Outgoing { frame, departed }) = queue.recv().await {
        let Some(frame) = frame else { break };
        if let Some(departed) = departed {
            departed.store(true, Ordering::Release);
        }
        add(&counters.sent, frame.len());
        if !input.send(frame).await {
            // The reader notices the end and says why.
            return;
        }
    }
    input.finish().await;
}

struct Reader<V> {
    output: Output,
    decoder: FrameDecoder,
    routes: Arc<Mutex<Routes<V>>>,
    connection: Arc<dyn Connection>,
    counters: Arc<Counters>,
}

impl<V: DeserializeOwned> Reader<V> {
    async fn run(mut self) {
        let reason = self.pass_frames().await;
        *self.routes.lock().unwrap_or_else(PoisonError::into_inner) = Routes::Closed(reason);
    }

    /// Hands out frames until the end; says why it ended.
    async fn pass_frames(&mut self) -> String {
        let mut stderr = Vec::new();
        let mut exit = None;
        loop {
            loop {
                let before = self.decoder.taken();
                match self.decoder.next_frame::<Reply<V>>() {
                    Ok(Some((reply, blob))) => {
                        self.pass(Incoming { reply, blob, size: self.decoder.taken() - before }).await;
                    }
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                }
            }
            match self.output.next().await {
                Some(Piece::Stdout(bytes)) => {
                    add(&self.counters.received, bytes.len());
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
        match exit {
            Some(Exit::Status(status)) => format!("the executor ended with status {status}{said}"),
            Some(Exit::Signal(signal)) => format!("the executor was ended by signal {signal}{said}"),
            None => format!("{}{said}", self.connection.lost_reason()),
        }
    }

    async fn pass(&self, incoming: Incoming<V>) {
        let (id, last) = match &incoming.reply {
            Reply::Hello(_) => return,
            Reply::Event { id, .. } => (*id, false),
            Reply::Done { id, .. } => (*id, true),
        };
        let sender = match &mut *self.routes.lock().unwrap_or_else(PoisonError::into_inner) {
            Routes::Open(routes) if last => routes.remove(&id),
            Routes::Open(routes) => routes.get(&id).cloned(),
            Routes::Closed(_) => None,
        };
        if let Some(sender) = sender {
            // An error means that the request was given up.
            let _ = sender.send(incoming).await;
        }
    }
}
