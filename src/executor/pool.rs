//! Connections of a run: one per target, made on first use, replaced when lost, and closed at the end.
//!
//! The pool decides when a request may be sent again. Only one that never left is; after a loss it reports whether the
//! host was restarted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_protocol::{Become, Hello, Holder, LockTerms};
use windlass_ssh::{Connector, HostKeyUser};

use super::budget::{Budget, Share};
use super::call::{self, Allowed, Broken};
use super::counters::{Counters, add};
use super::flight::{Part, Unsettled};
use super::image::Packer;
use super::live::Live;
use super::peers::Peers;
use super::raw::{self, RawFailure};
use super::routes::End;
use super::start::{Started, Starter};
use super::{
    Call, Completed, Error, Extent, Heartbeat, Image, Lock, Opened, RawCommand, RawOutput, Statistics, TaskEvent, image,
};
use crate::connection::{self, Connection, Target};

/// Minimum pause before a refused login is repeated, because servers lock accounts and addresses that fail quickly.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Time limit for reconnecting to a lost host to learn whether it was restarted.
const LOOK_DEADLINE: Duration = Duration::from_secs(20);
/// Maximum number of attempts to send a request that never left.
const SENDINGS: usize = 2;

/// Default limit for a file that a host sends, in bytes.
pub(crate) const LARGEST_FILE: u64 = 64 << 30;

/// Limits on the pool's parallel work and on data of a host. They are independent of `forks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Executors being uploaded at once.
    pub uploads: usize,
    /// Limits on a host's silence while a request is pending.
    pub heartbeat: Heartbeat,
    /// Largest file that a host may send (`fetch`), in bytes.
    pub largest_file: u64,
    /// Port at which hosts listen to pass large contents on to each other, 0 for any free one. `None` makes the
    /// controller send everything.
    pub peer_port: Option<u16>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { uploads: 16, heartbeat: Heartbeat::default(), largest_file: LARGEST_FILE, peer_port: None }
    }
}

/// Connections of a run, one per target, opened on first use. Clones share the same pool.
pub struct Pool<V> {
    inner: Arc<Inner<V>>,
}

impl<V> Clone for Pool<V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<V> {
    connector: Connector,
    uploads: Arc<Semaphore>,
    images: Vec<Image>,
    packer: Packer,
    slots: Mutex<HashMap<Arc<Target>, Arc<Slot<V>>, RandomState>>,
    /// Whether nothing may start any more.
    is_stopped: AtomicBool,
    /// Number of executors that are ended by [`Pool::close`].
    closing: watch::Sender<usize>,
    /// Whether the run is expected to use modules of the larger executor.
    expects_all: AtomicBool,
    counters: Arc<Counters>,
    budget: Arc<Budget>,
    allowed: Allowed,
    lock: Option<Lock>,
    /// Part of this process, set before the first connection of a run of several.
    part: OnceLock<Part>,
    peers: Option<Arc<Peers<V>>>,
    raw: raw::Commands,
}

/// Connection state of one target.
struct Slot<V> {
    state: tokio::sync::Mutex<State<V>>,
    unsettled: Unsettled,
}

struct State<V> {
    live: Option<Arc<Live<V>>>,
    /// Boot id seen by the last connection.
    boot_id: Option<String>,
    /// Random words of the executors that were lost since that boot. They, or what they run, may be left on the host.
    lost: Vec<String>,
    refused: Option<(Instant, Error)>,
    /// End of the last attempt that failed.
    failed: Option<(Instant, Error)>,
    /// Error that excluded the host from the run.
    condemned: Option<Error>,
}

impl<V> State<V> {
    /// Notes an executor that is gone, or does not answer.
    fn lose(&mut self, live: &Live<V>) {
        if !self.lost.contains(&live.word) {
            self.lost.push(live.word.clone());
        }
    }
}

