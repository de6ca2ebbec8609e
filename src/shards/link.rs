//! A worker's side: waits for the lead's orders, and reports what it does.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{oneshot, watch};

use super::sent::SentOutcome;
use super::wire::{self, Slot, ToLead, ToWorker, Welcome};
use super::{ALIVE, REST, digest};
use crate::error::{Error, Result};

/// The lead's order about a task on a host.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run it.
    Run,
    /// Take over this outcome.
    Take(Arc<SentOutcome>),
}

/// The connection to the lead.
#[derive(Debug)]
pub(crate) struct Link {
    messages: UnboundedSender<ToLead>,
    /// Whether the last message is on its way.
    has_ended: watch::Receiver<bool>,
    /// The steps of the lead that this process has not compared.
    steps: watch::Receiver<Steps>,
    orders: Mutex<HashMap<Slot, Awaited>>,
    step: AtomicU64,
    has_strayed: AtomicBool,
    /// Number of tasks that this process has begun and whose outcome it has not sent.
    under_way: AtomicUsize,
}

/// Names of the lead's tasks and digests of their hosts, by number.
type Steps = HashMap<u64, (String, u64)>;

/// An order that has come before the task waits for it, or a task that waits for its order.
#[derive(Debug)]
enum Awaited {
    Order(Order),
    Task(oneshot::Sender<Order>),
}

impl Link {
    /// Connects to the lead, and returns its first message. `lost` runs when the lead is gone before this process
    /// has ended.
    ///
    /// # Errors
    ///
    /// If nobody leads there.
    pub(crate) async fn connect(socket: &Path, lost: impl FnOnce() + Send + 'static) -> Result<(Arc<Link>, Welcome)> {
        let fail =
            |error: std::io::Error| Error::new(format!("cannot follow the run at {}: {error}", socket.display()));
        let (mut from, mut to) = UnixStream::connect(socket).await.map_err(fail)?.into_split();
        let Some(ToWorker::Welcome(welcome)) = wire::read(&mut from).await.map_err(fail)? else {
            return Err(Error::new("the first process of the run sent no welcome"));
        };
        let (sender, mut messages) = mpsc::unbounded_channel();
        let (steps, seen) = watch::channel(Steps::default());
        let (ended, has_ended) = watch::channel(false);
        let link = Arc::new(Link {
            messages: sender,
            has_ended,
            steps: seen,
            orders: Mutex::default(),
            step: AtomicU64::new(0),
            has_strayed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        });
        tokio::spawn(async move {
            let mut alive = tokio::time::interval(ALIVE);
            loop {
                let message = tokio::select! {
                    message = messages.recv() => message,
                    _ = alive.tick() => Some(ToLead::Alive),
                };
                let Some(message) = message else { return };
                let is_last = matches!(message, ToLead::Ended);
                let Ok(message) = serde_json::to_vec(&message) else { return };
                if wire::write(&mut to, &message).await.is_err() {
                    return;
                }
                ended.send_replace(is_last);
            }
        });
        tokio::spawn(listen(Arc::clone(&link), from, steps, lost));
        Ok((link, welcome))
    }

    /// Starts a task on these hosts, as soon as the lead starts it, and returns the number of the step. Waits for ever
    /// if the lead is elsewhere.
    pub(crate) async fn step(&self, task: &str, hosts: &[Arc<str>]) -> u64 {
        let step = self.step.fetch_add(1, Ordering::AcqRel);
        let mut steps = self.steps.clone();
        let lead = steps.wait_for(|steps| steps.contains_key(&step)).await;
        let lead = lead.ok().and_then(|steps| steps.get(&step).cloned());
        let own = (task.to_owned(), digest(hosts.iter().map(|host| &**host)));
        if lead.as_ref() != Some(&own) {
            let theirs = lead.map(|(task, _)| task).unwrap_or_default();
            self.stray(match theirs == task {
                true => format!("it runs {task} on other hosts"),
                false => format!("the run is at {theirs}, and it at {task}"),
            });
            return std::future::pending().await;
        }
        self.send(ToLead::Reached(step + 2));
        step
    }

    /// Waits for the lead's order about a task on a host.
    pub(crate) async fn order(&self, slot: &Slot) -> Order {
        let waiting = {
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            match orders.remove(slot) {
                Some(Awaited::Order(order)) => return order,
                _ => {
                    let (sender, waiting) = oneshot::channel();
                    orders.insert(slot.clone(), Awaited::Task(sender));
                    waiting
                }
            }
        };
        match waiting.await {
            Ok(order) => order,
            Err(_) => std::future::pending().await,
        }
    }

    /// Sends a message to the lead.
    pub(crate) fn send(&self, message: ToLead) {
        // Without the lead, this process ends.
        let _ = self.messages.send(message);
    }

    /// Notes that this process begins a task.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
    }

    /// Sends the outcome of a task that this process has run.
    pub(crate) fn done(&self, slot: Slot, outcome: SentOutcome) {
        self.send(ToLead::Done(slot, Arc::new(outcome)));
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// Reports the end of the run. Returns once all messages are on their way: the lead runs again what it does not
    /// know to have run.
    pub(crate) async fn end(&self) {
        // A signal may have stopped tasks. The lead must not run them as if they had not begun.
        if self.under_way.load(Ordering::Acquire) > 0 {
            return;
        }
        self.send(ToLead::Ended);
        // Without the lead, nobody reads them.
        let _ = self.has_ended.clone().wait_for(|has_ended| *has_ended).await;
    }

    /// Reports that this process takes another path than the lead. It runs nothing any more.
    pub(crate) fn stray(&self, why: String) {
        if !self.has_strayed.swap(true, Ordering::AcqRel) {
            self.send(ToLead::Strayed(why));
        }
    }

    /// Passes an order to the task that waits for it.
    fn ordered(&self, slot: Slot, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        match orders.remove(&slot) {
            Some(Awaited::Task(waiting)) => drop(waiting.send(order)),
            _ => drop(orders.insert(slot, Awaited::Order(order))),
        }
    }
}

/// Receives orders until the lead is gone.
async fn listen(link: Arc<Link>, mut from: OwnedReadHalf, steps: watch::Sender<Steps>, lost: impl FnOnce()) {
    loop {
        match wire::read(&mut from).await {
            Ok(Some(ToWorker::Step { step, task, hosts })) => steps.send_modify(|steps| {
                steps.retain(|known, _| *known + 1 >= link.step.load(Ordering::Acquire));
                steps.insert(step, (task, hosts));
            }),
            Ok(Some(ToWorker::Run(slot))) => link.ordered(slot, Order::Run),
            Ok(Some(ToWorker::Done(slot, outcome))) => link.ordered(slot, Order::Take(outcome)),
            Ok(Some(ToWorker::Welcome(_))) => {}
            // A process that has followed to the end of the run ends by itself in this time.
            Ok(Some(ToWorker::End)) => break tokio::time::sleep(REST).await,
            Ok(None) | Err(_) => break,
        }
    }
    lost();
}
