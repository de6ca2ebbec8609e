//! Items of a loop that run in parallel on one host: `loop_control.parallel`.
//!
//! An executor runs each request in a thread of its own, so such items are ordinary requests. Their order is that of
//! the loop again when all are done. Each is reported and recorded when it ends, so that a resumed run repeats only
//! items without an outcome.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::execute::TaskOnHost;
use super::loop_run::{Items, Origin};
use super::one_item::ItemOutcome;

/// Limits on the items that run in parallel on one host. The permits of the task itself cover one item, so every loop
/// proceeds.
#[derive(Debug, Clone, Default)]
pub(super) enum Beside {
    /// Items run one after the other.
    #[default]
    Nothing,
    /// As many items run as `forks` and the task's `throttle` allow over all hosts.
    Counted { throttle: Option<Arc<Semaphore>> },
}

/// Right to run one more item, until it is dropped.
struct Permit {
    _throttle: Option<OwnedSemaphorePermit>,
    _fork: Option<OwnedSemaphorePermit>,
}

/// An item that has ended.
struct Ended {
    index: usize,
    began: Instant,
    outcome: ItemOutcome,
    /// `None` for the item that the permits of the task cover.
    permit: Option<Permit>,
}

impl TaskOnHost {
    /// Waits until one more item may run.
    async fn permit(&self) -> Permit {
        let Beside::Counted { throttle } = &self.beside else { return pending().await };
        // Both semaphores stay open until the program ends. The order is that of `Batch::start`.
        let throttle = match throttle {
            Some(semaphore) => Arc::clone(semaphore).acquire_owned().await.ok(),
            None => None,
        };
        let fork = Arc::clone(&self.shared.forks).acquire_owned().await.ok();
        Permit { _throttle: throttle, _fork: fork }
    }
}

impl<'a> Items<'a> {
    /// Runs all items, at most `width` in parallel. After an item that ends the loop, no further item starts. Items
    /// under way are waited for, since they may have changed their host.
    pub(super) async fn run_beside(&mut self, width: usize) {
        let mut under_way = FuturesUnordered::new();
        let (mut next, mut goes_on, mut is_covered) = (0, true, false);
        loop {
            let may_start = goes_on && next < self.len() && under_way.len() < width;
            if may_start && let Some(outcome) = self.restored(next) {
                goes_on = self.finish(next, outcome, Origin::Restored);
                next += 1;
                continue;
            }
            if may_start && !is_covered {
                is_covered = true;
                under_way.push(self.started(next, None));
                next += 1;
                continue;
            }
            tokio::select! {
                biased;
                ended = under_way.next(), if !under_way.is_empty() => {
                    let Some(Ended { index, began, outcome, permit }) = ended else { continue };
                    goes_on &= self.finish(index, outcome, Origin::Beside(began));
                    is_covered &= permit.is_some();
                }
                permit = self.task().permit(), if may_start => {
                    under_way.push(self.started(next, Some(permit)));
                    next += 1;
                }
                else => break,
            }
        }
        self.sort();
    }

    fn started(&self, index: usize, permit: Option<Permit>) -> impl Future<Output = Ended> + use<'a> {
        let (task, context) = (self.task(), self.context_of(index));
        async move {
            task.events.room().await;
            let began = Instant::now();
            let outcome = Box::pin(task.item(&context, index, None)).await;
            Ended { index, began, outcome, permit }
        }
    }
}
