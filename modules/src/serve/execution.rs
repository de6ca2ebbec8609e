//! A single request in this process: one thread runs the module, another supervises it.

use std::{
    any::Any,
    cell::RefCell,
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Cursor, Read},
    net::SocketAddr,
    panic::{AssertUnwindSafe, PanicHookInfo},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass_protocol::{Content, Delivery, Event, OFFER, Peer, Request, Spent};

use super::{once::once, peer::Taken, session::Session};
use crate::{
    Failure, Host, Sink, foreign,
    lock::lock,
    process::{GRACE, reason},
    registry,
    run::{failed, interrupted},
};

/// Pieces of a content that may wait for a slow module before the connection blocks.
const PIECES: usize = 4;

/// Why a content does not arrive.
const CUT: &str = "The connection was lost before the controller could send the file.";

/// A request that runs in this process.
pub(crate) struct Execution {
    cancelled: Arc<AtomicBool>,
    /// Whether the controller is gone, so that no content arrives any more.
    is_cut: AtomicBool,
    signals: Sender<Signal>,
    inline: Vec<Option<Vec<u8>>>,
    arriving: Mutex<HashMap<usize, SyncSender<Arrival>>>,
    /// Contents that another host failed to send.
    failed_peers: Mutex<HashSet<usize>>,
    /// Warnings so far, for a later query of the result.
    warnings: Mutex<Vec<String>>,
}

/// A message of the controller about a content.
enum Arrival {
    Piece(Vec<u8>),
    /// The host that sends it.
    Peer(Peer),
}

/// Events for the supervising thread.
pub(crate) enum Signal {
    Done(Value),
    Cancel,
}

impl Execution {
    pub(crate) fn new(request: &Request<Value>, mut blob: Vec<u8>) -> (Arc<Execution>, Receiver<Signal>) {
        let (signals, receiver) = channel();
        let inline = request.contents.iter().map(|content| inline(content, &mut blob)).collect();
        let (cancelled, is_cut, arriving, failed_peers, warnings) = Default::default();
        let job = Execution { cancelled, is_cut, signals, inline, arriving, failed_peers, warnings };
        (Arc::new(job), receiver)
    }

    /// Takes the warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.warnings))
    }

    /// Passes a piece of a content to the module that waits for it. A module that no longer reads is not an error.
    pub(crate) fn content(&self, index: usize, piece: Vec<u8>, last: bool) {
        let sender = lock(&self.arriving).get(&index).cloned();
        if let Some(sender) = sender
            && !piece.is_empty()
        {
            let _ = sender.send(Arrival::Piece(piece));
        }
        if last {
            lock(&self.arriving).remove(&index);
        }
    }

    /// Names the host that sends a content to the module that waits for it.
    pub(crate) fn peer(&self, index: usize, peer: Peer) {
        if let Some(sender) = lock(&self.arriving).remove(&index) {
            let _ = sender.send(Arrival::Peer(peer));
        }
    }

    pub(crate) fn cancel(&self) {
        let _ = self.signals.send(Signal::Cancel);
    }

    /// Lets the module go on without the controller.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        lock(&self.arriving).clear();
    }

    /// Stops the module: its processes, waits and reads of contents.
    fn stop(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        lock(&self.arriving).clear();
    }
}

/// Splits the bytes of an inline content off the front of the blob.
fn inline(content: &Content, blob: &mut Vec<u8>) -> Option<Vec<u8>> {
    if content.delivery == Delivery::OnDemand {
        return None;
    }
    let size = usize::try_from(content.size).ok().filter(|size| *size <= blob.len())?;
    let rest = blob.split_off(size);
    Some(std::mem::replace(blob, rest))
}

/// Runs a request in separate threads.
pub(crate) fn start(session: Arc<Session>, job: Arc<Execution>, signals: Receiver<Signal>, request: Request<Value>) {
    let id = request.id;
    let watcher = Arc::clone(&session);
    let watch = move || watch(&watcher, &job, &signals, request);
    if let Err(error) = thread::Builder::new().name(format!("request {id}")).spawn(watch) {
        session.done(id, failed(format!("The executor could not start a thread for the module: {error}.")), &[]);
    }
}

