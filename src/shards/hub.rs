//! The lead's side: gives each task on a host to one of the processes, and passes the outcomes on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;
use windlass_protocol::Shard;

use super::door::Workers;
use super::past::Past;
use super::sent::{SentEvent, SentOutcome};
use super::serve::{Attending, is_within};
use super::wire::{Slot, ToLead, ToWorker, Welcome};
use super::{LOST, WAIT, digest};
use crate::error::{Error, Result};
use crate::outcome::Extent;
use crate::output::{Event, Events, Secrets};

/// Number of messages about a task that wait for it. Then the worker waits.
const AHEAD: usize = 4;
/// Maximum size of what one worker prints apart from its tasks, in bytes.
const SAID: usize = 16 << 20;
/// Bytes of messages that a worker may leave unread, beside a single larger one.
const UNREAD: usize = 256 << 20;

/// A task that a worker was given.
#[derive(Debug)]
pub(crate) struct Given {
    /// Messages about it, up to its outcome.
    pub(crate) messages: mpsc::Receiver<ToLead>,
    /// Why there is no outcome, once the messages end without one.
    pub(crate) left: oneshot::Receiver<Left>,
    /// The part of the process that takes the task over then.
    pub(crate) successor: Shard,
}

/// Why a worker sends no outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// It did not start the task and never will.
    NotRun,
    /// It has ended, for this reason. It may have run the task.
    Lost(String),
}

/// The workers of a run.
#[derive(Debug)]
pub(crate) struct Hub {
    workers: Vec<Worker>,
    welcome: Welcome,
    sending: Mutex<Sending>,
    /// Counts changes of where the workers are.
    news: watch::Sender<u64>,
    step: AtomicU64,
    running: Mutex<HashMap<Slot, Running>>,
    /// Whether the run has ended.
    over: watch::Sender<bool>,
    /// Whether the run was stopped before its end.
    is_stopped: AtomicBool,
    attending: Mutex<Option<Attending>>,
    events: Events,
    is_spread: bool,
}

#[derive(Debug)]
pub(super) struct Worker {
    /// Number of points that it has reached: the beginning of the run, then its steps.
    reached: AtomicU64,
    /// Whether the lead runs the tasks of its hosts.
    is_lost: AtomicBool,
    pub(super) has_ended: AtomicBool,
    /// Whether it took another path than the lead. A process in its place would do the same.
    pub(super) has_strayed: AtomicBool,
    /// Size of the text that it has printed apart from its tasks, and of the values that it wants to be masked, in
    /// bytes.
    pub(super) said: AtomicUsize,
    pub(super) secrets: AtomicUsize,
    /// Counts its connections, of which only the newest lives.
    pub(super) connections: watch::Sender<u64>,
    /// Number of the connection that lives, or lived last.
    served: AtomicU64,
    /// Held by the connection that lives.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Ends the connection that lives.
    pub(super) dismissed: Notify,
    /// Whether it stops what runs on its hosts, or has ended.
    pub(super) stops: AtomicBool,
    /// Its process, if that is one of this machine, until it is awaited.
    pub(super) process: Mutex<Option<Pid>>,
}

impl Worker {
    fn new() -> Worker {
        let no = || AtomicBool::new(false);
        Worker {
            reached: AtomicU64::new(0),
            is_lost: no(),
            has_ended: no(),
            has_strayed: no(),
            said: AtomicUsize::new(0),
            secrets: AtomicUsize::new(0),
            connections: watch::Sender::new(0),
            served: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
            dismissed: Notify::new(),
            stops: no(),
            process: Mutex::default(),
        }
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Notes its process, or that it is about to be awaited.
    pub(super) fn is_process(&self, process: Option<Pid>) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = process;
    }

    /// Continues its process if that is suspended.
    fn wake(&self) {
        if let Some(process) = *self.process.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process(process, Signal::CONT);
        }
    }
}

/// Messages to the workers. All recipients share one copy of each.
#[derive(Debug)]
struct Sending {
    /// Queues to the workers that are connected and have all messages so far.
    lines: Vec<Option<Line>>,
    past: Kept,
}

