//! Sending ahead: a request leaves before the answers to earlier ones are there, so that a long way to the host is waited for once.
//!
//! What may go ahead is decided by what it reads: a template that asks for a variable which something under way will set is given up and
//! evaluated again when its turn has come. On the host, requests with a turn run one after the other, in the order they were sent.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::watch;
use windlass_protocol::{Become, Turn};
use windlass_template::{Dependencies, PROJECT, Value, has_read};

use crate::action::ActionContext;
use crate::connection::{Kind, Target};
use crate::executor::{Departure, Extent};

/// The way of one host's requests that are sent ahead. All of them go to the same executor, or they would overtake each other.
pub(super) struct Lane {
    sequence: u64,
    route: Mutex<Option<Route>>,
}

/// Where everything on a lane goes.
struct Route {
    target: Arc<Target>,
    user: Option<Become>,
    /// The host is this machine itself.
    is_here: bool,
    /// What is under way may change files of the project.
    changes_project: bool,
}

impl Lane {
    pub(super) fn new() -> Arc<Lane> {
        static SEQUENCES: AtomicU64 = AtomicU64::new(1);
        Arc::new(Lane { sequence: SEQUENCES.fetch_add(1, Ordering::Relaxed), route: Mutex::default() })
    }

    /// Room for a request that must not read `pending` and is not to be run when one of an earlier step has failed.
    pub(super) fn ahead(self: &Arc<Lane>, pending: Dependencies, step: u32) -> Arc<Ahead> {
        let departure = watch::Sender::new(Departure::Undecided);
        Arc::new(Ahead { lane: Arc::clone(self), step, pending, departure })
    }
}

/// The boot of this machine, by which a host that is the same machine is known.
static BOOT_ID: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned());

/// Whether a module may change something below one of these folders. Some change only what they name.
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

/// One task or item that is sent ahead.
pub struct Ahead {
    lane: Arc<Lane>,
    step: u32,
    /// What must not be read: variables that what is still under way will set.
    pending: Dependencies,
    departure: watch::Sender<Departure>,
}

impl Ahead {
    /// The turn of a request that is about to leave, and whether others left before it; `None` if it has to wait for what is under way.
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
        // What a local task did can be seen by lookups of the next one.
        if target.kind != Kind::Ssh || !self.is_undecided() || has_read(|name| self.pending.contains(name)) {
            return None;
        }
        let mut place = self.lane.route.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = place.is_some();
        if !follows {
            let target = Arc::new(target.clone());
            let hello = action.pool.ready(&target, module, user.as_ref())?;
            let is_here = hello.boot_id == *BOOT_ID;
            *place = Some(Route { target, user: user.clone(), is_here, changes_project: false });
        }
        let route = place.as_mut().filter(|route| *route.target == *target && route.user == *user)?;
        // Another executor would have to be started for it, which knows nothing of the turns.
        if follows && Extent::of(module) == Extent::All {
            action.pool.ready(&route.target, module, user.as_ref())?;
        }
        if route.changes_project && has_read(|name| name == PROJECT) {
            return None;
        }
        route.changes_project |= route.is_here && may_change(module, args, &action.context.search_paths());
        Some(follows)
    }

    /// Whether nothing of it has left yet.
    pub(crate) fn is_undecided(&self) -> bool {
        *self.departure.borrow() == Departure::Undecided
    }

    /// Where it is noted that the request is on its way.
    pub(crate) fn departure(&self) -> watch::Sender<Departure> {
        self.departure.clone()
    }

    /// Waits until it is on its way, or is not going to be; whether it is.
    pub(super) async fn has_left(&self) -> bool {
        let mut departure = self.departure.subscribe();
        // Fails only when the sender is gone, and it is here.
        let end = departure.wait_for(|departure| *departure != Departure::Undecided).await;
        end.is_ok_and(|end| *end == Departure::Left)
    }

    /// It has to be done again in its turn.
    pub(crate) fn refuse(&self) {
        self.departure.send_replace(Departure::Refused);
    }

    /// Its departure is settled, unless it has been before.
    pub(super) fn settle(&self, as_: Departure) {
        self.departure.send_if_modified(|departure| {
            let open = *departure == Departure::Undecided;
            if open {
                *departure = as_;
            }
            open
        });
    }

    /// Does the work of a task or item; `None` if it has to be done again when its turn has come.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let outcome = std::future::poll_fn(|context| {
            let (poll, read) = windlass_template::reading(|| work.as_mut().poll(context));
            // Once the request has left, its own results may be read.
            if !read.is_disjoint(&self.pending) {
                self.settle(Departure::Refused);
            }
            poll
        })
        .await;
        // It may have ended here, without a request.
        self.settle(Departure::Left);
        (*self.departure.borrow() == Departure::Left).then_some(outcome)
    }
}

/// Waits until what is being prepared is on its way, or is not going to be; whether it is.
pub(super) async fn departed(ahead: Option<&Ahead>) -> bool {
    match ahead {
        None => true,
        Some(ahead) => ahead.has_left().await,
    }
}
