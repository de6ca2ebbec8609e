//! The lead's conversation with each worker, from its connection to its loss or the end of the run.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::Pid;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};

use super::door::{Came, Door, News, Workers};
use super::hub::{Entry, Hub, encoded};
use super::wire::{self, Reader, ToLead, ToWorker, Writer};
use super::{ALIVE, END, LOST, START};
use crate::error::{Error, Result};
use crate::output::Secrets;

/// Size of the stack of a thread in bytes. Values in messages may nest deeply.
const STACK: usize = 16 << 20;
/// Maximum size of the values that one worker wants to be masked, in bytes.
const SECRETS: usize = 16 << 20;
/// Bytes that each of them counts in addition to its text.
const SECRET: usize = 64;

/// The threads that speak to the workers. Templates of the lead's own tasks may keep all other threads busy for long;
/// workers would take the silence for the end of the lead.
#[derive(Debug)]
pub(super) struct Attending {
    runtime: Option<Runtime>,
    task: JoinHandle<()>,
}

impl Attending {
    /// Starts or awaits as many workers, and serves them.
    pub(super) fn begin(hub: &Arc<Hub>, place: &Workers, count: usize, secrets: Secrets) -> Result<Attending> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
        let runtime = Builder::new_multi_thread().worker_threads(threads).thread_stack_size(STACK).enable_all().build();
        let runtime = runtime.map_err(|error| Error::new(format!("no threads for the run's workers: {error}")))?;
        let opened = {
            let _within = runtime.enter();
            Door::open(place, count, hub.events())
        };
        match opened {
            Ok(door) => {
                let task = runtime.spawn(attend(Arc::clone(hub), door, secrets));
                Ok(Attending { runtime: Some(runtime), task })
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Waits until the workers have ended, or ends them. Returns whether they have ended by themselves.
    pub(super) async fn end(mut self) -> bool {
        let has_ended = timeout(END, &mut self.task).await.is_ok();
        if !has_ended {
            // Processes are killed when the handles to them are dropped.
            self.task.abort();
            let _ = (&mut self.task).await;
        }
        has_ended
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        // A thread of another runtime may not wait for it.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Serves workers to the end of the run.
async fn attend(hub: Arc<Hub>, mut door: Door, secrets: Secrets) {
    let mut serving = JoinSet::new();
    let mut over = hub.over();
    let mut late = Box::pin(sleep(START));
    let mut is_late = false;
    loop {
        tokio::select! {
            news = door.next() => match news {
                Some(News::Came(came)) => {
                    let number = hub.has_come(came.index);
                    serving.spawn(serve(Arc::clone(&hub), came, number, secrets.clone()));
                }
                // The process prints the reason on its standard error.
                Some(News::Ended(index, status)) => hub.lose(index, &format!("it ended before it began ({status})")),
                None => break,
            },
            () = &mut late, if !is_late => {
                is_late = true;
                hub.lose_absent(&format!("it did not start within {} s", START.as_secs()));
                if !door.is_lasting() {
                    break;
                }
            }
            Some(_) = serving.join_next() => {}
            () = async { drop(over.wait_for(|over| *over).await) } => break,
        }
    }
    drop(door);
    while serving.join_next().await.is_some() {}
}

/// Serves the connection of a worker with this number until it ends.
async fn serve(hub: Arc<Hub>, came: Came, number: u64, secrets: Secrets) {
    let Came { index, mut from, to, mut child } = came;
    let Some(worker) = hub.worker(index) else { return };
    // A worker has one connection. Its pod's successor ends the old one, whose tasks are then lost.
    let mut newest = worker.connections.subscribe();
    let _turn = worker.turn.lock().await;
    hub.begins(index, number);
    let process = child.as_ref().and_then(|child| i32::try_from(child.id()?).ok());
    worker.is_process(process.and_then(Pid::from_raw));
    let mut writing = tokio::spawn(pass(Arc::clone(&hub), index, (to, number)));
    let reason = tokio::select! {
        reason = listen(&hub, index, &mut from, &secrets) => reason,
        () = async { drop(newest.wait_for(|newest| *newest != number).await) } => {
            Some("it has connected again".to_owned())
        }
        () = worker.dismissed.notified() => Some("it was left out".to_owned()),
        () = is_stuck(&mut writing) => Some(format!("it read nothing for {} s", LOST.as_secs())),
    };
    worker.is_process(None);
    let status = match &mut child {
        None => None,
        Some(child) => {
            if reason.is_some() {
                // Other processes now run its tasks, so it must not continue with them.
                let _ = child.start_kill();
            }
            timeout(END, child.wait()).await.ok().and_then(Result::ok)
        }
    };
    writing.abort();
    let reason = reason.unwrap_or_else(|| match status {
        Some(status) => format!("it ended ({status})"),
        None => "it closed its connection".to_owned(),
    });
    hub.lose(index, &reason);
    hub.stops(worker);
}

/// Adds to a size, and returns whether it is within its limit.
pub(super) fn is_within(size: &AtomicUsize, more: usize, limit: usize) -> bool {
    size.fetch_add(more, Ordering::AcqRel).saturating_add(more) <= limit
}

/// Takes messages until the worker ends. Returns why it has to be ended, if so.
async fn listen(hub: &Hub, index: usize, from: &mut Reader, secrets: &Secrets) -> Option<String> {
    let worker = hub.worker(index)?;
    loop {
        match timeout(LOST, wire::read::<ToLead>(from)).await {
            Err(_) => return Some(format!("it was silent for {} s", LOST.as_secs())),
            Ok(Err(error)) => return Some(format!("its message cannot be read: {error}")),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(ToLead::Secret { text, is_password }))) => {
                if !is_within(&worker.secrets, text.expose().len() + SECRET, SECRETS) {
                    return Some("it has too many secrets".to_owned());
                }
                match is_password {
                    true => secrets.add_password(text.expose()),
                    false => secrets.add(text.expose()),
                }
            }
            Ok(Ok(Some(ToLead::Strayed(why)))) => {
                if !worker.has_strayed.swap(true, Ordering::AcqRel) {
                    hub.warn(format!(
                        "process {} of the run was left out: {why}. Its hosts continue in the first process.",
                        index + 2
                    ));
                    hub.leave_idle_out(index);
                }
            }
            Ok(Ok(Some(ToLead::Reached(point)))) => {
                if !hub.has_reached(index, point) {
                    return Some("it claims to be at a task where the run cannot be".to_owned());
                }
            }
            Ok(Ok(Some(ToLead::Stopping))) => hub.stops(worker),
            Ok(Ok(Some(ToLead::Said(event)))) => hub.say_of(index, *event).await,
            Ok(Ok(Some(ToLead::Ended))) => {
                worker.has_ended.store(true, Ordering::Release);
                // The worker has completed all tasks that it started.
                hub.leave_idle_out(index);
            }
            Ok(Ok(Some(message))) => hub.received(index, message).await,
        }
    }
}

/// Returns once a worker no longer reads. That its connection has ended is seen where it is read.
async fn is_stuck(writing: &mut JoinHandle<io::Result<()>>) {
    match writing.await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {}
        _ => pending().await,
    }
}

/// Sends a worker the run so far, and then each message to it, until it is lost.
async fn pass(hub: Arc<Hub>, index: usize, (mut to, connection): (Writer, u64)) -> io::Result<()> {
    wire::write_in_time(&mut to, &hub.welcome(index, connection)).await?;
    let mut number = 0;
    let mut messages = loop {
        match hub.enter(index, number) {
            Entry::Past(past) => {
                for message in &past {
                    wire::write_in_time(&mut to, &message.read()?).await?;
                }
                number += past.len();
            }
            Entry::Present(messages) => break messages,
        }
    };
    let (mut alive, sign) = (interval(ALIVE), encoded(&ToWorker::Alive));
    loop {
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else { return Ok(()) };
                wire::write_in_time(&mut to, &message).await?;
                messages.has_read(&message);
            }
            _ = alive.tick() => wire::write_in_time(&mut to, &sign).await?,
        }
    }
}