impl<V: Serialize + DeserializeOwned + Send + 'static> Slot<V> {
    /// The executor's connection, if it is open.
    async fn shared(&self) -> Option<Arc<dyn Connection>> {
        let state = self.state.lock().await;
        state.live.as_ref().filter(|live| !live.is_closed()).map(|live| live.connection.clone())
    }
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> Pool<V> {
    /// A pool without connections.
    pub fn new(limits: Limits) -> Self {
        Self::with_images(limits, image::EMBEDDED.to_vec())
    }

    /// A pool whose connections ask this user about unknown host keys.
    pub fn for_user(limits: Limits, user: Arc<dyn HostKeyUser>) -> Self {
        Self::made(limits, image::EMBEDDED.to_vec(), Connector::for_user(user))
    }

    /// A pool that uploads these executors instead of the embedded ones.
    pub fn with_images(limits: Limits, images: Vec<Image>) -> Self {
        Self::made(limits, images, Connector::default())
    }

    fn made(limits: Limits, images: Vec<Image>, connector: Connector) -> Self {
        let allowed = Allowed { heartbeat: limits.heartbeat, largest_file: limits.largest_file };
        Self {
            inner: Arc::new(Inner {
                connector,
                uploads: Arc::new(Semaphore::new(limits.uploads.max(1))),
                images,
                packer: Packer::default(),
                slots: Mutex::default(),
                is_stopped: AtomicBool::new(false),
                closing: watch::Sender::new(0),
                expects_all: AtomicBool::new(false),
                counters: Arc::default(),
                budget: Arc::default(),
                allowed,
                lock: None,
                part: OnceLock::new(),
                peers: limits.peer_port.map(|port| Arc::new(Peers::new(port, allowed))),
                raw: raw::Commands::default(),
            }),
        }
    }

    /// Makes requests lock their hosts against other runs.
    pub fn locking(mut self, lock: Option<Lock>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.lock = lock;
        }
        self
    }

    /// Makes this process a part of a run of several.
    pub(crate) fn divide(&self, part: Part) {
        super::flight::divide();
        let _ = self.inner.part.set(part);
    }

    /// Reports to all hosts that the run has ended in order, so that they keep no results.
    pub(crate) async fn end_in_order(&self) {
        if self.inner.part.get().is_none() {
            return;
        }
        let slots: Vec<_> = {
            let slots = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.values().cloned().collect()
        };
        for slot in slots {
            if let Some(live) = &slot.state.lock().await.live {
                live.end_in_order().await;
            }
        }
    }

    /// Announces modules of the run, so that an executor with all of them is started at once. Other modules may run
    /// too: a host's executor is replaced when it lacks one.
    pub fn expect<'a>(&self, mut modules: impl Iterator<Item = &'a str>) {
        if modules.any(|module| Extent::of(module) == Extent::All) {
            self.inner.expects_all.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a request on a target and waits for its answer. Requests to one target share its connection and run in
    /// parallel. Dropping the future stops the request on the host.
    pub async fn run(&self, target: &Arc<Target>, mut call: Call<V>) -> Result<Completed<V>, Error> {
        let slot = self.slot(target);
        let extent = Extent::of_call(&call.request.module, &call.request.args);
        if let (Some(flight), Some(part)) = (&mut call.request.flight, self.inner.part.get()) {
            let user = call.request.become_user.as_ref().map(|user| &*user.user);
            flight.settled = slot.unsettled.send(&flight.id, user, call.step, part);
        }
        call.request.lock = self.inner.lock.as_ref().and_then(|lock| lock.locking(target, &call.request));
        let mut sendings = 0;
        let mut connect = Duration::ZERO;
        loop {
            let began = Instant::now();
            let (live, notes) = self.acquire(target, &slot, extent).await?;
            connect += began.elapsed();
            may_become(live.connection.as_ref(), target, call.request.become_user.as_ref())?;
            if let Some(listener) = &call.listener {
                notes.into_iter().for_each(|note| listener(TaskEvent::Warning(note)));
            }
            sendings += 1;
            if let Some(user) = call.request.become_user.as_ref().filter(|user| !live.is_ready(Some(user))) {
                tracing::debug!(host = target.name, "EXEC {}", windlass_modules::become_command(user));
            }
            match call::make(&live, call, self.inner.allowed, &target.name).await {
                Ok(mut completed) => {
                    completed.cost.connect = connect;
                    return Ok(completed);
                }
                Err(Broken::Error(error)) => return Err(error),
                Err(Broken::NotSent(again, _)) if sendings < SENDINGS => {
                    Box::pin(self.retire(&slot, &live)).await;
                    call = *again;
                }
                Err(Broken::NotSent(_, reason)) => {
                    return Err(Error::Unreachable { message: format!("{} cannot be reached: {reason}", target.name) });
                }
                Err(Broken::Violation(reason)) => {
                    return Err(Box::pin(self.condemn(target, &slot, &live, reason)).await);
                }
                Err(Broken::Lost(reason)) => return Err(Box::pin(self.lost(target, &slot, &live, &reason)).await),
            }
        }
    }

    /// Greeting of the running executor if it has these modules and can run as `user` without starting anything.
    pub fn ready(&self, target: &Arc<Target>, extent: Extent, user: Option<&Become>) -> Option<Hello> {
        let slot = self.slot(target);
        let state = slot.state.try_lock().ok()?;
        let live = state.live.as_ref().filter(|live| live.extent >= extent && live.is_ready(user));
        live.map(|live| live.hello.clone())
    }

    /// Runs a bare command on a target, without an executor.
    pub async fn raw(
        &self,
        target: &Arc<Target>,
        command: &RawCommand,
        events: Option<&mpsc::Sender<TaskEvent>>,
    ) -> Result<RawOutput, Error> {
        let limits = self.inner.allowed.heartbeat;
        let slot = self.slot(target);
        if let Some(connection) = slot.shared().await {
            may_become(connection.as_ref(), target, command.become_user.as_ref())?;
            match raw::run(&self.inner.raw, connection.clone(), target, command, events, limits).await {
                Ok(output) => return Ok(output),
                // The executor uses the only session that this server allows, so the command gets its own connection.
                Err(RawFailure::Connection(error)) if error.is_channel_refused() => {}
                Err(failure) => return Err(failure.into_error()),
            }
        }
        let connection = self.connect(target, &slot).await?;
        may_become(connection.as_ref(), target, command.become_user.as_ref())?;
        let outcome = raw::run(&self.inner.raw, connection.clone(), target, command, events, limits).await;
        connection.close().await;
        self.count(connection.as_ref());
        outcome.map_err(RawFailure::into_error)
    }

    /// Starts a bare command on a target and returns its streams.
    pub async fn open(&self, target: &Arc<Target>, command: &RawCommand) -> Result<Opened, Error> {
        let limits = self.inner.allowed.heartbeat;
        let slot = self.slot(target);
        if let Some(connection) = slot.shared().await {
            may_become(connection.as_ref(), target, command.become_user.as_ref())?;
            match raw::open(connection, target, command, limits).await {
                Ok(opened) => return Ok(opened),
                Err(RawFailure::Connection(error)) if error.is_channel_refused() => {}
                Err(failure) => return Err(failure.into_error()),
            }
        }
        let connection = self.connect(target, &slot).await?;
        may_become(connection.as_ref(), target, command.become_user.as_ref())?;
        raw::open(connection, target, command, limits).await.map_err(RawFailure::into_error)
    }

    /// Connects if necessary, and returns the executor's greeting.
    pub async fn hello(&self, target: &Arc<Target>) -> Result<Hello, Error> {
        let (live, _) = self.acquire(target, &self.slot(target), Extent::Common).await?;
        Ok(live.hello.clone())
    }

    /// Closes the connection to a target (`meta: reset_connection`). The next request opens a new one.
    pub async fn reset(&self, target: &Arc<Target>) {
        let slot = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(target);
        if let Some(slot) = slot {
            let mut state = slot.state.lock().await;
            let (live, lost) = (state.live.take(), std::mem::take(&mut state.lost));
            drop(state);
            if !lost.is_empty() {
                self.slot(target).state.lock().await.lost.extend(lost);
            }
            if let Some(live) = live {
                live.close().await;
            }
        }
    }

    /// Ends every executor and closes every connection, so that nothing keeps running on any host.
    pub async fn close(&self) {
        self.inner.raw.ended().await;
        let slots: Vec<_> = {
            let mut slots = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        let mut closing = JoinSet::new();
        for slot in slots {
            let closes = Closing::begin(&self.inner.closing);
            closing.spawn(async move {
                let _closes = closes;
                let live = slot.state.lock().await.live.take();
                if let Some(live) = live {
                    live.close().await;
                }
            });
        }
        while closing.join_next().await.is_some() {}
    }

    /// Closes all connections, and opens no other one. Waits also for those that another caller closes.
    pub(crate) async fn stop(&self) {
        self.inner.is_stopped.store(true, Ordering::Release);
        self.close().await;
        let _ = self.inner.closing.subscribe().wait_for(|closing| *closing == 0).await;
    }

    /// Fails once nothing may start any more.
    fn may_start(&self) -> Result<(), Error> {
        match self.inner.is_stopped.load(Ordering::Acquire) {
            true => Err(Error::Unreachable { message: "the run has ended".to_owned() }),
            false => Ok(()),
        }
    }

    /// Totals so far.
    pub async fn statistics(&self) -> Statistics {
        let mut statistics = self.inner.counters.read();
        let slots: Vec<_> = {
            let slots = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.values().cloned().collect()
        };
        for slot in slots {
            if let Some(live) = &slot.state.lock().await.live {
                let (sent, received) = live.connection.wire_bytes();
                statistics.wire_sent += sent;
                statistics.wire_received += received;
            }
        }
        statistics
    }

    fn slot(&self, target: &Arc<Target>) -> Arc<Slot<V>> {
        let mut slots = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(target.clone()).or_insert_with(|| {
            let state =
                State { live: None, boot_id: None, lost: Vec::new(), refused: None, failed: None, condemned: None };
            Arc::new(Slot { state: tokio::sync::Mutex::new(state), unsettled: Unsettled::default() })
        });
        slot.clone()
    }

    /// Returns the target's executor, started if none with these modules is running, and warnings for the user.
    async fn acquire(
        &self,
        target: &Arc<Target>,
        slot: &Slot<V>,
        extent: Extent,
    ) -> Result<(Arc<Live<V>>, Vec<String>), Error> {
        let asked = Instant::now();
        let mut state = slot.state.lock().await;
        if let Some(error) = &state.condemned {
            return Err(error.clone());
        }
        // A host may also break the protocol while no request is pending.
        if let Some(live) = state.live.as_ref().filter(|live| live.is_closed())
            && let End::Violation(reason) = live.end()
        {
            let error = Error::Violation { host: target.name.clone(), reason };
            state.condemned = Some(error.clone());
            return Err(error);
        }
        if let Some(live) = state.live.as_ref().filter(|live| !live.is_closed()) {
            if live.extent >= extent {
                return Ok((live.clone(), Vec::new()));
            }
            // Boxed because it is rare: otherwise every task's future would reserve space for it.
            if let Some(live) = Box::pin(self.exchange(target, &mut state, extent)).await {
                return Ok((live, Vec::new()));
            }
        }
        // Requests that waited for an attempt share its failure: another one each would add up all their time limits.
        if let Some((_, error)) = state.failed.as_ref().filter(|(when, _)| *when > asked) {
            return Err(error.clone());
        }
        let extent = if self.inner.expects_all.load(Ordering::Relaxed) { Extent::All } else { extent };
        let begun = Box::pin(self.begin(target, &mut state, extent)).await;
        state.failed = begun.as_ref().err().map(|error| (Instant::now(), error.clone()));
        begun
    }

    /// Replaces the running executor by one with more modules, on the same connection. The old one ends after its last
    /// answer. Returns `None` if the new one cannot be started: some servers allow no second session.
    async fn exchange(&self, target: &Arc<Target>, state: &mut State<V>, extent: Extent) -> Option<Arc<Live<V>>> {
        let connection = state.live.as_ref()?.connection.clone();
        match self.starter(target).start(connection.as_ref(), extent).await {
            Ok(started) => {
                let live = Arc::new(self.live(target, started, connection, &state.lost));
                state.live = Some(live.clone());
                Some(live)
            }
            Err(error) => {
                tracing::debug!(host = target.name, %error, "the larger executor gets a connection of its own");
                None
            }
        }
    }

    /// A started executor. `lost` are the words of those that it replaces.
    fn live(&self, target: &Target, started: Started, connection: Arc<dyn Connection>, lost: &[String]) -> Live<V> {
        let address = target.peer_address.or_else(|| connection.address());
        let share = Share::new(self.inner.budget.clone());
        let mut live = Live::new(started, connection, self.inner.counters.clone(), share);
        live.member = self.inner.peers.as_ref().map(|peers| peers.member(address));
        let mut terms = self.inner.lock.as_ref().map(|lock| lock.terms.clone());
        let unlocked =
            || LockTerms { run: String::new(), holder: Holder::default(), wait: 0, shard: None, after: Vec::new() };
        if let Some(Part { run, shard, .. }) = self.inner.part.get() {
            let terms = terms.get_or_insert_with(unlocked);
            (terms.run, terms.shard) = (run.clone(), Some(*shard));
        }
        if !lost.is_empty() {
            terms.get_or_insert_with(unlocked).after = lost.to_vec();
            live.follows = true;
        }
        if let Some(terms) = terms {
            live.agree(&terms);
        }
        live
    }

    fn starter<'a>(&'a self, target: &'a Target) -> Starter<'a> {
        Starter {
            target,
            images: &self.inner.images,
            uploads: &self.inner.uploads,
            packer: &self.inner.packer,
            counters: &self.inner.counters,
        }
    }

    /// Connects and starts the executor.
    async fn begin(
        &self,
        target: &Arc<Target>,
        state: &mut State<V>,
        extent: Extent,
    ) -> Result<(Arc<Live<V>>, Vec<String>), Error> {
        if let Some(dead) = state.live.take() {
            dead.count_wire();
            if dead.is_closed() {
                state.lose(&dead);
            }
        }
        self.may_start()?;
        if let Some((when, error)) = &state.refused
            && when.elapsed() < REFUSED_PAUSE
        {
            return Err(error.clone());
        }
        let connection = match self.connection(target).await {
            Ok(connection) => connection,
            Err(error) => {
                let refused = error.is_authentication();
                let error = Error::unreachable(&error);
                state.refused = refused.then(|| (Instant::now(), error.clone()));
                return Err(error);
            }
        };
        let started = match self.starter(target).start(connection.as_ref(), extent).await {
            Ok(started) => started,
            Err(error) => {
                connection.close().await;
                self.count(connection.as_ref());
                return Err(error);
            }
        };
        let mut notes: Vec<String> = connection.warning().into_iter().collect();
        let boot_id = started.hello.boot_id.clone();
        if state.boot_id.as_ref().is_some_and(|before| *before != boot_id) {
            notes.push(format!("{} was restarted since its last task", target.name));
            state.lost.clear();
        }
        state.boot_id = Some(boot_id);
        let live = Arc::new(self.live(target, started, connection, &state.lost));
        state.live = Some(live.clone());
        Ok((live, notes))
    }

    async fn connection(&self, target: &Target) -> Result<Arc<dyn Connection>, connection::Error> {
        let connection = connection::connect(target, &self.inner.connector).await?;
        add(&self.inner.counters.connections, 1);
        Ok(connection)
    }

    /// Opens a connection outside of the slot, which still remembers refused logins.
    async fn connect(&self, target: &Target, slot: &Slot<V>) -> Result<Arc<dyn Connection>, Error> {
        self.may_start()?;
        if let Some((when, error)) = &slot.state.lock().await.refused
            && when.elapsed() < REFUSED_PAUSE
        {
            return Err(error.clone());
        }
        match self.connection(target).await {
            Ok(connection) => Ok(connection),
            Err(error) => {
                let refused = error.is_authentication();
                let error = Error::unreachable(&error);
                if refused {
                    slot.state.lock().await.refused = Some((Instant::now(), error.clone()));
                }
                Err(error)
            }
        }
    }

    /// Removes an executor that is gone or no longer wanted.
    async fn retire(&self, slot: &Slot<V>, live: &Arc<Live<V>>) {
        let mut state = slot.state.lock().await;
        if state.live.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            state.live = None;
        }
        state.lose(live);
        drop(state);
        live.close().await;
    }

    /// Excludes a host from the run because its executor broke the protocol or a limit.
    async fn condemn(&self, target: &Target, slot: &Slot<V>, live: &Arc<Live<V>>, reason: String) -> Error {
        let error = Error::Violation { host: target.name.clone(), reason };
        slot.state.lock().await.condemned = Some(error.clone());
        self.retire(slot, live).await;
        error
    }

    /// Error for a connection lost during a task, stating whether the host is back and was restarted. The new
    /// connection serves the next task.
    async fn lost(&self, target: &Arc<Target>, slot: &Slot<V>, live: &Arc<Live<V>>, reason: &str) -> Error {
        self.retire(slot, live).await;
        let rebooted = match timeout(LOOK_DEADLINE, self.acquire(target, slot, live.extent)).await {
            Ok(Ok((fresh, _))) => Some(fresh.hello.boot_id != live.hello.boot_id),
            _ => None,
        };
        let found = match rebooted {
            Some(true) => "the host was restarted while the task ran",
            Some(false) => "the host is up and was not restarted",
            None => "the host is unreachable now",
        };
        let on = match self.inner.part.get() {
            Some(_) if rebooted.is_none() => ", and it may go on there for 30 minutes",
            _ => "",
        };
        let message = format!(
            "the executor on {} was lost while a task ran: {reason}; {found}. It is unknown whether the task \
             completed, so it is not repeated{on}",
            target.name
        );
        Error::Indeterminate { message, rebooted }
    }

    fn count(&self, connection: &dyn Connection) {
        let (sent, received) = connection.wire_bytes();
        self.inner.counters.wire_sent.fetch_add(sent, Ordering::Relaxed);
        self.inner.counters.wire_received.fetch_add(received, Ordering::Relaxed);
    }
}

/// Counts an executor that is being ended.
struct Closing(watch::Sender<usize>);

impl Closing {
    fn begin(count: &watch::Sender<usize>) -> Closing {
        count.send_modify(|count| *count += 1);
        Closing(count.clone())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Refuses to send a password to a host whose key differs from the known one.
fn may_become(connection: &dyn Connection, target: &Target, user: Option<&Become>) -> Result<(), Error> {
    match user.filter(|user| user.password.is_some() && connection.has_changed_host_key()) {
        None => Ok(()),
        Some(user) => Err(Error::Become {
            message: format!(
                "the password to become {} was not sent to {}, since its host key has changed and host key checking is off",
                user.user, target.name
            ),
        }),
    }
}

impl RawFailure {
    fn into_error(self) -> Error {
        match self {
            Self::Connection(error) => Error::unreachable(&error),
            Self::Error(error) => error,
        }
    }
}
