//! The queue of events between tasks and the printer. Its size is limited: a paused reader of the output delays the run
//! instead of filling the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};
use windlass_template::Value;

use super::event::Event;

/// Size of queued events in bytes beyond which tasks wait.
const BUDGET: usize = 32 << 20;

/// Multiple of the budget beyond which warnings and details are dropped, because their senders cannot wait.
const FLOOD: usize = 2;

/// Estimated overhead of an event in addition to its texts, in bytes.
const OVERHEAD: usize = 256;

/// Maximum number of values of a result that count for its size.
const LOOKED_AT: usize = 4096;

/// Error: the receiver was dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// Sender of events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    sender: mpsc::UnboundedSender<Queued>,
    budget: Arc<Budget>,
}

/// Receiver of events.
#[derive(Debug)]
pub struct EventQueue {
    receiver: mpsc::UnboundedReceiver<Queued>,
    budget: Arc<Budget>,
    /// Size of the event received last, which is being printed.
    being_shown: usize,
}

#[derive(Debug)]
struct Queued {
    event: Event,
    size: usize,
}

#[derive(Debug)]
struct Budget {
    limit: usize,
    queued: AtomicUsize,
    room: Notify,
    /// Whether any output prints live output.
    wants_live: AtomicBool,
    /// Bytes of live output and number of messages dropped since the last notice.
    dropped_bytes: AtomicUsize,
    dropped_sentences: AtomicUsize,
}

fn with_limit(limit: usize) -> (Events, EventQueue) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let budget = Arc::new(Budget {
        limit,
        queued: AtomicUsize::new(0),
        room: Notify::new(),
        wants_live: AtomicBool::new(true),
        dropped_bytes: AtomicUsize::new(0),
        dropped_sentences: AtomicUsize::new(0),
    });
    (Events { sender, budget: Arc::clone(&budget) }, EventQueue { receiver, budget, being_shown: 0 })
}

/// Creates the queue of a run.
pub fn event_queue() -> (Events, EventQueue) {
    with_limit(BUDGET)
}

/// Creates a queue for events held back until their turn. It is never full, because their forwarder waits instead.
pub fn held_events() -> (Events, EventQueue) {
    with_limit(usize::MAX / FLOOD)
}

impl Events {
    /// Sends an event immediately. A sender that can wait calls [`Events::room`] before it starts the work that causes
    /// events.
    ///
    /// Beyond the budget live output is dropped, and far beyond it warnings and details too; a notice counts both.
    pub fn send(&self, event: Event) -> Result<(), Closed> {
        let queued = self.budget.queued.load(Ordering::Acquire);
        match &event {
            Event::Live { .. } if !self.budget.wants_live.load(Ordering::Relaxed) => return Ok(()),
            Event::Live { bytes, .. } if queued > self.budget.limit => {
                self.budget.dropped_bytes.fetch_add(bytes.len(), Ordering::AcqRel);
                return Ok(());
            }
            Event::Printed { .. } | Event::Warning(_) | Event::Deprecation(_) | Event::Verbose { .. }
                if queued > self.budget.limit * FLOOD =>
            {
                self.budget.dropped_sentences.fetch_add(1, Ordering::AcqRel);
                return Ok(());
            }
            _ => {}
        }
        let size = size(&event);
        self.budget.queued.fetch_add(size, Ordering::AcqRel);
        self.sender.send(Queued { event, size }).map_err(|_| Closed)
    }

    /// Drops live output from now on, because no output prints it.
    pub fn without_live(&self) {
        self.budget.wants_live.store(false, Ordering::Relaxed);
    }

    /// Waits until the queued events fit the budget.
    pub async fn room(&self) {
        while self.is_full() {
            let mut notified = std::pin::pin!(self.budget.room.notified());
            notified.as_mut().enable();
            // Space freed before `enable` sends no further notification.
            if self.is_full() {
                notified.await;
            }
        }
    }

