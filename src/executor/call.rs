//! The exchange of one request, from its first to its last frame.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use windlass_protocol::{Answer, Event, Reply, Request, Spent, Stream, ToExecutor};

use super::contents::{self, Contents};
use super::counters::add;
use super::expected::Expected;
use super::live::Live;
use super::received::Received;
use super::routes::{End, Incoming, Registered};
use super::{Error, Heartbeat, lock};

/// Additional time to wait for a request beyond its own timeout.
const GRACE: Duration = Duration::from_secs(30);

/// A request with its contents and channels.
pub struct Call<V> {
    /// The request; the pool chooses its id.
    pub request: Request<V>,
    /// Sources of [`Request::contents`], in the same order.
    pub sources: Vec<Source>,
    /// Final directory of a file that the host sends (`fetch`).
    pub receive_into: Option<PathBuf>,
    /// Receives events while the request runs.
    pub listener: Option<Listener>,
    /// Notified once a request with a turn has left, so that the next one may follow.
    pub departure: Option<watch::Sender<Departure>>,
    /// Whether earlier requests are still unanswered, so that this one adds no round trip.
    pub follows: bool,
    /// Number of the task's start in a run of several processes.
    pub step: u64,
}

/// Callback for events of a running request. It must not block.
pub type Listener = Box<dyn Fn(TaskEvent) + Send + Sync>;

/// Progress of a request that is to be sent ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Still being prepared.
    Undecided,
    /// Sent, or done without a request.
    Left,
    /// To be repeated in its turn: it waits for requests under way, or was not run because an earlier one failed.
    Refused,
}

impl<V> Call<V> {
    /// A request without contents or channels.
    pub fn new(request: Request<V>) -> Self {
        Self {
            request,
            sources: Vec::new(),
            receive_into: None,
            listener: None,
            departure: None,
            follows: false,
            step: 0,
        }
    }
}

/// Source of a content's bytes.
#[derive(Debug, Clone)]
pub enum Source {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// A file of the controller.
    File(PathBuf),
}

/// Event of a running request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// Output of a running command.
    Output {
        /// The stream it was written to.
        stream: Stream,
        /// The bytes, unmodified.
        bytes: Vec<u8>,
    },
    /// The request waits for another run's lock on the host, or begins after that.
    Lock {
        /// Whether it waits.
        waits: bool,
    },
    /// A warning for the user, as a sentence.
    Warning(String),
    /// The host does not answer; a sentence without the host's name.
    Silent(String),
}

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    pub(super) heartbeat: Heartbeat,
    /// Largest file that is received, in bytes.
    pub(super) largest_file: u64,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Completed<V> {
    /// The module's result.
    pub result: V,
    /// File sent by the host, if the call had a directory for one.
    pub received: Option<Received>,
    /// Time and traffic of the request.
    pub cost: Cost,
}

/// Time and traffic of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Time to connect and start the executor, including the wait for another request doing so.
    pub connect: Duration,
    /// Time from sending the request to its answer.
    pub total: Duration,
    /// Part of that time spent on the host.
    pub spent: Spent,
    /// Number of times the controller waited for the host.
    pub round_trips: u64,
    /// Bytes of frames sent.
    pub sent: u64,
    /// Bytes of frames received.
    pub received: u64,
}

/// Reason why a call ended without an answer.
pub(super) enum Broken<V> {
    /// An error to report unchanged.
    Error(Error),
    /// The executor ended before the request left. Nothing was run, so the call may be repeated.
    NotSent(Box<Call<V>>, String),
    /// The executor was lost while the request ran.
    Lost(String),
    /// The executor broke the protocol or a limit; the rest of a sentence whose subject is the executor.
    Violation(String),
}