fn watch(session: &Arc<Session>, job: &Arc<Execution>, signals: &Receiver<Signal>, request: Request<Value>) {
    let id = request.id;
    let started = Instant::now();
    let is_cancelled = || matches!(signals.try_recv(), Ok(Signal::Cancel));
    let result = once(session, request, is_cancelled, |request| outcome(session, job, signals, request));
    session.done_after(id, result, &[], Spent { waited: 0, ran: micros(started) });
}

/// Microseconds since that time.
pub(super) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Runs a request to its end or time limit.
pub(super) fn outcome(
    session: &Arc<Session>,
    job: &Arc<Execution>,
    signals: &Receiver<Signal>,
    request: Request<Value>,
) -> Value {
    let (module, timeout) = (foreign::title(&request.module, &request.args), request.timeout);
    let worker = (Arc::clone(session), Arc::clone(job));
    let started = thread::Builder::new().name(module.clone()).spawn(move || {
        let (session, job) = worker;
        let result = guarded(&session, &job, &request);
        let _ = job.signals.send(Signal::Done(result));
    });
    if let Err(error) = started {
        return failed(format!("The executor could not start a thread for the module: {error}."));
    }
    let signal = match timeout {
        0 => signals.recv().map_err(|_| RecvTimeoutError::Disconnected),
        seconds => signals.recv_timeout(Duration::from_secs(seconds)),
    };
    match signal {
        Ok(Signal::Done(result)) => result,
        Ok(Signal::Cancel) | Err(RecvTimeoutError::Disconnected) => {
            finish(job, signals);
            interrupted(format!("The {module} action was cancelled."))
        }
        Err(RecvTimeoutError::Timeout) => {
            finish(job, signals);
            let mut result = interrupted(format!(
                "The {module} action failed to execute in the expected time frame ({timeout}) and was terminated"
            ));
            if let Some(map) = result.as_object_mut() {
                map.insert("timedout".into(), json!({ "period": timeout }));
            }
            result
        }
    }
}

/// Stops a run and waits for its end. A run that hangs in a system call is abandoned.
fn finish(job: &Execution, signals: &Receiver<Signal>) {
    job.stop();
    while let Ok(Signal::Cancel) = signals.recv_timeout(GRACE + Duration::from_secs(1)) {}
}

fn guarded(session: &Arc<Session>, job: &Arc<Execution>, request: &Request<Value>) -> Value {
    ANSWER.with_borrow_mut(|answer| *answer = Some((request.module.clone(), job.signals.clone())));
    let run = || execute(session, job, request);
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| defect(&request.module, &text(&*panic)))
}

fn execute(session: &Arc<Session>, job: &Arc<Execution>, request: &Request<Value>) -> Value {
    let contents = request.contents.clone();
    let connection = Connection { session: Arc::clone(session), job: Arc::clone(job), id: request.id, contents };
    let mut host = Host::new(Arc::new(connection))
        .with_check(request.check)
        .with_diff(request.diff)
        .with_dry_run(request.dry_run)
        .with_name(&request.module)
        .with_environment(request.environment.clone())
        .with_contents(request.contents.clone())
        .with_max_diff(request.max_diff)
        .with_stream(request.stream);
    host.cancelled = Arc::clone(&job.cancelled);
    host.detached = request.detached.is_some();
    host.store = Arc::clone(&session.store);
    match registry::find(&request.module) {
        _ if request.module == foreign::NAME => foreign::run(&request.args, &host),
        _ if request.module == OFFER => session.kept.offer(&request.args),
        Some(module) => crate::run(module, &request.args, &host),
        None => failed(format!("The executor has no module named {}.", request.module)),
    }
}

fn defect(module: &str, what: &str) -> Value {
    failed(format!("The module {module} stopped because of a defect in Windlass: {what}"))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "an unknown panic".to_owned())
}

thread_local! {
    /// The module that this thread runs, and the channel for its answer.
    static ANSWER: RefCell<Option<(String, Sender<Signal>)>> = const { RefCell::new(None) };
}

/// Installs a hook that answers the request after a panic and parks the thread forever. Otherwise, where panics abort
/// the process, a defect in one module would end every other request too.
pub(crate) fn install_panic_hook() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        usual(info);
        if cfg!(panic = "abort")
            && let Some((module, signals)) = ANSWER.with_borrow_mut(Option::take)
        {
            let place = info.location().map(|at| format!(" ({at})")).unwrap_or_default();
            let _ = signals.send(Signal::Done(defect(&module, &format!("{}{place}", text(info.payload())))));
            loop {
                thread::park();
            }
        }
    }));
}

