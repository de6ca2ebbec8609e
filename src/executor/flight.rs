//! Identities of requests in a run of several processes: a request has the same one in every process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};
use windlass_protocol::{Flight, Former, Shard};

/// Age at which an outcome of a run in pods is stored in the cluster.
const STORED: Duration = Duration::from_secs(60);

/// Whether this process is a part of a run of several.
static IS_DIVIDED: AtomicBool = AtomicBool::new(false);

/// Whether tasks on hosts go on to their end without this process.
pub(crate) fn outlive_controller() -> bool {
    IS_DIVIDED.load(Ordering::Relaxed)
}

/// Notes that this process is a part of a run of several.
pub(super) fn divide() {
    IS_DIVIDED.store(true, Ordering::Relaxed);
}

/// The part of this process in a run of several.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Name of the run on its hosts, in hex digits.
    pub(crate) run: String,
    /// The part.
    pub(crate) shard: Shard,
    /// Whether outcomes are stored elsewhere, some time after the lead has them.
    pub(crate) is_spread: bool,
}

/// A task on a host, in a run of several processes.
#[derive(Debug, Clone)]
pub(crate) struct TaskFlight {
    /// Place of the task in the run, and the host.
    pub(crate) place: String,
    /// Number of the task's start.
    pub(crate) step: u64,
    /// Process that may have sent it before it was lost.
    pub(crate) former: Option<Sender>,
    /// Whether the user wants it to run again.
    pub(crate) again: bool,
}

/// A lost process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    /// Its part, with the token of its successor; `None` if the whole run was lost.
    pub(crate) shard: Option<Shard>,
    /// Time since which it may have sent the task.
    pub(crate) since: SystemTime,
    /// Whether a task with an unknown end runs again.
    pub(crate) repeats: bool,
}

/// Requests of an item of a task on a host.
#[derive(Debug, Clone)]
pub struct Flights {
    pub(crate) task: Arc<TaskFlight>,
    item: usize,
    next: Arc<AtomicU32>,
}

impl Flights {
    pub(crate) fn new(task: &Arc<TaskFlight>, item: usize) -> Flights {
        Flights { task: Arc::clone(task), item, next: Arc::default() }
    }

    /// Identity of the next request.
    pub(crate) fn next(&self) -> Flight {
        let TaskFlight { place, former, again, .. } = &*self.task;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = hex::encode(Sha256::digest(format!("{}\n{number}\n{place}", self.item)));
        id.truncate(Flight::ID);
        let former = former.map(|Sender { shard, since, repeats }| Former {
            shard,
            // A clock that was set back says nothing.
            age: since.elapsed().map_or(u64::MAX, |age| age.as_secs() + 1),
            repeats,
        });
        Flight { id, settled: Vec::new(), again: *again, former }
    }
}

/// Requests to a host whose results may still be kept there.
#[derive(Debug, Default)]
pub(super) struct Unsettled(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    id: String,
    /// User whose executor keeps it.
    user: Option<String>,
    step: u64,
    /// Time from which on the run has its outcome.
    since: Option<Instant>,
}

impl Unsettled {
    /// Notes a request of a step. Returns requests of this user whose outcomes are recorded: a step begins after all
    /// outcomes of the one before it.
    pub(super) fn send(&self, id: &str, user: Option<&str>, step: u64, part: &Part) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for kept in all.iter_mut().filter(|kept| kept.step < step) {
            kept.since.get_or_insert_with(Instant::now);
        }
        let is_settled = |kept: &mut Kept| {
            let is_recorded = kept.since.is_some_and(|since| !part.is_spread || since.elapsed() >= STORED);
            is_recorded && kept.user.as_deref() == user
        };
        let settled = all.extract_if(.., is_settled).map(|kept| kept.id).collect();
        all.push(Kept { id: id.to_owned(), user: user.map(str::to_owned), step, since: None });
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_one_id_in_all_processes_and_its_own() {
        let task = |place: &str| Arc::new(TaskFlight { place: place.to_owned(), step: 0, former: None, again: false });
        let ids = |place: &str, item| {
            let flights = Flights::new(&task(place), item);
            [flights.next().id, flights.next().id]
        };
        assert_eq!(ids("0.1 web1", 0), ids("0.1 web1", 0));
        let mut all = [ids("0.1 web1", 0), ids("0.1 web1", 1), ids("0.1 web2", 0)].concat();
        all.sort();
        all.dedup();
        assert!(all.len() == 6 && all.iter().all(|id| id.len() == Flight::ID));
    }

    #[test]
    fn results_of_earlier_steps_settled_for_their_own_user() {
        let part = |is_spread| Part { run: "ab".into(), shard: Shard { number: 0, token: 0 }, is_spread };
        let unsettled = Unsettled::default();
        assert!(unsettled.send("a", None, 1, &part(false)).is_empty());
        assert!(unsettled.send("b", Some("root"), 1, &part(false)).is_empty());
        assert_eq!(unsettled.send("c", None, 2, &part(false)), ["a"]);
        assert!(unsettled.send("d", None, 3, &part(true)).is_empty(), "the cluster may not have it yet");
    }
}
