//! Locks that stay usable after a module has panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. One that a panic has poisoned is still valid, because no data is left half-updated under these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
