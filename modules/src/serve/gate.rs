//! Requests that wait for the host lock.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_protocol::{Event, Holder, LockTerms, Locking, Request};

use super::session::{Route, Session};
use crate::host_lock::{Attempt, HostLock, JobLock, flight::Flights};
use crate::lock::lock;
use crate::run::failed;

/// Interval between attempts to lock a host that another run holds.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval between reports to the controller that the lock is still awaited.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Admits requests once the run holds the host lock.
#[derive(Default)]
pub(crate) struct Gate {
    terms: OnceLock<LockTerms>,
    /// Requests of a run of several processes, or why they cannot be kept.
    flights: OnceLock<Result<Flights, String>>,
    /// Whether the run has ended in order.
    is_over: AtomicBool,
    is_lost: AtomicBool,
    /// A separate mutex, because a request that is admitted while `state` is locked may lock the host for its job.
    held: Mutex<Option<HostLock>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Locking is impossible here, and the user was warned.
    given_up: bool,
    /// Requests in order of arrival, while a thread waits for the lock.
    queue: VecDeque<(Request<Value>, Vec<u8>)>,
    waiting: bool,
}

/// Outcome of an attempt to lock.
enum Attempted {
    /// The request may run; with a warning, without a lock.
    Held(Option<String>),
    /// Another run holds the lock.
    Busy(Holder),
    /// Nobody can lock this host, for this reason, and the run must not go on without.
    Impossible(String),
}

impl Gate {
    /// Tries to lock. If the host cannot be locked at all, a run with the policy `wait` continues without a lock and
    /// warns the first time; with `fail`, it fails with the reason.
    fn attempt(&self, state: &mut State, terms: &LockTerms, locking: Locking) -> Attempted {
        if state.given_up {
            return Attempted::Held(None);
        }
        let attempt = match &mut *lock(&self.held) {
            Some(lock) => lock.attempt(terms, locking).map_err(|error| crate::process::reason(&error)),
            slot @ None => HostLock::new().and_then(|lock| {
                slot.insert(lock).attempt(terms, locking).map_err(|error| crate::process::reason(&error))
            }),
        };
        match attempt {
            Ok(Attempt::Held) => Attempted::Held(None),
            Ok(Attempt::Busy(holder)) => Attempted::Busy(holder),
            Err(reason) if terms.wait == 0 => Attempted::Impossible(reason),
            Err(reason) => {
                state.given_up = true;
                Attempted::Held(Some(format!("The host is not locked against other runs: {reason}.")))
            }
        }
    }

    /// Stores the terms of the host lock, which come once.
    pub(super) fn agree(&self, terms: LockTerms) {
        if let Some(flights) = Flights::new(&terms) {
            // Set before any process starts.
            windlass_guard::outlive_channel();
            let _ = self.flights.set(flights);
        }
        let _ = self.terms.set(terms);
    }

    /// Requests of a run of several processes.
    pub(super) fn flights(&self) -> Option<&Result<Flights, String>> {
        self.flights.get()
    }

