//! Counts of a batch that outlive it: a signal can drop the batch half-way, and the recap still needs them.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

use crate::output::Stats;

/// Counts per host.
pub(super) type Counts = IndexMap<Arc<str>, Stats>;

/// Receives the counts of a batch dropped half-way.
#[derive(Clone, Default)]
pub(super) struct LeftBehind(Arc<Mutex<Counts>>);

impl LeftBehind {
    /// Counts that a batch left behind; empty if every batch finished.
    pub(super) fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts of a running batch.
pub(super) struct Tally {
    counts: Counts,
    left: LeftBehind,
}

impl Tally {
    /// Continues from `counts`.
    pub(super) fn new(counts: Counts, left: LeftBehind) -> Tally {
        Tally { counts, left }
    }

    /// Returns the counts of a finished batch.
    pub(super) fn finish(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

impl Deref for Tally {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl DerefMut for Tally {
    fn deref_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !self.counts.is_empty() {
            *self.left.0.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.counts);
        }
    }
}
