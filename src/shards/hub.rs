//! The lead's side: starts the workers, and gives each task on a host to one of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::sent::SentOutcome;
use super::wire::{self, Slot, ToLead, ToWorker, Welcome};
use super::{END, LOOK, LOST, START, digest};
use crate::error::{Error, Result};
use crate::output::{Event, Events, Secrets};

/// Maximum size of a line that a worker prints as an error, in bytes.
const LINE: u64 = 4096;

/// News of a task that a worker was given.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A message of the worker.
    Message(ToLead),
    /// The worker did not start the task and never will.
    NotRun,
    /// The worker has ended, for this reason. It may have run the task.
    Lost(String),
}

/// The command line of the run, which all its processes have.
#[derive(Debug)]
pub(crate) struct CommandLine {
    /// Name under which the program was called.
    pub(crate) program: OsString,
    /// Words before `--`.
    pub(crate) options: Vec<OsString>,
    /// `--` and what follows.
    pub(crate) rest: Vec<OsString>,
}

/// The workers of a run.
#[derive(Debug)]
pub(crate) struct Hub {
    workers: Vec<Worker>,
    /// Counts changes of where the workers are.
    news: watch::Sender<u64>,
    step: AtomicU64,
    running: Mutex<HashMap<Slot, Running>>,
    ending: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Worker {
    /// Messages, each shared by all workers that get it.
    messages: UnboundedSender<Arc<Vec<u8>>>,
    /// Number of points that it has reached: the beginning of the run, then its steps.
    reached: AtomicU64,
    is_lost: AtomicBool,
    has_ended: AtomicBool,
}

impl Worker {
    fn new(messages: UnboundedSender<Arc<Vec<u8>>>) -> Worker {
        let no = || AtomicBool::new(false);
        Worker { messages, reached: AtomicU64::new(0), is_lost: no(), has_ended: no() }
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// A task that a worker was given.
#[derive(Debug)]
struct Running {
    worker: usize,
    /// Whether the task changes nothing but the run, so that it may run twice.
    is_repeatable: bool,
    answers: UnboundedSender<Answer>,
}

/// A started worker that has not connected.
struct Started {
    child: Child,
    messages: UnboundedReceiver<Arc<Vec<u8>>>,
}

impl Hub {
    /// Starts workers that run the same command line.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created or the program cannot be started.
    pub(crate) fn start(
        count: usize,
        line: &CommandLine,
        welcome: Welcome,
        events: &Events,
        secrets: &Secrets,
    ) -> Result<Arc<Hub>> {
        let fail = |error: io::Error| Error::new(format!("the processes of --shards cannot be started: {error}"));
        // Only its owner may enter the directory.
        let directory = TempDir::with_prefix("windlass-shards.").map_err(fail)?;
        let socket = directory.path().join("lead");
        let listener = UnixListener::bind(&socket).map_err(fail)?;
        let program = crate::own_program::own_program().map_err(fail)?;
        let (mut workers, mut started) = (Vec::new(), HashMap::new());
        for number in 0..count {
            let mut command = Command::new(&program);
            command
                .arg0(&line.program)
                .args(&line.options)
                .arg(format!("--shard-of={}", socket.display()))
                .args(&line.rest);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().map_err(fail)?;
            let (sender, messages) = mpsc::unbounded_channel();
            if let Some(errors) = child.stderr.take() {
                tokio::spawn(print_errors(number + 2, errors, events.clone()));
            }
            started.insert(child.id().unwrap_or_default(), (number, Started { child, messages }));
            workers.push(Worker::new(sender));
        }
        let (step, news) = (AtomicU64::new(0), watch::Sender::new(0));
        let hub = Arc::new(Hub { workers, news, step, running: Mutex::default(), ending: Mutex::default() });
        hub.send_all(None, || ToWorker::Welcome(welcome));
        let connecting =
            tokio::spawn(connect(Arc::clone(&hub), (listener, directory), started, events.clone(), secrets.clone()));
        hub.ending.lock().unwrap_or_else(PoisonError::into_inner).push(connecting);
        Ok(hub)
    }

    /// Waits until every worker has read what the run begins with, which its tasks may change.
    pub(crate) async fn ready(&self) {
        self.all_reach(1).await;
    }

    async fn all_reach(&self, point: u64) {
        let is_there = |worker: &Worker| worker.is_lost() || worker.reached.load(Ordering::Acquire) >= point;
        let _ = self.news.subscribe().wait_for(|_| self.workers.iter().all(is_there)).await;
    }

    /// Starts a task on these hosts, and returns the number of the step. Before that, every worker must have read what
    /// leads there, because the task may change it.
    pub(crate) async fn step(&self, task: &str, hosts: &[Arc<str>]) -> u64 {
        let step = self.step.fetch_add(1, Ordering::AcqRel);
        let hosts = || digest(hosts.iter().map(|host| &**host));
        self.send_all(None, || ToWorker::Step { step, task: task.to_owned(), hosts: hosts() });
        self.all_reach(step + 2).await;
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
    pub(crate) fn give(&self, slot: &Slot, index: usize, is_repeatable: bool) -> Option<UnboundedReceiver<Answer>> {
        let worker = self.workers.get(index)?;
        let (sender, answers) = mpsc::unbounded_channel();
        let running = Running { worker: index, is_repeatable, answers: sender };
        // Leaving a worker out answers all tasks here, so that a task it was sent is never run by the lead as well.
        let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_lost() {
            return None;
        }
        all.insert(slot.clone(), running);
        send(worker, &encoded(&ToWorker::Run(slot.clone())));
        Some(answers)
    }

    /// Passes an outcome of the lead to all workers.
    pub(crate) fn share(&self, slot: Slot, outcome: impl FnOnce() -> SentOutcome) {
        self.send_all(None, || ToWorker::Done(slot, Arc::new(outcome())));
    }

    /// Ends the workers after the run.
    pub(crate) async fn end(&self) {
        self.workers.iter().for_each(|worker| worker.has_ended.store(true, Ordering::Release));
        let end = encoded(&ToWorker::End);
        // A worker that was left out waits for its end too.
        self.workers.iter().for_each(|worker| drop(worker.messages.send(Arc::clone(&end))));
        let ending = std::mem::take(&mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner));
        for mut worker in ending {
            if timeout(END, &mut worker).await.is_err() {
                // Its process is killed when the handle to it is dropped.
                worker.abort();
            }
        }
    }

    /// Sends a message to all workers but one. Without any, the message is not made.
    fn send_all(&self, but: Option<usize>, message: impl FnOnce() -> ToWorker) {
        let is_other = |(index, worker): &(usize, &Worker)| Some(*index) != but && !worker.is_lost();
        let mut others = self.workers.iter().enumerate().filter(is_other).peekable();
        if others.peek().is_some() {
            let message = encoded(&message());
            others.for_each(|(_, worker)| send(worker, &message));
        }
    }

    /// Passes a message of a worker to the task that waits for it.
    fn received(&self, index: usize, message: ToLead) {
        let slot = match &message {
            ToLead::Event(slot, _) | ToLead::Sent(slot, _) | ToLead::Item { slot, .. } => slot.clone(),
            ToLead::Done(slot, outcome) => {
                self.send_all(Some(index), || ToWorker::Done(slot.clone(), Arc::clone(outcome)));
                slot.clone()
            }
            ToLead::Alive
            | ToLead::Reached(_)
            | ToLead::Said(_)
            | ToLead::Secret { .. }
            | ToLead::Strayed(_)
            | ToLead::Inexact
            | ToLead::Ended => return,
        };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = matches!(message, ToLead::Done(..));
        if let Some(task) = running.get(&slot).filter(|task| task.worker == index) {
            let _ = task.answers.send(Answer::Message(message));
        }
        if is_done {
            running.remove(&slot);
        }
    }

    fn has_reached(&self, index: usize, point: u64) {
        if let Some(worker) = self.workers.get(index) {
            worker.reached.store(point, Ordering::Release);
            self.news.send_modify(|count| *count += 1);
        }
    }

    /// Leaves all workers out, because a value has no form in which it reaches them unchanged. They complete
    /// their own tasks that cannot be repeated.
    pub(crate) fn leave_all_out(&self, events: &Events) {
        if self.workers.iter().any(|worker| !worker.is_lost()) {
            let _ = events.send(Event::Warning(
                "the run goes on in one process: a date, an infinite or a very large number, or bytes cannot be shared"
                    .to_owned(),
            ));
        }
        let answer = |task: &Running| task.is_repeatable.then_some(Answer::NotRun);
        (0..self.workers.len()).for_each(|index| self.leave_out(index, answer));
    }

    /// Leaves a worker out from now on. Answers its tasks, except those that it still completes.
    fn leave_out(&self, index: usize, answer: impl Fn(&Running) -> Option<Answer>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = self.workers.get(index) {
            worker.is_lost.store(true, Ordering::Release);
        }
        self.news.send_modify(|count| *count += 1);
        running.retain(|_, task| {
            let Some(answer) = (task.worker == index).then(|| answer(task)).flatten() else { return true };
            let _ = task.answers.send(answer);
            false
        });
    }
}

fn encoded(message: &ToWorker) -> Arc<Vec<u8>> {
    Arc::new(serde_json::to_vec(message).unwrap_or_default())
}

fn send(worker: &Worker, message: &Arc<Vec<u8>>) {
    if !worker.is_lost() {
        // Without a receiver the worker is about to be left out.
        let _ = worker.messages.send(Arc::clone(message));
    }
}

/// Waits until the workers have connected, and serves them to their ends.
async fn connect(
    hub: Arc<Hub>,
    (listener, directory): (UnixListener, TempDir),
    mut started: HashMap<u32, (usize, Started)>,
    events: Events,
    secrets: Secrets,
) {
    let mut serving = tokio::task::JoinSet::new();
    let mut looking = tokio::time::interval(LOOK);
    let accepting = async {
        while !started.is_empty() {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(_) => return,
                },
                _ = looking.tick() => {
                    for (index, status) in ended(&mut started) {
                        lose(&hub, index, &events, &format!("it ended before it began ({status})"));
                    }
                    continue;
                }
            };
            // Other processes of this user could connect too.
            let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
            if let Some((index, worker)) = pid.and_then(|pid| started.remove(&pid)) {
                serving.spawn(serve(Arc::clone(&hub), index, worker, stream, (events.clone(), secrets.clone())));
            }
        }
    };
    // A worker that ends before it connects says why on its standard error.
    let _ = timeout(START, accepting).await;
    for (index, worker) in started.into_values() {
        drop(worker);
        lose(&hub, index, &events, &format!("it did not start within {} s", START.as_secs()));
    }
    drop((listener, directory));
    while serving.join_next().await.is_some() {}
}

/// Removes the workers that have ended, and returns how.
fn ended(started: &mut HashMap<u32, (usize, Started)>) -> Vec<(usize, std::process::ExitStatus)> {
    let mut ended = Vec::new();
    started.retain(|_, (index, worker)| match worker.child.try_wait() {
        Ok(Some(status)) => {
            ended.push((*index, status));
            false
        }
        _ => true,
    });
    ended
}

/// Serves a worker until it ends.
async fn serve(hub: Arc<Hub>, index: usize, worker: Started, stream: UnixStream, (events, secrets): (Events, Secrets)) {
    let Started { mut child, messages } = worker;
    let (mut from, to) = stream.into_split();
    let writing = tokio::spawn(pass(messages, to));
    let reason = listen(&hub, index, &mut from, &events, &secrets).await;
    if reason.is_some() {
        // It must not go on with what other processes now do.
        let _ = child.start_kill();
    }
    let status = timeout(END, child.wait()).await;
    writing.abort();
    let reason = reason.unwrap_or_else(|| match status {
        Ok(Ok(status)) => format!("it ended ({status})"),
        _ => "it closed its connection".to_owned(),
    });
    lose(&hub, index, &events, &reason);
}

/// Passes messages on until the worker ends. Returns why it has to be killed, if so.
async fn listen(
    hub: &Hub,
    index: usize,
    from: &mut OwnedReadHalf,
    events: &Events,
    secrets: &Secrets,
) -> Option<String> {
    loop {
        match timeout(LOST, wire::read::<ToLead>(from)).await {
            Err(_) => return Some(format!("it was silent for {} s", LOST.as_secs())),
            Ok(Err(error)) => return Some(format!("its message cannot be read: {error}")),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(ToLead::Secret { text, is_password }))) => match is_password {
                true => secrets.add_password(text.expose()),
                false => secrets.add(text.expose()),
            },
            Ok(Ok(Some(ToLead::Strayed(why)))) => {
                let _ = events.send(Event::Warning(format!(
                    "process {} of the run was left out: {why}. Its hosts continue in the first process.",
                    index + 2
                )));
                hub.leave_out(index, |_| Some(Answer::NotRun));
            }
            Ok(Ok(Some(ToLead::Reached(point)))) => hub.has_reached(index, point),
            Ok(Ok(Some(ToLead::Inexact))) => hub.leave_all_out(events),
            Ok(Ok(Some(ToLead::Said(event)))) => event.said().into_iter().for_each(|event| drop(events.send(event))),
            Ok(Ok(Some(ToLead::Ended))) => {
                if let Some(worker) = hub.workers.get(index) {
                    worker.has_ended.store(true, Ordering::Release);
                }
                // It has done all that it started.
                hub.leave_out(index, |_| Some(Answer::NotRun));
            }
            Ok(Ok(Some(message))) => hub.received(index, message),
        }
    }
}

async fn pass(mut messages: UnboundedReceiver<Arc<Vec<u8>>>, mut to: OwnedWriteHalf) {
    while let Some(message) = messages.recv().await {
        if wire::write(&mut to, &message).await.is_err() {
            return;
        }
    }
}

/// Reports the loss of a worker, and lets its tasks fail.
fn lose(hub: &Hub, index: usize, events: &Events, reason: &str) {
    let is_news =
        |worker: &Worker| !worker.is_lost.swap(true, Ordering::AcqRel) && !worker.has_ended.load(Ordering::Acquire);
    if hub.workers.get(index).is_some_and(is_news) {
        let _ = events.send(Event::Warning(format!(
            "process {} of the run was lost: {reason}. Its hosts continue in the first process.",
            index + 2
        )));
    }
    hub.leave_out(index, |_| Some(Answer::Lost(reason.to_owned())));
}

/// Passes on what a worker prints as errors.
async fn print_errors(number: usize, errors: tokio::process::ChildStderr, events: Events) {
    let mut lines = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LINE).read_until(b'\n', &mut line).await {
            Ok(1..) => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                let _ = events.send(Event::Warning(format!("process {number} of the run: {text}")));
            }
            _ => return,
        }
    }
}