#[derive(Debug)]
struct Line {
    messages: UnboundedSender<Arc<Vec<u8>>>,
    /// Bytes of messages that the worker has not read.
    unread: Arc<AtomicUsize>,
    /// Whether the worker gets all messages; otherwise it only gets the end of the run.
    is_live: bool,
}

impl Line {
    /// Sends a message. Returns whether the worker reads fast enough for it.
    fn send(&self, message: &Arc<Vec<u8>>) -> bool {
        // Counted first, since the worker may have read it before this returns.
        let before = self.unread.fetch_add(message.len(), Ordering::AcqRel);
        // Without a receiver the worker is about to be left out.
        let _ = self.messages.send(Arc::clone(message));
        before == 0 || before + message.len() <= UNREAD
    }
}

/// Messages of the past.
#[derive(Debug)]
enum Kept {
    /// No worker comes after the first step.
    Nothing,
    /// For workers that come late.
    All(Past),
    /// Workers that come now cannot follow any more.
    Lost,
}

/// Messages to a worker that has connected.
pub(super) enum Entry {
    /// Some of the past.
    Past(Vec<Arc<Extent>>),
    /// From now on.
    Present(LineReader),
}

/// The worker's end of a line.
#[derive(Debug)]
pub(super) struct LineReader {
    messages: UnboundedReceiver<Arc<Vec<u8>>>,
    unread: Arc<AtomicUsize>,
}

impl LineReader {
    /// The next message. May be dropped.
    pub(super) async fn recv(&mut self) -> Option<Arc<Vec<u8>>> {
        self.messages.recv().await
    }

    /// Notes that the worker has read a message.
    pub(super) fn has_read(&self, message: &[u8]) {
        self.unread.fetch_sub(message.len(), Ordering::AcqRel);
    }
}

/// A task that a worker was given.
#[derive(Debug)]
struct Running {
    worker: usize,
    messages: mpsc::Sender<ToLead>,
    left: oneshot::Sender<Left>,
}

impl Hub {
    /// Starts or awaits workers that run the same command line.
    ///
    /// # Errors
    ///
    /// If workers cannot connect, or a process cannot be started.
    pub(crate) fn start(
        count: usize,
        place: &Workers,
        welcome: Welcome,
        events: &Events,
        secrets: &Secrets,
    ) -> Result<Arc<Hub>> {
        let is_spread = matches!(place, Workers::Pods { .. });
        let past = match is_spread {
            true => Kept::All(
                Past::new().map_err(|error| Error::new(format!("the steps of the run cannot be kept: {error}")))?,
            ),
            false => Kept::Nothing,
        };
        let hub = Arc::new(Hub {
            workers: (0..count).map(|_| Worker::new()).collect(),
            welcome,
            sending: Mutex::new(Sending { lines: (0..count).map(|_| None).collect(), past }),
            news: watch::Sender::new(0),
            step: AtomicU64::new(0),
            running: Mutex::default(),
            over: watch::Sender::new(false),
            is_stopped: AtomicBool::new(false),
            attending: Mutex::default(),
            events: events.clone(),
            is_spread,
        });
        let attending = Attending::begin(&hub, place, count, secrets.clone())?;
        *hub.attending.lock().unwrap_or_else(PoisonError::into_inner) = Some(attending);
        Ok(hub)
    }

    /// Whether the workers are on other machines.
    pub(crate) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// First message to the newest connection of a worker, whose token is above the tokens of earlier ones.
    pub(super) fn welcome(&self, index: usize, connection: u64) -> Arc<Vec<u8>> {
        encoded(&ToWorker::Welcome(Welcome { shard: self.part(index, connection), ..self.welcome.clone() }))
    }

    /// The part of a worker's connection. The lead's is in the first message.
    fn part(&self, index: usize, connection: u64) -> Shard {
        let number = u32::try_from(index + 1).unwrap_or_default();
        Shard { number, token: self.welcome.shard.token + connection }
    }

    pub(super) fn worker(&self, index: usize) -> Option<&Worker> {
        self.workers.get(index)
    }

