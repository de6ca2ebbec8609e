//! Sending ahead: a request leaves before earlier ones are answered, so a distant host costs fewer round trips.
//!
//! A request may leave early only if it reads nothing that is still pending. A template that asks for a pending
//! variable is abandoned and evaluated again in its turn. The host runs requests with a turn one by one, in the order
//! sent.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::watch;
use windlass_protocol::{Become, Turn};
use windlass_template::{Dependencies, PROJECT, Value, has_read};

use super::ActionContext;
use crate::connection::{Kind, Target};
use crate::executor::{Departure, Extent};

/// Ordered stream of requests sent ahead to one host. All go to the same executor; otherwise they could overtake each
/// other.
pub(crate) struct Lane {
    sequence: u64,
    route: Mutex<Option<Route>>,
}

/// Destination of every request on a lane.
struct Route {
    target: Arc<Target>,
    user: Option<Become>,
    /// The host is this machine.
    is_here: bool,
    /// A request under way may change files of the project.
    changes_project: bool,
}

impl Lane {
    pub(crate) fn new() -> Arc<Lane> {
        static SEQUENCES: AtomicU64 = AtomicU64::new(1);
        Arc::new(Lane { sequence: SEQUENCES.fetch_add(1, Ordering::Relaxed), route: Mutex::default() })
    }

    /// Reserves a place for a request of task `step`. It must not read `pending`, and the host skips it if an earlier
    /// step has failed.
    pub(crate) fn ahead(self: &Arc<Lane>, pending: Dependencies, step: u32) -> Arc<Ahead> {
        let departure = watch::Sender::new(Departure::Undecided);
        Arc::new(Ahead { lane: Arc::clone(self), step, pending, departure })
    }
}

/// Boot id of this machine. A host that reports the same one is this machine.
static BOOT_ID: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned());

/// Whether a module may change files below one of these folders. The modules in `plain` change only the paths they
/// name.
fn may_change(module: &str, args: &Value, folders: &[PathBuf]) -> bool {
    let plain = ["blockinfile", "copy", "file", "lineinfile", "ping", "replace", "stat"];
    let is_relative = |key: &&str| {
        let value = args.get_attr(key).unwrap_or_default();
        value.as_str().is_some_and(|path| !path.starts_with('/'))
    };
    let named = windlass_template::to_json(args).to_string();
    !plain.contains(&crate::playbook::short_name(module))
        || ["dest", "name", "path"].iter().any(is_relative)
        || folders.iter().any(|folder| named.contains(&*folder.to_string_lossy()))
}

/// A task or item that is sent ahead.
pub struct Ahead {
    lane: Arc<Lane>,
    step: u32,
    /// Variables that requests still under way will set; reading one abandons this request.
    pending: Dependencies,
    departure: watch::Sender<Departure>,
}

impl Ahead {
    /// Returns the turn of a request that is about to leave, and whether others left before it. Returns `None` if the
    /// request has to wait for the ones under way.
    pub(crate) fn admit(&self, action: &ActionContext, module: &str, args: &Value) -> Option<(Turn, bool)> {
        let follows = self.joins(action, module, args);
        if follows.is_none() {
            self.refuse();
        }
        Some((Turn { sequence: self.lane.sequence, step: self.step }, follows?))
    }

    fn joins(&self, action: &ActionContext, module: &str, args: &Value) -> Option<bool> {
        let target = &action.connection.target;
        let user = &action.connection.become_user;
        // Lookups of the next task can see the effects of a local task, so local tasks are never sent ahead.
        if target.kind != Kind::Ssh || !self.is_undecided() || has_read(|name| self.pending.contains(name)) {
            return None;
        }
        let mut place = self.lane.route.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = place.is_some();
        let extent = Extent::of_call(module, args);
        if !follows {
            let target = Arc::new(target.clone());
            let hello = action.pool.ready(&target, extent, user.as_ref())?;
            let is_here = hello.boot_id == *BOOT_ID;
            *place = Some(Route { target, user: user.clone(), is_here, changes_project: false });
        }
        let route = place.as_mut().filter(|route| *route.target == *target && route.user == *user)?;
        // The module would need another executor, which does not know the turns of this one.
        if follows && extent == Extent::All {
            action.pool.ready(&route.target, extent, user.as_ref())?;
        }
        if route.changes_project && has_read(|name| name == PROJECT) {
            return None;
        }
        route.changes_project |= route.is_here && may_change(module, args, &action.context.search_paths());
        Some(follows)
    }

    /// Whether the decision to send or to wait is still open.
    pub(crate) fn is_undecided(&self) -> bool {
        *self.departure.borrow() == Departure::Undecided
    }

    /// Channel on which the sender records that the request has left.
    pub(crate) fn departure(&self) -> watch::Sender<Departure> {
        self.departure.clone()
    }

    /// Whether the request has left.
    pub(crate) fn is_sent(&self) -> bool {
        *self.departure.borrow() == Departure::Left
    }

    /// Waits for the decision; returns true if the request has left.
    pub(crate) async fn has_left(&self) -> bool {
        let mut departure = self.departure.subscribe();
        // `wait_for` fails only when the sender is dropped, and `self` holds it.
        let end = departure.wait_for(|departure| *departure != Departure::Undecided).await;
        end.is_ok_and(|end| *end == Departure::Left)
    }

    /// Marks the request as refused: it is repeated in its turn.
    pub(crate) fn refuse(&self) {
        self.departure.send_replace(Departure::Refused);
    }

    /// Records the decision unless one was made before.
    pub(crate) fn settle(&self, as_: Departure) {
        self.departure.send_if_modified(|departure| {
            let open = *departure == Departure::Undecided;
            if open {
                *departure = as_;
            }
            open
        });
    }

    /// Runs a task or item. Returns `None` if it has to be repeated in its turn.
    pub(crate) async fn watch<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let outcome = std::future::poll_fn(|context| {
            let (poll, read) = windlass_template::reading(|| work.as_mut().poll(context));
            // Once the request has left, its results may be read.
            if !read.is_disjoint(&self.pending) {
                self.settle(Departure::Refused);
            }
            poll
        })
        .await;
        // The work may have ended without sending a request.
        self.settle(Departure::Left);
        (*self.departure.borrow() == Departure::Left).then_some(outcome)
    }
}

/// Waits until `ahead` is decided; returns true if it has left or if nothing is being prepared.
pub(crate) async fn departed(ahead: Option<&Ahead>) -> bool {
    match ahead {
        None => true,
        Some(ahead) => ahead.has_left().await,
    }
}