/// The controller from a module's point of view.
#[derive(Clone)]
struct Connection {
    session: Arc<Session>,
    job: Arc<Execution>,
    id: u64,
    contents: Vec<Content>,
}

impl Connection {
    /// Asks the controller for a content that did not come with the request.
    fn ask(&self, index: usize, whole: bool) -> Result<Box<dyn Read>, Failure> {
        if let Some(Some(bytes)) = self.job.inline.get(index) {
            return Ok(Box::new(Cursor::new(bytes.clone())));
        }
        if self.job.cancelled.load(Ordering::Relaxed) {
            return Err(Failure::new("The run was cancelled."));
        }
        let (sender, arrivals) = sync_channel(PIECES);
        lock(&self.job.arriving).insert(index, sender);
        if self.job.is_cut.load(Ordering::Acquire) {
            return Err(Failure::new(CUT));
        }
        self.session.event(self.id, Event::NeedContent { content: index, whole }, &[]);
        Ok(Box::new(Arriving { arrivals, current: Cursor::default(), taken: None, index, connection: self.clone() }))
    }
}

impl Sink for Connection {
    fn event(&self, event: Event, blob: &[u8]) {
        // After a timeout the answer has been sent, so later events are dropped.
        if self.job.cancelled.load(Ordering::Relaxed) {
            return;
        }
        if let Event::Warning { message } = &event {
            lock(&self.job.warnings).push(message.clone());
        }
        if blob.is_empty() {
            return self.session.event(self.id, event, blob);
        }
        for piece in blob.chunks(windlass_protocol::MAX_BLOB) {
            self.session.event(self.id, event.clone(), piece);
        }
    }

    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.ask(index, false)
    }

    fn whole_content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.ask(index, true)
    }

    fn has_failed_peer(&self, index: usize) -> bool {
        !self.job.cancelled.load(Ordering::Relaxed) && lock(&self.job.failed_peers).contains(&index)
    }

    fn keep_content(&self, index: usize, file: &File) {
        if let Some(content) = self.contents.get(index) {
            self.session.kept.keep(content, file);
        }
    }
}

/// A content that arrives from the controller, or from the host that it names.
struct Arriving {
    arrivals: Receiver<Arrival>,
    current: Cursor<Vec<u8>>,
    taken: Option<Taken>,
    index: usize,
    connection: Connection,
}

impl Arriving {
    /// Remembers that another host did not send the content, and warns of it.
    fn fail(&self, sender: SocketAddr, error: io::Error) -> io::Error {
        let Connection { job, contents, .. } = &self.connection;
        if lock(&job.failed_peers).insert(self.index) && !job.cancelled.load(Ordering::Relaxed) {
            let name = contents.get(self.index).map(|content| content.name.as_str()).unwrap_or_default();
            let message = format!(
                "{name} comes from the control machine, because another host at {sender} could not send it: {}",
                reason(&error)
            );
            self.connection.event(Event::Warning { message }, &[]);
        }
        error
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(taken) = &mut self.taken {
                let sender = taken.address;
                return taken.read(buffer).map_err(|error| self.fail(sender, error));
            }
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let cancelled = &self.connection.job.cancelled;
            match self.arrivals.recv() {
                Ok(Arrival::Piece(piece)) => self.current = Cursor::new(piece),
                Ok(Arrival::Peer(peer)) => {
                    let content = self.connection.contents.get(self.index);
                    let content = content.ok_or_else(|| io::Error::other("there is no such content"))?;
                    match Taken::connect(&peer, content, Arc::clone(cancelled)) {
                        Ok(taken) => self.taken = Some(taken),
                        Err(error) => return Err(self.fail(peer.address, error)),
                    }
                }
                Err(_) if cancelled.load(Ordering::Relaxed) => {
                    return Err(io::Error::other("the run was cancelled"));
                }
                Err(_) if self.connection.job.is_cut.load(Ordering::Acquire) => return Err(io::Error::other(CUT)),
                Err(_) => return Ok(0),
            }
        }
    }
}
