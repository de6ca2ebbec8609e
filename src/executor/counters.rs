//! Counts connections, requests and bytes of a run without locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of connections, requests and traffic, for benchmarks and `-vvv`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections made.
    pub connections: u64,
    /// Executors uploaded.
    pub uploads: u64,
    /// Requests sent.
    pub requests: u64,
    /// Times the controller waited for a host: for an answer or for a requested content. Requests sent ahead of other
    /// answers add none.
    pub round_trips: u64,
    /// Bytes of frames and executors sent.
    pub sent: u64,
    /// Bytes of frames received.
    pub received: u64,
    /// Bytes sent on the wire, including SSH's overhead. Open connections count up to now.
    pub wire_sent: u64,
    /// Bytes received on the wire.
    pub wire_received: u64,
}

/// Running totals behind [`Statistics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) uploads: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) round_trips: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) wire_sent: AtomicU64,
    pub(super) wire_received: AtomicU64,
}

impl Counters {
    /// Current values.
    pub(super) fn read(&self) -> Statistics {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            connections: value(&self.connections),
            uploads: value(&self.uploads),
            requests: value(&self.requests),
            round_trips: value(&self.round_trips),
            sent: value(&self.sent),
            received: value(&self.received),
            wire_sent: value(&self.wire_sent),
            wire_received: value(&self.wire_received),
        }
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}
