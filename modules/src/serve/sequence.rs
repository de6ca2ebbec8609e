//! Pipelined requests: a single thread runs them in order of arrival.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Instant,
};

use serde_json::Value;
use windlass_protocol::{Event, Request, Spent, Turn};

use super::{
    execution::{self, Execution, Signal},
    session::Session,
};
use crate::lock::lock;
use crate::run::failed;

/// A request that waits for its turn.
pub(super) struct Waiting {
    pub(super) job: Arc<Execution>,
    pub(super) signals: Receiver<Signal>,
    pub(super) request: Request<Value>,
    pub(super) turn: Turn,
    pub(super) since: Instant,
}

/// Channel to the thread that runs the requests, started on demand.
#[derive(Default)]
pub(super) struct Sequence(Mutex<Option<Sender<Waiting>>>);

impl Sequence {
    /// Adds a request to the queue.
    pub(super) fn push(&self, session: &Arc<Session>, waiting: Waiting) {
        let id = waiting.request.id;
        let mut line = lock(&self.0);
        if line.is_none() {
            let (sender, receiver) = channel();
            let session = Arc::clone(session);
            let started = thread::Builder::new().name("sequence".into()).spawn(move || run(&session, &receiver));
            *line = started.is_ok().then_some(sender);
        }
        let sent = line.as_ref().is_some_and(|line| line.send(waiting).is_ok());
        drop(line);
        if !sent {
            session.done(id, failed("The executor could not start a thread for tasks that are sent ahead."), &[]);
        }
    }
}

fn run(session: &Arc<Session>, line: &Receiver<Waiting>) {
    let mut broken: Option<Turn> = None;
    while let Ok(Waiting { job, signals, request, turn, since }) = line.recv() {
        let id = request.id;
        let in_vain = broken.filter(|broken| broken.sequence == turn.sequence);
        if in_vain.is_some_and(|broken| broken.step < turn.step) {
            session.event(id, Event::NotRun, &[]);
            session.done(id, failed("A task before this one has failed."), &[]);
            continue;
        }
        let (waited, started) = (execution::micros(since), Instant::now());
        let result = match signals.try_recv() {
            Ok(Signal::Cancel) => failed(format!("The {} action was cancelled.", request.module)),
            _ => execution::outcome(session, &job, &signals, request),
        };
        // The first failed step counts.
        if is_failure(&result) && in_vain.is_none() {
            broken = Some(turn);
        }
        session.done_after(id, result, &[], Spent { waited, ran: execution::micros(started) });
    }
}

/// Whether the controller treats this result as a failure, unless the task's keywords change that.
fn is_failure(result: &Value) -> bool {
    match result.get("failed") {
        Some(failed) => failed.as_bool() != Some(false),
        None => result.get("rc").and_then(Value::as_i64).is_some_and(|rc| rc != 0),
    }
}
