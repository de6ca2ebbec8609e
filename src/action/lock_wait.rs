//! The time that an action spends waiting for other runs' locks, which its `timeout` does not count.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The waits of one action.
#[derive(Debug, Default)]
pub(crate) struct LockWait(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    ended: Duration,
    current: Option<Instant>,
}

impl LockWait {
    /// Notes that a host begins or ends to wait.
    pub(super) fn note(&self, waits: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if waits { state.current.replace(Instant::now()) } else { state.current.take() };
        state.ended += before.map(|begin| begin.elapsed()).unwrap_or_default();
    }

    /// Total duration so far.
    pub(crate) fn so_far(&self) -> Duration {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended + state.current.map(|begin| begin.elapsed()).unwrap_or_default()
    }
}
