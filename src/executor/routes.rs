//! Requests of one executor, and the routing of frames to them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use windlass_protocol::{Answer, Reply};

use super::budget::Reserved;

/// Maximum number of queued frames per request. Beyond that the host is slowed down to limit memory.
const INCOMING: usize = 32;
/// Frames accepted for finished requests, because a module's thread may still have been writing.
const LATE: u32 = 1000;

/// Message of the executor for one request. A channel allocates 32 places at once, so it carries boxes.
pub(super) struct Incoming<V> {
    pub(super) reply: Reply<Answer<V>>,
    pub(super) blob: Vec<u8>,
    /// Bytes of the frame on the wire.
    pub(super) size: u64,
    /// Memory reserved for it.
    pub(super) _reserved: Reserved,
}

/// Reason why an executor is gone.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// The executor ended, or the connection broke.
    Lost(String),
    /// The executor broke the protocol or a limit; the rest of a sentence whose subject is the executor.
    Violation(String),
}

/// A registered request, with the queue of its frames.
pub(super) struct Registered<V> {
    pub(super) id: u64,
    pub(super) incoming: mpsc::Receiver<Box<Incoming<V>>>,
    /// Time of its last frame, by the connection's clock.
    pub(super) heard: Arc<AtomicU64>,
}

/// Requests of one executor.
pub(super) struct Routes<V>(Mutex<State<V>>);

struct State<V> {
    open: HashMap<u64, Route<V>>,
    /// Abandoned requests that the executor has not finished.
    abandoned: HashSet<u64>,
    last_id: u64,
    late: u32,
    end: Option<End>,
}

struct Route<V> {
    sender: mpsc::Sender<Box<Incoming<V>>>,
    heard: Arc<AtomicU64>,
}

impl<V> Default for Routes<V> {
    fn default() -> Self {
        Self(Mutex::new(State { open: HashMap::new(), abandoned: HashSet::new(), last_id: 0, late: 0, end: None }))
    }
}

impl<V> Routes<V> {
    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new request. Fails with the reason if the executor is gone.
    pub(super) fn register(&self, now: u64) -> Result<Registered<V>, End> {
        let mut state = self.lock();
        if let Some(end) = &state.end {
            return Err(end.clone());
        }
        state.last_id += 1;
        let (id, heard) = (state.last_id, Arc::new(AtomicU64::new(now)));
        let (sender, incoming) = mpsc::channel(INCOMING);
        state.open.insert(id, Route { sender, heard: heard.clone() });
        Ok(Registered { id, incoming, heard })
    }

    /// Unregisters a request; later frames for it are dropped.
    pub(super) fn unregister(&self, id: u64) {
        let mut state = self.lock();
        if state.open.remove(&id).is_some() {
            state.abandoned.insert(id);
        }
    }

    /// Requests without an answer.
    pub(super) fn open(&self) -> Vec<u64> {
        self.lock().open.keys().copied().collect()
    }

    /// Ends all requests. If called repeatedly, the first reason stays.
    pub(super) fn close(&self, end: End) {
        let mut state = self.lock();
        state.open.clear();
        state.end.get_or_insert(end);
    }

    /// Reason why the executor is gone; `None` while it runs.
    pub(super) fn end(&self) -> Option<End> {
        self.lock().end.clone()
    }

    /// Destination of a frame; `None` drops it. Fails for a forbidden frame, with the rest of a sentence whose subject
    /// is the executor.
    pub(super) fn destination(
        &self,
        reply: &Reply<Answer<V>>,
        now: u64,
    ) -> Result<Option<mpsc::Sender<Box<Incoming<V>>>>, String> {
        let (id, is_done) = match reply {
            Reply::Hello(_) => return Err("greeted a second time".to_owned()),
            Reply::Event { id, .. } | Reply::Pong { id } => (*id, false),
            Reply::Done { id, .. } => (*id, true),
        };
        let mut state = self.lock();
        if state.end.is_some() {
            return Ok(None);
        }
        if let Some(route) = state.open.get(&id) {
            route.heard.store(now, Ordering::Relaxed);
            if matches!(reply, Reply::Pong { .. }) {
                return Ok(None);
            }
            let sender = route.sender.clone();
            if is_done {
                state.open.remove(&id);
            }
            return Ok(Some(sender));
        }
        if id == 0 || id > state.last_id {
            return Err(format!("answered request {id}, which it never received"));
        }
        if is_done {
            return if state.abandoned.remove(&id) { Ok(None) } else { Err(format!("answered request {id} twice")) };
        }
        if !state.abandoned.contains(&id) {
            state.late += 1;
            if state.late > LATE {
                return Err(format!("sent more than {LATE} messages for tasks that were done"));
            }
        }
        Ok(None)
    }
}
