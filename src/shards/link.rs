//! A worker's side: waits for the lead's orders, and reports what it does.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::keys::OfWorker;
use super::sent::SentOutcome;
use super::wire::{self, Reader, Slot, ToLead, ToWorker, Welcome, Writer};
use super::{ALIVE, HANDSHAKE, LOST, PAUSE, REST, SILENT, WAIT, digest};
use crate::error::{Error, Result};

/// The lead's order about a task on a host.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run it.
    Run,
    /// Take over this outcome.
    Take(Arc<SentOutcome>),
}

/// Place of the lead.
#[derive(Debug)]
pub(crate) enum Lead {
    /// A process of this machine, which listens at a socket.
    Process(PathBuf),
    /// A pod with this name and port. The keys lie in a folder.
    Pod { address: String, keys: PathBuf },
}

impl Lead {
    /// Connects to it. A pod may start later than this one, and move to another node; `None` if it never comes.
    async fn connect(&self) -> Result<Option<(Reader, Writer)>> {
        match self {
            Lead::Process(socket) => {
                let fail =
                    |error: io::Error| Error::new(format!("cannot follow the run at {}: {error}", socket.display()));
                let (from, to) = UnixStream::connect(socket).await.map_err(fail)?.into_split();
                Ok(Some((Box::new(from), Box::new(to))))
            }
            Lead::Pod { address, keys } => {
                let keys = OfWorker::read(keys)?;
                let end = Instant::now() + WAIT;
                loop {
                    let connected = async {
                        let stream = TcpStream::connect(address).await?;
                        stream.set_nodelay(true)?;
                        keys.connect(stream).await
                    };
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, connected).await {
                        let (from, to) = tokio::io::split(stream);
                        return Ok(Some((Box::new(from), Box::new(to))));
                    }
                    if Instant::now() >= end {
                        return Ok(None);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Silence after which the lead counts as gone. A process of this machine is seen to end.
    fn patience(&self) -> Option<Duration> {
        matches!(self, Lead::Pod { .. }).then_some(SILENT)
    }
}

/// Reason why a worker follows the lead no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The run has ended.
    Ended,
    /// The run was stopped.
    Stopped,
    /// The lead is gone.
    Lost,
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
    /// Connects to the lead, and returns its first message; `None` if the lead's pod has not come in time, for example
    /// because the run has ended. `gone` is called when the lead has ended the run or is gone before this process has
    /// ended.
    ///
    /// # Errors
    ///
    /// If no process of this machine leads there, or it is not that of the run.
    pub(crate) async fn connect(
        lead: &Lead,
        gone: impl FnOnce(Gone) + Send + 'static,
    ) -> Result<Option<(Arc<Link>, Welcome)>> {
        let fail = |error: io::Error| Error::new(format!("the first process of the run sent no welcome: {error}"));
        let Some((mut from, mut to)) = lead.connect().await? else { return Ok(None) };
        let welcome = timeout(LOST, wire::read(&mut from)).await.unwrap_or_else(|_| Ok(None));
        let Some(ToWorker::Welcome(welcome)) = welcome.map_err(fail)? else {
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
        tokio::spawn(listen(Arc::clone(&link), (from, lead.patience()), steps, gone));
        Ok(Some((link, welcome)))
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
                false => format!("the run is at {theirs}, but it is at {task}"),
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

/// Receives orders until the lead is gone, or silent for longer than this time.
async fn listen(
    link: Arc<Link>,
    (mut from, patience): (Reader, Option<Duration>),
    steps: watch::Sender<Steps>,
    gone: impl FnOnce(Gone),
) {
    let end = loop {
        match received(&mut from, patience).await {
            Ok(Some(ToWorker::Step { step, task, hosts })) => steps.send_modify(|steps| {
                steps.retain(|known, _| *known + 1 >= link.step.load(Ordering::Acquire));
                steps.insert(step, (task, hosts));
            }),
            Ok(Some(ToWorker::Run(slot))) => link.ordered(slot, Order::Run),
            Ok(Some(ToWorker::Done(slot, outcome))) => link.ordered(slot, Order::Take(outcome)),
            Ok(Some(ToWorker::Welcome(_) | ToWorker::Alive)) => {}
            // Meanwhile, a process that has followed the run to its end ends by itself.
            Ok(Some(ToWorker::End)) => {
                sleep(REST).await;
                break Gone::Ended;
            }
            Ok(Some(ToWorker::Stop)) => {
                link.send(ToLead::Stopping);
                break Gone::Stopped;
            }
            Ok(None) | Err(_) => break Gone::Lost,
        }
    };
    gone(end);
}

/// The next message. A large one may take longer to arrive than the lead may be silent.
async fn received(from: &mut Reader, patience: Option<Duration>) -> io::Result<Option<ToWorker>> {
    let Some(patience) = patience else { return wire::read(from).await };
    match timeout(patience, wire::length(from)).await?? {
        Some(length) => timeout(LOST, wire::body(from, length)).await?.map(Some),
        None => Ok(None),
    }
}