    /// Notes that the run has ended in order.
    pub(super) fn end_in_order(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Records that the controller is gone. Returns whether running requests outlive it. No further request starts.
    pub(super) fn lose(&self) -> bool {
        let outlive = self.flights.get().is_some() && !self.is_over.load(Ordering::Acquire);
        self.is_lost.store(outlive, Ordering::Release);
        if outlive {
            lock(&self.state).queue.clear();
        }
        outlive
    }

    /// Whether requests outlive their controller.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The terms of the host lock, for executors of other users.
    pub(crate) fn terms(&self) -> Option<LockTerms> {
        self.terms.get().cloned()
    }

    /// Locks the host for a job of this run, with the run that holds it; `None` if the run holds no lock.
    pub(super) fn share(&self, job: &str) -> io::Result<Option<(JobLock, Holder)>> {
        let held = lock(&self.held);
        let (Some(terms), Some(held)) = (self.terms.get(), &*held) else { return Ok(None) };
        Ok(held.share(&terms.run, job)?.map(|shared| (shared, terms.holder.clone())))
    }

    /// Returns the request if it may run now. Otherwise it was refused, or runs once the lock is free.
    pub(super) fn admit(
        &self,
        session: &Arc<Session>,
        request: Request<Value>,
        blob: Vec<u8>,
    ) -> Option<(Request<Value>, Vec<u8>)> {
        let Some(locking) = request.lock else { return Some((request, blob)) };
        let id = request.id;
        let Some(terms) = self.terms() else { return Some((request, blob)) };
        let mut state = lock(&self.state);
        if !state.waiting {
            let holder = match self.attempt(&mut state, &terms, locking) {
                Attempted::Held(warning) => {
                    drop(state);
                    if let Some(message) = warning {
                        session.enter(id, Route::Locked);
                        session.event(id, Event::Warning { message }, &[]);
                    }
                    return Some((request, blob));
                }
                Attempted::Busy(holder) => holder,
                Attempted::Impossible(reason) => {
                    session.enter(id, Route::Locked);
                    session.done(id, failed(format!("The host cannot be locked against other runs: {reason}.")), &[]);
                    return None;
                }
            };
            session.enter(id, Route::Locked);
            if terms.wait == 0 {
                refuse(session, id, &holder, 0);
                return None;
            }
            let waiting = Arc::clone(session);
            let started = thread::Builder::new().name("host lock".into()).spawn(move || wait(&waiting, &terms, holder));
            if let Err(error) = started {
                session.done(id, failed(format!("The executor could not start a thread: {error}.")), &[]);
                return None;
            }
            state.waiting = true;
        }
        session.enter(id, Route::Locked);
        state.queue.push_back((request, blob));
        None
    }

    /// Removes a request from the queue; false if it is running already.
    pub(super) fn cancel(&self, session: &Session, id: u64) -> bool {
        let mut state = lock(&self.state);
        let place = state.queue.iter().position(|(request, _)| request.id == id);
        let Some((request, _)) = place.and_then(|place| state.queue.remove(place)) else { return false };
        session.done(id, failed(format!("The {} action was cancelled.", request.module)), &[]);
        true
    }

    /// Drops waiting requests, and releases the lock.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.queue.clear();
        if let Some(Ok(flights)) = self.flights.get().filter(|_| self.is_over.load(Ordering::Acquire)) {
            flights.end();
        }
        if let Some(lock) = &mut *lock(&self.held) {
            lock.release();
        }
        state.given_up = true;
    }
}

/// Waits for the lock, then runs the queued requests, or refuses them after the time limit.
fn wait(session: &Arc<Session>, terms: &LockTerms, mut holder: Holder) {
    let limit = Duration::from_secs(terms.wait);
    let (began, mut beat) = (Instant::now(), None::<Instant>);
    loop {
        let waited = began.elapsed();
        if beat.is_none_or(|beat| beat.elapsed() >= HEARTBEAT) {
            beat = Some(Instant::now());
            let ids: Vec<u64> = lock(&session.gate.state).queue.iter().map(|(request, _)| request.id).collect();
            for id in ids {
                let left = limit.saturating_sub(waited).as_secs();
                let event = Event::LockWait { holder: holder.clone(), waited: waited.as_secs(), left };
                session.event(id, event, &[]);
            }
        }
        thread::sleep(PAUSE.min(limit));
        let mut state = lock(&session.gate.state);
        let Some(locking) = state.queue.iter().filter_map(|(request, _)| request.lock).max() else {
            state.waiting = false;
            return;
        };
        match session.gate.attempt(&mut state, terms, locking) {
            Attempted::Held(warning) => {
                // The state stays locked, so that new requests do not overtake waiting ones.
                for (request, blob) in std::mem::take(&mut state.queue) {
                    if let Some(message) = warning.clone() {
                        session.event(request.id, Event::Warning { message }, &[]);
                    }
                    session.event(request.id, Event::LockTaken, &[]);
                    session.run_now(request, blob);
                }
                state.waiting = false;
                return;
            }
            Attempted::Busy(other) => holder = other,
            // `Impossible` occurs only for runs that do not wait.
            Attempted::Impossible(_) => {}
        }
        if began.elapsed() >= limit {
            for (request, _) in std::mem::take(&mut state.queue) {
                refuse(session, request.id, &holder, began.elapsed().as_secs());
            }
            state.waiting = false;
            return;
        }
    }
}

fn refuse(session: &Session, id: u64, holder: &Holder, waited: u64) {
    session.event(id, Event::LockRefused { holder: holder.clone(), waited }, &[]);
    session.done(id, failed(format!("The host is locked by {holder}.")), &[]);
}
