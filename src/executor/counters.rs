use std::sync::atomic::{AtomicU64, Ordering};

/// What was done on connections, for benchmarks and `-vvv`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections made.
    pub connections: u64,
    /// Executors sent.
    pub uploads: u64,
    /// Requests sent.
    pub requests: u64,
    /// Times an answer of a host was waited for: a request, a content it asked for. What is sent ahead of other answers adds none.
    pub round_trips: u64,
    /// Bytes of frames and executors sent.
    pub sent: u64,
    /// Bytes of frames received.
    pub received: u64,
    /// Bytes sent on the wire, with everything SSH adds. Connections that still live are counted up to now.
    pub wire_sent: u64,
    /// Bytes received on the wire.
    pub wire_received: u64,
}

/// The same, while it is counted.
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
    /// The present values.
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