    pub(super) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Slot, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// Prints an event.
    pub(super) fn say(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub(super) fn warn(&self, sentence: String) {
        self.say(Event::Warning(sentence));
    }

    /// Prints what a worker reports apart from its tasks, up to a limit, once there is room for it.
    pub(super) async fn say_of(&self, index: usize, event: SentEvent) {
        let Some(worker) = self.workers.get(index) else { return };
        let before = worker.said.load(Ordering::Acquire);
        if is_within(&worker.said, event.size(), SAID) {
            event.said().into_iter().for_each(|event| self.say(event));
            self.events.room().await;
        } else if before <= SAID {
            let (number, limit) = (index + 2, SAID >> 20);
            self.warn(format!("further warnings and details of process {number} are not shown: {limit} MiB were"));
        }
    }

    /// Waits until every worker has read what the run begins with, which its tasks may change.
    pub(crate) async fn ready(&self) {
        self.all_reach(1, WAIT).await;
    }

    /// Waits until every worker is at this point. Leaves those out that are not there in time.
    async fn all_reach(&self, point: u64, patience: Duration) {
        let is_there = |worker: &Worker| worker.is_lost() || worker.reached.load(Ordering::Acquire) >= point;
        let mut news = self.news.subscribe();
        while timeout(patience, news.wait_for(|_| self.workers.iter().all(is_there))).await.is_err() {
            if self.events.is_full() {
                // While the queue of the output is full, no messages of the workers are read.
                self.events.room().await;
                continue;
            }
            let late = self.workers.iter().enumerate().filter(|(_, worker)| !is_there(worker));
            let reason = format!("it did not reach the next task within {} s", patience.as_secs());
            late.for_each(|(index, _)| self.dismiss(index, &reason));
        }
    }

    /// Starts a task on these hosts, and returns the number of the step. Before that, every worker must have read what
    /// leads there, because the task may change it.
    pub(crate) async fn step(&self, task: &str, hosts: &[Arc<str>]) -> u64 {
        let step = self.step.fetch_add(1, Ordering::AcqRel);
        let hosts = || digest(hosts.iter().map(|host| &**host));
        self.send_all(None, || ToWorker::Step { step, task: task.to_owned(), hosts: hosts() });
        self.all_reach(step + 2, LOST).await;
        step
    }

    /// The worker that runs this host's tasks. `None` if the lead runs them.
    pub(crate) fn worker_of(&self, host: &str) -> Option<usize> {
        let chosen = digest(std::iter::once(host)) % (self.workers.len() as u64 + 1);
        let chosen = usize::try_from(chosen).unwrap_or_default();
        let index = chosen.checked_sub(1)?;
        self.workers.get(index).is_some_and(|worker| !worker.is_lost()).then_some(index)
    }

    /// Gives a task on a host to the worker that [`Hub::worker_of`] has chosen. `None` if it is lost, and will not run
    /// the task.
    pub(crate) fn give(&self, slot: &Slot, index: usize) -> Option<Given> {
        let worker = self.workers.get(index)?;
        let (sender, messages) = mpsc::channel(AHEAD);
        let (leave, left) = oneshot::channel();
        let running = Running { worker: index, messages: sender, left: leave };
        // Leaving a worker out answers all tasks here, so that a task it was sent is never run by the lead as well.
        let mut all = self.running();
        if worker.is_lost() {
            return None;
        }
        let sending = self.sending();
        let line = sending.lines.get(index)?.as_ref().filter(|line| line.is_live)?;
        all.insert(slot.clone(), running);
        line.send(&encoded(&ToWorker::Run(slot.clone())));
        let successor = self.part(index, worker.served.load(Ordering::Acquire) + 1);
        Some(Given { messages, left, successor })
    }

    /// Passes an outcome of the lead to all workers.
    pub(crate) fn share(&self, slot: Slot, outcome: impl FnOnce() -> SentOutcome) {
        self.send_all(None, || ToWorker::Done(slot, Arc::new(outcome())));
    }

    /// Ends the workers after the run.
    pub(crate) async fn end(&self) {
        self.send_last(&ToWorker::End);
        let attending = self.attending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(attending) = attending
            && !attending.end().await
            && self.is_stopped.load(Ordering::Acquire)
        {
            for number in self.stopped(Duration::ZERO).await {
                self.warn(format!(
                    "process {number} of the run did not answer and was killed. Its tasks may go on for 30 minutes."
                ));
            }
        }
    }

    /// Makes all workers stop what runs on their hosts, and end. One that is suspended is continued for that.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.send_last(&ToWorker::Stop);
        self.workers.iter().for_each(Worker::wake);
    }

