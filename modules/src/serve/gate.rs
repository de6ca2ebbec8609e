//! Requests that wait for the host's lock.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_protocol::{Event, Holder, LockTerms, Locking, Request};

use super::session::{Route, Session, failed, lock};
use crate::host_lock::{Attempt, HostLock};

/// How often a host that another run holds is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the controller hears that it is still waited for.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Lets requests pass once the host is locked for their run.
#[derive(Default)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Default)]
struct State {
    terms: Option<LockTerms>,
    lock: Option<HostLock>,
    /// Locking is impossible here, which has been said.
    given_up: bool,
    /// Requests in the order they came, while a thread waits for the lock.
    queue: VecDeque<(Request<Value>, Vec<u8>)>,
    waiting: bool,
}

impl State {
    /// Tries to lock; `Held` too where it is impossible, with the reason the first time.
    fn attempt(&mut self, terms: &LockTerms, locking: Locking) -> (Attempt, Option<String>) {
        if self.given_up {
            return (Attempt::Held, None);
        }
        let attempt = match &mut self.lock {
            Some(lock) => lock.attempt(terms, locking).map_err(|error| crate::process::reason(&error)),
            slot @ None => HostLock::new().and_then(|lock| {
                slot.insert(lock).attempt(terms, locking).map_err(|error| crate::process::reason(&error))
            }),
        };
        attempt.map_or_else(
            |reason| {
                self.given_up = true;
                (Attempt::Held, Some(format!("The host is not locked against other runs: {reason}.")))
            },
            |attempt| (attempt, None),
        )
    }
}

impl Gate {
    /// Notes on which terms the host is locked.
    pub(super) fn agree(&self, terms: LockTerms) {
        lock(&self.0).terms = Some(terms);
    }

    /// The terms, for executors of other users.
    pub(crate) fn terms(&self) -> Option<LockTerms> {
        lock(&self.0).terms.clone()
    }

    /// Gives the request back if it may run now. Otherwise it has been refused, or runs when the lock is free.
    pub(super) fn admit(
        &self,
        session: &Arc<Session>,
        request: Request<Value>,
        blob: Vec<u8>,
    ) -> Option<(Request<Value>, Vec<u8>)> {
        let Some(locking) = request.lock else { return Some((request, blob)) };
        let id = request.id;
        let mut state = lock(&self.0);
        let Some(terms) = state.terms.clone() else { return Some((request, blob)) };
        if !state.waiting {
            let holder = match state.attempt(&terms, locking) {
                (Attempt::Held, warning) => {
                    drop(state);
                    if let Some(message) = warning {
                        session.enter(id, Route::Locked);
                        session.event(id, Event::Warning { message }, &[]);
                    }
                    return Some((request, blob));
                }
                (Attempt::Busy(holder), _) => holder,
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

    /// Takes a request out of the queue; false if it runs by now.
    pub(super) fn cancel(&self, session: &Session, id: u64) -> bool {
        let mut state = lock(&self.0);
        let place = state.queue.iter().position(|(request, _)| request.id == id);
        let Some((request, _)) = place.and_then(|place| state.queue.remove(place)) else { return false };
        session.done(id, failed(format!("The {} action was cancelled.", request.module)), &[]);
        true
    }

    /// Forgets who waits, and frees the host.
    pub(super) fn end(&self) {
        let mut state = lock(&self.0);
        state.queue.clear();
        if let Some(lock) = &mut state.lock {
            lock.release();
        }
        state.given_up = true;
    }
}

/// Waits until the host is free, then runs what has queued up, or refuses it when the time is over.
fn wait(session: &Arc<Session>, terms: &LockTerms, mut holder: Holder) {
    let limit = Duration::from_secs(terms.wait);
    let (began, mut beat) = (Instant::now(), None::<Instant>);
    loop {
        let waited = began.elapsed();
        if beat.is_none_or(|beat| beat.elapsed() >= HEARTBEAT) {
            beat = Some(Instant::now());
            let ids: Vec<u64> = lock(&session.gate.0).queue.iter().map(|(request, _)| request.id).collect();
            for id in ids {
                let left = limit.saturating_sub(waited).as_secs();
                let event = Event::LockWait { holder: holder.clone(), waited: waited.as_secs(), left };
                session.event(id, event, &[]);
            }
        }
        thread::sleep(PAUSE.min(limit));
        let mut state = lock(&session.gate.0);
        let Some(locking) = state.queue.iter().filter_map(|(request, _)| request.lock).max() else {
            state.waiting = false;
            return;
        };
        match state.attempt(terms, locking) {
            (Attempt::Held, warning) => {
                // Under the lock: what comes meanwhile must not overtake what has waited.
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
            (Attempt::Busy(other), _) => holder = other,
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