impl<V> From<Error> for Broken<V> {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Sends a request and waits for its answer. Dropping the future stops the request on the host.
pub(super) async fn make<V>(
    live: &Arc<Live<V>>,
    mut call: Call<V>,
    allowed: Allowed,
    host: &str,
) -> Result<Completed<V>, Broken<V>>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    // Without the hash, the host does not keep what nobody can fetch from it.
    if live.member.as_ref().is_none_or(|member| member.address.is_none()) {
        call.request.contents.iter_mut().for_each(|content| content.sha256 = None);
    }
    let blob = contents::inline(&call).await?;
    let mut registered = match live.register() {
        Ok(registered) => registered,
        Err(End::Lost(reason)) => return Err(Broken::NotSent(Box::new(call), reason)),
        Err(End::Violation(reason)) => return Err(Broken::Violation(reason)),
    };
    call.request.id = registered.id;
    let mut running = Running { live: live.clone(), id: registered.id, done: false };
    let departed = Arc::new(AtomicBool::new(false));
    add(&live.counters.requests, 1);
    let mut cost = Cost::default();
    if !call.follows {
        add(&live.counters.round_trips, 1);
        cost.round_trips = 1;
    }
    let began = Instant::now();
    let message = ToExecutor::Run(call.request);
    cost.sent = live.send(&message, &blob, Some(departed.clone())).await? as u64;
    drop(blob);
    if let Some(departure) = &call.departure {
        departure.send_replace(Departure::Left);
    }
    let ToExecutor::Run(request) = message else { return Err(Broken::Lost("it was not sent".to_owned())) };
    call.request = request;

    let patience = AtomicBool::new(false);
    let waits = Waits { allowed, host, patience: &patience };
    let outcome = wait(live, &call, &mut registered, waits, &mut cost).await?;
    if !matches!(outcome, Err(Ended::Error(Error::Controller { .. }))) {
        running.done = true;
    }
    match outcome {
        Ok(mut completed) => {
            completed.cost.total = began.elapsed();
            Ok(completed)
        }
        Err(Ended::Error(error)) => Err(Broken::Error(error)),
        Err(Ended::Violation(reason)) => {
            live.condemn(reason.clone());
            Err(Broken::Violation(reason))
        }
        Err(Ended::Lost) => Err(match live.end() {
            End::Violation(reason) => Broken::Violation(reason),
            // Later requests already followed this one and would overtake it if it was sent again.
            End::Lost(reason) if call.request.turn.is_some() || departed.load(Ordering::Acquire) => {
                Broken::Lost(reason)
            }
            End::Lost(reason) => Broken::NotSent(Box::new(call), reason),
        }),
    }
}

/// Waits for the answer, as long as the host and the task's time limit permit.
async fn wait<V>(
    live: &Arc<Live<V>>,
    call: &Call<V>,
    registered: &mut Registered<V>,
    waits: Waits<'_>,
    cost: &mut Cost,
) -> Result<Result<Completed<V>, Ended>, Broken<V>>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let Registered { id, incoming, heard } = registered;
    let (id, heartbeat) = (*id, waits.allowed.heartbeat);
    let limit = match call.request.timeout {
        0 => None,
        seconds => Some(Duration::from_secs(seconds) + GRACE),
    };
    let module = &call.request.module;
    let silent = || notify(call, TaskEvent::Silent(heartbeat.warning(module)));
    let lost = live.pulse.lost(heartbeat, heard, || live.ping(id), silent);
    // Pinned here so that the future reserves space for it only once.
    let mut answer = std::pin::pin!(answer(live, call, incoming, cost, waits));
    let limited = async {
        let Some(limit) = limit else { return Ok(answer.await) };
        loop {
            match tokio::time::timeout(limit, &mut answer).await {
                Ok(outcome) => return Ok(outcome),
                // A wait for another run's lock does not count as the task's time; the executor reports it regularly.
                Err(_) if waits.patience.swap(false, Ordering::Relaxed) => {}
                Err(_) => return Err(limit),
            }
        }
    };
    let reason = tokio::select! {
        outcome = limited => match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(limit) => format!("the executor did not answer within {} s", limit.as_secs()),
        },
        lost = lost => {
            let seconds = lost.as_secs();
            format!("the host did not answer for {seconds} s (`heartbeat_timeout`), {module} was in flight")
        }
    };
    Err(Broken::Lost(reason))
}

