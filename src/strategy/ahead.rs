//! Sending ahead: a request leaves before the answers to earlier ones are there, so that a long way to the host is waited for once.
//!
//! What may go ahead is decided by what it reads: a template that asks for a variable which something under way will set is given up and
//! evaluated again when its turn has come. On the host, requests with a turn run one after the other, in the order they were sent.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use windlass_protocol::{Become, Turn};

use crate::connection::{Kind, Target};
use crate::executor::Pool;
use crate::vars::ConnectionVariables;

/// The way of one host's requests that are sent ahead. All of them go to the same executor, or they would overtake each other.
pub(super) struct Lane {
    sequence: u64,
    route: Mutex<Option<(Arc<Target>, Option<Become>)>>,
}

impl Lane {
    pub(super) fn new() -> Arc<Lane> {
        static SEQUENCES: AtomicU64 = AtomicU64::new(1);
        Arc::new(Lane { sequence: SEQUENCES.fetch_add(1, Ordering::Relaxed), route: Mutex::default() })
    }

    /// Room for a request that must not read `pending`.
    pub(super) fn ahead(self: &Arc<Lane>, pending: HashSet<Arc<str>>, after_success: bool) -> Arc<Ahead> {
        Arc::new(Ahead {
            lane: Arc::clone(self),
            after_success,
            pending,
            read: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            sent: watch::Sender::new(false),
        })
    }
}

/// One task or item that is sent ahead.
pub struct Ahead {
    lane: Arc<Lane>,
    after_success: bool,
    /// Variables that what is still under way will set.
    pending: HashSet<Arc<str>>,
    /// One of them was read.
    read: AtomicBool,
    refused: AtomicBool,
    sent: watch::Sender<bool>,
}

impl Ahead {
    /// The turn of a request that is about to leave; `None` if it has to wait for what is under way.
    pub(crate) fn admit<V>(&self, connection: &ConnectionVariables, pool: &Pool<V>) -> Option<Turn>
    where
        V: serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        self.look();
        let target = Arc::new(connection.target.clone());
        let user = &connection.become_user;
        // What a local task did can be seen by lookups of the next one.
        let fits = target.kind == Kind::Ssh && !self.read.load(Ordering::Relaxed) && {
            let mut route = self.lane.route.lock().unwrap_or_else(PoisonError::into_inner);
            match &*route {
                Some((first, as_user)) => *first == target && as_user == user,
                None if pool.is_ready(&target, user.as_ref()) => {
                    *route = Some((target, user.clone()));
                    true
                }
                None => false,
            }
        };
        if !fits {
            self.refuse();
            return None;
        }
        Some(Turn { sequence: self.lane.sequence, after_success: self.after_success })
    }

    /// Whether its request is on its way; a second one goes like any other.
    pub(crate) fn has_left(&self) -> bool {
        *self.sent.borrow()
    }

    /// Where it is noted that the request is on its way.
    pub(crate) fn sent(&self) -> watch::Sender<bool> {
        self.sent.clone()
    }

    /// It cannot be done now: it must wait, or was not run because something before it has failed.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Waits until the request is on its way, or is not going to be.
    pub(super) async fn departed(&self) {
        // Fails only when the sender is gone, and it is here.
        let _ = self.sent.subscribe().wait_for(|sent| *sent).await;
    }

    /// Notes what was read so far.
    fn look(&self) {
        if windlass_template::has_read(&self.pending) {
            self.read.store(true, Ordering::Relaxed);
        }
    }

    /// Does the work of a task or item; `None` if it has to be done again when its turn has come.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let outcome = std::future::poll_fn(|context| {
            let (poll, read) = windlass_template::reading(|| work.as_mut().poll(context));
            // Once the request has left, its own results may be read.
            if !self.has_left() && !read.is_disjoint(&self.pending) {
                self.read.store(true, Ordering::Relaxed);
            }
            poll
        })
        .await;
        if !self.sent.send_replace(true) && self.read.load(Ordering::Relaxed) {
            // It ended here (a condition, an error), but by a value that may change.
            self.refuse();
        }
        (!self.is_refused()).then_some(outcome)
    }
}