    /// Waits until all workers stop what runs on their hosts. Returns the numbers of the processes that do not in this
    /// time, because they are busy.
    pub(crate) async fn stopped(&self, patience: Duration) -> Vec<usize> {
        let stops = |worker: &Worker| worker.stops.load(Ordering::Acquire) || *worker.connections.borrow() == 0;
        let mut news = self.news.subscribe();
        let _ = timeout(patience, news.wait_for(|_| self.workers.iter().all(stops))).await;
        let late = self.workers.iter().enumerate().filter(|(_, worker)| !stops(worker));
        late.map(|(index, _)| index + 2).collect()
    }

    /// Notes that a worker stops what runs on its hosts, or has ended.
    pub(super) fn stops(&self, worker: &Worker) {
        worker.stops.store(true, Ordering::Release);
        self.news.send_modify(|count| *count += 1);
    }

    /// Sends the last message to the workers, after which nobody misses them.
    fn send_last(&self, message: &ToWorker) {
        self.workers.iter().for_each(|worker| worker.has_ended.store(true, Ordering::Release));
        let message = encoded(message);
        {
            let mut sending = self.sending();
            sending.past = Kept::Lost;
            // A worker that was left out waits for its end too.
            sending.lines.iter().flatten().for_each(|line| _ = line.send(&message));
        }
        self.over.send_replace(true);
    }

    /// Sends a message to all workers but one, and keeps it for those that come late. Without either, the message is
    /// not made.
    fn send_all(&self, but: Option<usize>, message: impl FnOnce() -> ToWorker) {
        if !self.sending().is_needed(but) {
            return;
        }
        let message = encoded(&message());
        let mut sending = self.sending();
        if let Kept::All(past) = &mut sending.past
            && let Err(error) = past.add(&message)
        {
            sending.past = Kept::Lost;
            self.warn(format!("a lost worker cannot join the run again: {error}"));
        }
        let lines = sending.lines.iter().enumerate().filter(|(index, _)| Some(*index) != but);
        let lines = lines.filter_map(|(index, line)| Some((index, line.as_ref().filter(|line| line.is_live)?)));
        let slow: Vec<usize> = lines.filter(|(_, line)| !line.send(&message)).map(|(index, _)| index).collect();
        drop(sending);
        slow.into_iter().for_each(|index| self.dismiss(index, "it does not read what the run sends it"));
    }

    /// Notes that this connection of a worker begins, which has to read the run from its beginning.
    pub(super) fn begins(&self, index: usize, connection: u64) {
        if let Some(worker) = self.workers.get(index) {
            worker.reached.store(0, Ordering::Release);
            worker.stops.store(false, Ordering::Release);
            worker.served.store(connection, Ordering::Release);
        }
    }

    /// The next messages to a worker that has this many of the past ones.
    pub(super) fn enter(&self, index: usize, number: usize) -> Entry {
        let mut sending = self.sending();
        if let Kept::All(past) = &sending.past {
            let past = past.from(number);
            if !past.is_empty() {
                return Entry::Past(past);
            }
        }
        let (sender, messages) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        let has_strayed = self.workers.get(index).is_none_or(|worker| worker.has_strayed.load(Ordering::Acquire));
        let is_live = !matches!(sending.past, Kept::Lost) && !has_strayed;
        let line = Line { messages: sender, unread: Arc::clone(&unread), is_live };
        if !is_live {
            line.send(&encoded(&ToWorker::End));
        }
        if let Some(place) = sending.lines.get_mut(index) {
            *place = Some(line);
        }
        Entry::Present(LineReader { messages, unread })
    }