enum Ended {
    Error(Error),
    Lost,
    Violation(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Context of the wait for one answer.
#[derive(Clone, Copy)]
struct Waits<'a> {
    allowed: Allowed,
    /// Name of the host, for messages.
    host: &'a str,
    /// Set while the host waits for another run's lock.
    patience: &'a AtomicBool,
}

async fn answer<V>(
    live: &Arc<Live<V>>,
    call: &Call<V>,
    incoming: &mut mpsc::Receiver<Box<Incoming<V>>>,
    cost: &mut Cost,
    waits: Waits<'_>,
) -> Result<Completed<V>, Ended>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let mut received = None;
    let mut contents = Contents::new();
    let mut expected = Expected::of(&call.request, call.receive_into.is_some(), live.follows);
    // A request waits once.
    let mut locks = [true, false].into_iter().peekable();
    let mut locking = |waits: bool| {
        if locks.next_if_eq(&waits).is_some() {
            notify(call, TaskEvent::Lock { waits });
        }
    };
    loop {
        let Incoming { reply, blob, size, _reserved } = *tokio::select! {
            // Sent contents come first, because the next frame may be about one of them.
            biased;
            sent = contents.next() => {
                cost.sent += sent?;
                continue;
            }
            frame = incoming.recv() => frame.ok_or(Ended::Lost)?,
        };
        cost.received += size;
        let event = match reply {
            Reply::Hello(_) | Reply::Pong { .. } => continue,
            Reply::Done { result, spent, .. } => {
                if !blob.is_empty() {
                    expected.admit(&Event::FileData).map_err(Ended::Violation)?;
                    receive(call, &mut received, &blob, waits.allowed)?;
                }
                if let Some(sentence) = expected.left_out() {
                    notify(call, TaskEvent::Warning(sentence));
                }
                let result = match result {
                    Answer::Mapping(result) => result,
                    Answer::Other(kind) => {
                        return Err(Error::NoResult { module: call.request.module.clone(), kind }.into());
                    }
                };
                if let Some(user) = &call.request.become_user {
                    live.has_answered(user);
                }
                contents.arrived(live, call);
                cost.spent = spent;
                return Ok(Completed { result, received, cost: *cost });
            }
            Reply::Event { event, .. } => event,
        };
        expected.admit(&event).map_err(Ended::Violation)?;
        match event {
            Event::Output { stream } => notify(call, TaskEvent::Output { stream, bytes: blob }),
            Event::Warning { message } => {
                if expected.shows_warning(message.len(), live.may_warn()) {
                    notify(call, TaskEvent::Warning(message));
                }
            }
            Event::FileData => receive(call, &mut received, &blob, waits.allowed)?,
            Event::NotRun => return Err(Error::NotRun.into()),
            Event::LockWait { holder, waited, left } => {
                waits.patience.store(true, Ordering::Relaxed);
                locking(true);
                let warning = lock::waiting(&holder, waited, left);
                if expected.shows_warning(warning.len(), live.may_warn()) {
                    notify(call, TaskEvent::Warning(warning));
                }
            }
            Event::LockTaken => {
                waits.patience.store(true, Ordering::Relaxed);
                locking(false);
            }
            Event::LockRefused { holder, waited } => {
                return Err(Error::Unreachable { message: lock::refused(waits.host, &holder, waited) }.into());
            }
            Event::Unknown { message } => {
                return Err(
                    Error::Indeterminate { message: format!("{}: {message}", waits.host), rebooted: None }.into()
                );
            }
            Event::Refused { message } => {
                return Err(Error::Unreachable { message: format!("{}: {message}", waits.host) }.into());
            }
            Event::BecomeFailed { message } => return Err(Error::Become { message }.into()),
            Event::NeedContent { content, whole } => {
                add(&live.counters.round_trips, 1);
                cost.round_trips += 1;
                contents.send(live, call, content, whole)?;
            }
        }
    }
}

fn notify<V>(call: &Call<V>, event: TaskEvent) {
    if let Some(listener) = &call.listener {
        listener(event);
    }
}

fn receive<V>(call: &Call<V>, received: &mut Option<Received>, bytes: &[u8], allowed: Allowed) -> Result<(), Error> {
    let Some(directory) = &call.receive_into else { return Ok(()) };
    if received.is_none() {
        *received = Some(Received::begin(directory, allowed.largest_file)?);
    }
    match received {
        Some(file) => file.write(bytes),
        None => Ok(()),
    }
}

/// Stops the request on the host when the caller abandons it.
struct Running<V: Serialize + DeserializeOwned + Send + Sync + 'static> {
    live: Arc<Live<V>>,
    id: u64,
    done: bool,
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> Drop for Running<V> {
    fn drop(&mut self) {
        self.live.unregister(self.id);
        if !self.done {
            self.live.cancel(self.id);
        }
    }
}
