//! A run in several processes ([docs/how-to/shards.md](../../docs/how-to/shards.md)).
//!
//! One process leads. Every process interprets the whole run: it has all hosts, variables and results, and decides by
//! itself which task comes next. Only a task on a host is not repeated everywhere. The lead chooses one process to run
//! it, and the others receive its outcome as if they had run it themselves. So keywords that look at several hosts
//! (`run_once`, `serial`, `hostvars`, handlers, limits of failures) keep their meaning without code of their own.
//!
//! The lead prints, keeps the journal and counts `forks` and `throttle`. A worker that is lost or takes another path
//! than the lead is left out, and the lead runs the tasks of its hosts.
//!
//! Workers are processes of this machine behind a Unix socket, or pods behind TCP with TLS. A pod may come late or be
//! replaced: it gets all steps and outcomes so far, interprets the run up to the present, and then takes its hosts.

mod door;
mod hub;
mod keys;
mod link;
mod past;
mod sent;
mod serve;
mod wire;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use door::{CommandLine, Workers};
pub(crate) use hub::{Hub, Left};
pub(crate) use keys::{KeyPair, OTHER_KEYS, OWN_KEY};
pub(crate) use link::{Gone, Lead, Link, Order};
pub(crate) use sent::{SentEvent, SentOutcome, SentResult};
pub(crate) use wire::{Slot, ToLead, Welcome};

/// Interval at which a worker and the lead report that they are alive.
const ALIVE: Duration = Duration::from_secs(5);
/// Silence after which a worker counts as lost and is killed. So is one that is not at the next task in this time.
const LOST: Duration = Duration::from_secs(60);
/// Silence of the lead after which a worker in a pod ends. The next pod of the lead waits for longer.
const SILENT: Duration = Duration::from_secs(15);
/// Time that a worker in a pod waits for a lead, and a lead for workers to read what the run begins with; pause between
/// two attempts to connect.
const WAIT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);
/// Time for the handshake of a connection between pods.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval at which the lead looks for workers that have ended before they connected.
const LOOK: Duration = Duration::from_millis(100);
/// Time that workers have to connect, and to end after the run.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(15);
/// Time that a worker has to end by itself once the lead has ended the run.
const REST: Duration = Duration::from_secs(1);

/// The part of this process in a run of several.
#[derive(Debug, Clone)]
pub(crate) enum Shards {
    /// It leads.
    Lead(Arc<Hub>),
    /// It follows.
    Worker(Arc<Link>),
}

impl Shards {
    /// Whether this process leads others on other machines.
    pub(crate) fn are_spread(&self) -> bool {
        matches!(self, Shards::Lead(hub) if hub.is_spread())
    }
}

/// A value that two processes compare instead of a long list.
pub(crate) fn digest<'a>(hosts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hosts.for_each(|host| host.hash(&mut hasher));
    hasher.finish()
}