    /// Passes a message of a worker to the task that waits for it, once that has read what came before. A worker speaks
    /// for its own tasks alone.
    pub(super) async fn received(&self, index: usize, message: ToLead) {
        let slot = match &message {
            ToLead::Event(slot, _) | ToLead::Item { slot, .. } | ToLead::Done(slot, _) => slot.clone(),
            ToLead::Alive
            | ToLead::Reached(_)
            | ToLead::Said(_)
            | ToLead::Secret { .. }
            | ToLead::Strayed(_)
            | ToLead::Stopping
            | ToLead::Ended => return,
        };
        let messages = {
            let mut running = self.running();
            let Some(task) = running.get(&slot).filter(|task| task.worker == index) else { return };
            let messages = task.messages.clone();
            if matches!(message, ToLead::Done(..)) {
                running.remove(&slot);
            }
            messages
        };
        if let ToLead::Done(slot, outcome) = &message {
            self.send_all(Some(index), || ToWorker::Done(slot.clone(), Arc::clone(outcome)));
        }
        let _ = messages.send(message).await;
    }

    /// Counts the connections of a worker.
    pub(super) fn has_come(&self, index: usize) -> u64 {
        let Some(worker) = self.workers.get(index) else { return 0 };
        worker.connections.send_modify(|count| *count += 1);
        *worker.connections.borrow()
    }

    /// Notes the point that a worker has reached. A lost worker takes its hosts again once it has caught up. Returns
    /// whether the point is possible: no worker goes back, or ahead of the lead.
    pub(super) fn has_reached(&self, index: usize, point: u64) -> bool {
        let Some(worker) = self.workers.get(index) else { return false };
        let running = self.running();
        if point < worker.reached.load(Ordering::Acquire) || point > self.step.load(Ordering::Acquire) + 1 {
            return false;
        }
        worker.reached.store(point, Ordering::Release);
        let is_live =
            self.sending().lines.get(index).is_some_and(|line| line.as_ref().is_some_and(|line| line.is_live));
        let is_present = point > self.step.load(Ordering::Acquire);
        if is_live && is_present && worker.is_lost.swap(false, Ordering::AcqRel) {
            self.say(Event::Notice(format!("process {} of the run takes its hosts again", index + 2)));
        }
        drop(running);
        self.news.send_modify(|count| *count += 1);
        true
    }

    /// Leaves all workers out, because a value has no form in which it reaches them unchanged. They complete their own
    /// tasks.
    pub(crate) fn leave_all_out(&self) {
        if self.workers.iter().any(|worker| !worker.is_lost()) {
            self.warn("the run goes on in one process: a class of Python cannot be shared".to_owned());
        }
        self.sending().past = Kept::Lost;
        (0..self.workers.len()).for_each(|index| self.leave_out(index, None));
    }

    /// Leaves out a worker that has not started the tasks whose outcome it has not sent, and never will.
    pub(super) fn leave_idle_out(&self, index: usize) {
        self.leave_out(index, Some(&Left::NotRun));
    }

    /// Leaves a worker out from now on. Its tasks have no outcome, unless it still completes them.
    fn leave_out(&self, index: usize, left: Option<&Left>) {
        let mut running = self.running();
        if let Some(worker) = self.workers.get(index) {
            worker.is_lost.store(true, Ordering::Release);
        }
        if let Some(Some(line)) = self.sending().lines.get_mut(index) {
            line.is_live = false;
        }
        self.news.send_modify(|count| *count += 1);
        let Some(left) = left else { return };
        // Each learns it after the messages that it has not read.
        running.extract_if(|_, task| task.worker == index).for_each(|(_, task)| drop(task.left.send(left.clone())));
    }

