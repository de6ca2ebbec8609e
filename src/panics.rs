//! Panics: each is a bug, and ends the program with a sentence and an exit code of its own. A file of its own, because
//! the thread that panics is rarely the one that has to end: without a hook, others would wait for it.
//!
//! A runtime of tokio that is dropped waits for all blocking work, such as the printer, which waits for the last sender
//! of events. So a panic on the first thread must not unwind past a runtime.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::watch;

use crate::error::Error;

/// Maximum length of a message, in bytes.
const MESSAGE: usize = 4 << 10;

/// The first panic that ends the program.
static FIRST: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));
/// Number of running [`unless`] calls.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is within [`caught`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Installs a hook that keeps the message of a panic that ends the program. The final error prints it, with secrets
/// masked. Other panics are printed as usual.
pub(crate) fn install() {
    let usual = std::panic::take_hook();
    let wants_all = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    std::panic::set_hook(Box::new(move |info| {
        let is_survived = windlass_yaml::is_surviving();
        let is_kept = !is_survived && (IS_CAUGHT.get() || LISTENERS.load(Ordering::Acquire) > 0);
        if is_kept {
            note(info);
        }
        if wants_all || !(is_kept || is_survived) {
            usual(info);
        }
    }));
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
    let mut text = info.payload_as_str().unwrap_or("it gave no reason").to_owned();
    text.truncate(text.floor_char_boundary(MESSAGE));
    FIRST.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(format!("{text}{place}"));
        is_first
    });
}

/// Waits for a panic that ends the program.
pub(crate) async fn happened() -> Error {
    let mut first = FIRST.subscribe();
    let is_noted = first.wait_for(Option::is_some).await.is_ok();
    if is_noted { error() } else { std::future::pending().await }
}

fn error() -> Error {
    let first = FIRST.borrow();
    Error::bug(first.as_deref().unwrap_or("a part of it ended without a reason"))
}

/// Runs work. Fails if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    let before = IS_CAUGHT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    outcome.map_err(|_| error())
}

/// Runs work whose panic ends nothing and is printed as usual. `None` if it panics.
pub(crate) fn survived<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = IS_CAUGHT.replace(false);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    outcome.ok()
}

/// Runs work to its end. Fails if it panics.
pub(crate) async fn caught_in<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let mut work = pin!(work);
    poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(bug) => Poll::Ready(Err(bug)),
    })
    .await
}

/// Runs work until it is done or any thread panics, which drops it.
pub(crate) async fn unless<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    struct Listener;
    impl Drop for Listener {
        fn drop(&mut self) {
            LISTENERS.fetch_sub(1, Ordering::AcqRel);
        }
    }
    LISTENERS.fetch_add(1, Ordering::AcqRel);
    let _listener = Listener;
    tokio::select! {
        biased;
        bug = happened() => Err(bug),
        outcome = caught_in(work) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_that_is_survived_is_not_the_one_that_ends_the_program() {
        install();
        let outcome = caught(|| survived(|| panic!("survived")).is_none());
        assert!(outcome.unwrap());
        assert!(!FIRST.borrow().as_deref().is_some_and(|first| first.contains("survived")));
    }
}