    /// Whether the queued events exceed the budget.
    pub(crate) fn is_full(&self) -> bool {
        self.budget.queued.load(Ordering::Acquire) > self.budget.limit && !self.sender.is_closed()
    }
}

impl EventQueue {
    /// Receives the next event; the previous one then counts as printed.
    pub async fn recv(&mut self) -> Option<Event> {
        self.release();
        let bytes = self.budget.dropped_bytes.swap(0, Ordering::AcqRel);
        let sentences = self.budget.dropped_sentences.swap(0, Ordering::AcqRel);
        if bytes + sentences > 0 {
            return Some(Event::Warning(format!(
                "the output is read too slowly: {bytes} bytes of live output and {sentences} warnings and details \
                 were not shown. Results are complete."
            )));
        }
        let Queued { event, size } = self.receiver.recv().await?;
        self.being_shown = size;
        Some(event)
    }

    fn release(&mut self) {
        let size = std::mem::take(&mut self.being_shown);
        if size > 0 {
            self.budget.queued.fetch_sub(size, Ordering::AcqRel);
            self.budget.room.notify_waiters();
        }
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        // Nothing will be printed any more, so no sender has to wait.
        self.receiver.close();
        self.budget.queued.store(0, Ordering::Release);
        self.budget.room.notify_waiters();
    }
}

/// Estimated memory of an event, in bytes.
fn size(event: &Event) -> usize {
    let texts = match event {
        Event::Result(result) | Event::IncludeResult(result) => {
            let mut left = LOOKED_AT;
            let values = result.result.iter().map(|(key, value)| key.len() + size_of_value(value, 0, &mut left));
            values.sum::<usize>() + result.report.as_ref().map_or(0, String::len)
        }
        Event::Retry { result, .. } => {
            let mut left = LOOKED_AT;
            result.iter().map(|(key, value)| key.len() + size_of_value(value, 0, &mut left)).sum()
        }
        Event::Live { bytes, .. } => bytes.len(),
        Event::Warning(text) | Event::Deprecation(text) | Event::Notice(text) | Event::Banner(text) => text.len(),
        Event::Verbose { text, .. } | Event::Printed { line: text, .. } => text.len(),
        _ => 0,
    };
    texts + OVERHEAD
}

/// Estimated memory of a value in bytes. Of a large one only the first parts count.
fn size_of_value(value: &Value, depth: usize, left: &mut usize) -> usize {
    if *left == 0 || depth > 4 {
        return 0;
    }
    *left -= 1;
    if let Some(text) = value.as_str() {
        return text.len();
    }
    let Some(object) = value.as_object() else { return 16 };
    let pairs = object.try_iter_pairs().into_iter().flatten();
    pairs.map_while(|(_, item)| (*left > 0).then(|| 16 + size_of_value(&item, depth + 1, left))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(bytes: usize) -> Event {
        Event::Live { host: "a".to_owned(), bytes: vec![b'x'; bytes] }
    }

    #[tokio::test]
    async fn queue_beyond_its_budget_makes_tasks_wait_and_drops_live_output() {
        let (events, mut queue) = with_limit(1000);
        events.send(live(2000)).unwrap();
        events.send(live(500)).unwrap();
        let waiting = events.clone();
        let task = tokio::spawn(async move { waiting.room().await });
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        assert!(matches!(queue.recv().await, Some(Event::Warning(text)) if text.contains("500 bytes")));
        assert!(matches!(queue.recv().await, Some(Event::Live { bytes, .. }) if bytes.len() == 2000));
        events.send(Event::End).unwrap();
        assert!(matches!(queue.recv().await, Some(Event::End)));
        task.await.unwrap();
    }

    #[tokio::test]
    async fn closed_queue_blocks_no_sender() {
        let (events, queue) = with_limit(10);
        events.send(live(2000)).unwrap();
        drop(queue);
        events.room().await;
        assert_eq!(events.send(Event::End), Err(Closed));
    }
}