    /// Reports the loss of a worker, and lets its tasks fail.
    pub(super) fn lose(&self, index: usize, reason: &str) {
        let is_news =
            |worker: &Worker| !worker.is_lost.swap(true, Ordering::AcqRel) && !worker.has_ended.load(Ordering::Acquire);
        if self.workers.get(index).is_some_and(is_news) {
            self.warn(format!(
                "process {} of the run was lost: {reason}. Its hosts continue in the first process.",
                index + 2
            ));
        }
        self.leave_out(index, Some(&Left::Lost(reason.to_owned())));
        if let Some(line) = self.sending().lines.get_mut(index) {
            *line = None;
        }
    }

    /// Loses a worker that goes on, and ends its connection.
    fn dismiss(&self, index: usize, reason: &str) {
        self.lose(index, reason);
        self.workers.get(index).into_iter().for_each(|worker| worker.dismissed.notify_waiters());
    }

    /// Reports the loss of all workers that have never connected.
    pub(super) fn lose_absent(&self, reason: &str) {
        let is_absent = |worker: &Worker| *worker.connections.borrow() == 0;
        let absent = self.workers.iter().enumerate().filter(|(_, worker)| is_absent(worker));
        absent.for_each(|(index, _)| self.lose(index, reason));
    }
}

impl Sending {
    /// Whether a message to all but one has a reader.
    fn is_needed(&self, but: Option<usize>) -> bool {
        let mut lines = self.lines.iter().enumerate();
        let is_read = |line: &Line| line.is_live;
        matches!(self.past, Kept::All(_))
            || lines.any(|(index, line)| line.as_ref().is_some_and(is_read) && Some(index) != but)
    }
}

