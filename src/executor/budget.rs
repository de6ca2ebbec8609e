//! Memory limits for data from hosts: a host is read only as fast as memory is free for it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_protocol::{MAX_BLOB, MAX_MESSAGE, MAX_WEIGHT};

/// Memory of all hosts together for frames of at most [`MEDIUM`] still arriving, in bytes.
const ARRIVING: usize = 128 << 20;
/// Memory of all hosts together for larger frames still arriving, in bytes. It is separate, because a host can announce
/// such a frame and then send it slowly: the results of most tasks must not wait for that.
const ARRIVING_LARGE: usize = 384 << 20;
/// Memory of all hosts together for decoded large frames that their requests have not taken yet, in bytes.
const DELIVERED: usize = 512 << 20;
/// Memory of one host for decoded frames not taken yet, in bytes. A larger frame must be the only one.
const HOST: usize = 32 << 20;
/// Size of the results of most tasks, in bytes, at the very most.
const MEDIUM: usize = 4 << 20;
/// A frame up to this size in bytes counts only for its host.
const SMALL: usize = 64 << 10;
/// Unit in which memory is counted, in bytes.
const UNIT: usize = 1 << 10;

// Any single frame fits, so its wait always ends.
const _: () =
    assert!(MEDIUM < ARRIVING && MAX_MESSAGE + MAX_BLOB < ARRIVING_LARGE && MAX_WEIGHT + MAX_BLOB < DELIVERED);

/// Memory limits shared by all hosts of a run.
#[derive(Debug)]
pub(super) struct Budget {
    arriving: Arc<Semaphore>,
    arriving_large: Arc<Semaphore>,
    delivered: Arc<Semaphore>,
}

/// Memory limit of one host, and its access to the run's.
#[derive(Debug)]
pub(super) struct Share {
    run: Arc<Budget>,
    host: Arc<Semaphore>,
}

/// Memory reserved until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    _host: Option<OwnedSemaphorePermit>,
    _run: Option<OwnedSemaphorePermit>,
}

impl Default for Budget {
    fn default() -> Self {
        let of = |bytes| Arc::new(Semaphore::new(bytes / UNIT));
        Self { arriving: of(ARRIVING), arriving_large: of(ARRIVING_LARGE), delivered: of(DELIVERED) }
    }
}

impl Share {
    pub(super) fn new(run: Arc<Budget>) -> Self {
        Self { run, host: Arc::new(Semaphore::new(HOST / UNIT)) }
    }

    /// Waits for memory for an arriving frame. A small one needs none.
    pub(super) async fn arriving(&self, size: usize) -> Reserved {
        let run = match (size > SMALL, size > MEDIUM) {
            (false, _) => None,
            (true, false) => reserve(&self.run.arriving, size).await,
            (true, true) => reserve(&self.run.arriving_large, size).await,
        };
        Reserved { _host: None, _run: run }
    }

    /// Waits for memory for a decoded frame, first of its host, then of the run. A wait for the run holds nothing that
    /// a request needs.
    pub(super) async fn delivered(&self, weight: usize) -> Reserved {
        let host = reserve(&self.host, weight.min(HOST)).await;
        let run = if weight > SMALL { reserve(&self.run.delivered, weight).await } else { None };
        Reserved { _host: host, _run: run }
    }
}

/// Returns `None` only if the semaphore is closed, which never happens.
async fn reserve(semaphore: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
    semaphore.clone().acquire_many_owned(units).await.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn announced_large_frames_do_not_hold_up_ordinary_ones() {
        let run = Arc::new(Budget::default());
        let soon = Duration::from_millis(200);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(Share::new(run.clone()).arriving(165 << 20).await);
        }
        let next = Share::new(run);
        assert!(tokio::time::timeout(soon, next.arriving(165 << 20)).await.is_err());
        assert!(tokio::time::timeout(soon, next.arriving(MEDIUM)).await.is_ok());
    }

    #[tokio::test]
    async fn host_over_its_budget_waits_alone() {
        let run = Arc::new(Budget::default());
        let (greedy, modest) = (Share::new(run.clone()), Share::new(run));
        let held = greedy.delivered(200 << 20).await;
        let soon = Duration::from_millis(200);
        assert!(tokio::time::timeout(soon, greedy.delivered(100)).await.is_err());
        assert!(tokio::time::timeout(soon, modest.delivered(1 << 20)).await.is_ok());
        drop(held);
        assert!(tokio::time::timeout(soon, greedy.delivered(100)).await.is_ok());
    }
}
