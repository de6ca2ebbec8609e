//! Work on foreign text whose panic fails that work alone, for this crate and for templates. A file of its own, because
//! a program's panic hook has to distinguish such panics from others, which end a run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs work; `None` if it panics.
pub fn survive<T>(work: impl FnOnce() -> T) -> Option<T> {
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    outcome.ok()
}

/// Whether this thread is within [`survive`].
pub fn is_surviving() -> bool {
    DEPTH.get() > 0
}