pub(super) fn encoded(message: &ToWorker) -> Arc<Vec<u8>> {
    Arc::new(serde_json::to_vec(message).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::keys::{KeyPair, OTHER_KEYS, OWN_KEY};
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            run: "ab".to_owned(),
            shard: Shard { number: 0, token: 1 << 32 },
            is_spread: false,
            inputs: 0,
            item_key: None,
        }
    }

    /// The hub of a run with this many workers in pods.
    fn hub(count: usize) -> (Arc<Hub>, crate::output::EventQueue) {
        let (folder, key) = (tempfile::tempdir().unwrap(), KeyPair::new().unwrap());
        std::fs::write(folder.path().join(OWN_KEY), &*key.private).unwrap();
        std::fs::write(folder.path().join(OTHER_KEYS), &key.public).unwrap();
        let place = Workers::Pods { listen: ([127, 0, 0, 1], 0).into(), keys: folder.path().to_owned() };
        let (events, queue) = crate::output::event_queue();
        let welcome = welcome();
        (Hub::start(count, &place, welcome, &events, &Secrets::of_process()).unwrap(), queue)
    }

    #[tokio::test]
    async fn worker_that_falls_behind_does_not_stop_the_run() {
        let (hub, mut queue) = hub(2);
        let (Entry::Present(_first), Entry::Present(_second)) = (hub.enter(0, 0), hub.enter(1, 0)) else {
            panic!("nothing has happened so far");
        };
        assert!(hub.has_reached(0, 1) && !hub.has_reached(0, 0), "no worker goes back");
        assert!(!hub.has_reached(1, 2), "no task has begun");
        hub.all_reach(1, Duration::from_millis(50)).await;
        assert!(!hub.workers[0].is_lost() && hub.workers[1].is_lost());
        let Some(Event::Warning(sentence)) = queue.recv().await else { panic!("the loss is reported") };
        assert!(sentence.contains("process 3 of the run was lost: it did not reach the next task"), "{sentence}");
        hub.end().await;
    }

    #[tokio::test]
    async fn busy_lead_is_alive_for_its_workers() {
        let (folder, lead, worker) = (tempfile::tempdir().unwrap(), KeyPair::new().unwrap(), KeyPair::new().unwrap());
        for (name, own, other) in [("lead", &lead, &worker), ("worker", &worker, &lead)] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join(OWN_KEY), &*own.private).unwrap();
            std::fs::write(folder.path().join(name).join(OTHER_KEYS), &other.public).unwrap();
        }
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let place = Workers::Pods { listen, keys: folder.path().join("lead") };
        let (events, _queue) = crate::output::event_queue();
        let welcome = welcome();
        let hub = Hub::start(1, &place, welcome, &events, &Secrets::of_process()).unwrap();
        let follows = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let keys = super::super::keys::OfWorker::read(&folder.path().join("worker")).unwrap();
                let stream = keys.connect(tokio::net::TcpStream::connect(listen).await.unwrap()).await.unwrap();
                let (from, _to) = tokio::io::split(stream);
                let mut from: super::super::wire::Reader = Box::new(from);
                let mut next = async || {
                    let message = timeout(super::super::SILENT, super::super::wire::read(&mut from)).await;
                    message.expect("the lead is not silent").unwrap().unwrap()
                };
                assert!(matches!(next().await, ToWorker::Welcome(_)));
                // Its sign of life at once, and two more.
                assert!(matches!(
                    [next().await, next().await, next().await],
                    [ToWorker::Alive, ToWorker::Alive, ToWorker::Alive]
                ));
            });
        });
        // As a template would, this keeps the only thread of the lead's tasks busy.
        follows.join().unwrap();
        hub.end().await;
    }

    #[tokio::test]
    async fn worker_that_does_not_answer_does_not_keep_a_stopped_run() {
        let (hub, _queue) = hub(3);
        let entries = [hub.enter(0, 0), hub.enter(1, 0)];
        hub.has_come(0);
        hub.has_come(1);
        hub.stop();
        for entry in entries {
            let Entry::Present(mut messages) = entry else { panic!("nothing has happened so far") };
            assert_eq!(messages.recv().await, Some(encoded(&ToWorker::Stop)));
        }
        hub.stops(&hub.workers[0]);
        // The third has never connected, so it runs nothing.
        assert_eq!(hub.stopped(Duration::from_millis(50)).await, [3]);
        hub.end().await;
    }

    #[tokio::test]
    async fn worker_that_does_not_read_is_left_out() {
        let (hub, mut queue) = hub(2);
        let (Entry::Present(first), Entry::Present(mut second)) = (hub.enter(0, 0), hub.enter(1, 0)) else {
            panic!("nothing has happened so far");
        };
        let task = "x".repeat(UNREAD / 4);
        for step in 0..5 {
            hub.send_all(None, || ToWorker::Step { step, task: task.clone(), hosts: 0 });
            let message = second.recv().await.unwrap();
            second.has_read(&message);
        }
        assert!(hub.workers[0].is_lost() && !hub.workers[1].is_lost());
        let Some(Event::Warning(sentence)) = queue.recv().await else { panic!("the loss is reported") };
        assert!(sentence.contains("lost: it does not read what the run sends it"), "{sentence}");
        drop(first);
        hub.end().await;
    }

    #[tokio::test]
    async fn worker_speaks_for_its_own_tasks_alone() {
        let (hub, _queue) = hub(2);
        let (Entry::Present(mut first), Entry::Present(mut second)) = (hub.enter(0, 0), hub.enter(1, 0)) else {
            panic!("nothing has happened so far");
        };
        let slot = Slot { step: 0, host: "web1".into() };
        let mut given = hub.give(&slot, 0).unwrap();
        let outcome: SentOutcome = serde_json::from_value(json!({
            "result": {}, "ignored": false, "items": null, "delegate": null, "notify": [], "no_log": false,
        }))
        .unwrap();
        let done = || ToLead::Done(slot.clone(), Arc::new(outcome.clone()));
        hub.received(1, done()).await;
        assert!(given.messages.try_recv().is_err() && second.messages.try_recv().is_err());
        hub.received(0, done()).await;
        assert!(matches!(given.messages.try_recv(), Ok(ToLead::Done(..))));
        assert!(
            second.messages.try_recv().is_ok() && first.messages.try_recv().is_ok(),
            "the first got the task, the second its outcome"
        );
        assert!(first.messages.try_recv().is_err());
        // A worker that comes later has the outcome too.
        assert!(matches!(hub.enter(1, 0), Entry::Past(past) if past.len() == 1));
        hub.end().await;
    }
}
