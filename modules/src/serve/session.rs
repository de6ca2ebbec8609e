//! State of the connection to the controller: the output that all threads share, and the routes from request ids to
//! jobs. An event is written only while its request has a route, so none follows the answer.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_protocol::{Event, LockTerms, Reply, Request, Spent, ToExecutor, encode};

use super::{
    detached,
    execution::{self, Execution},
    former::Former,
    gate::Gate,
    once::LONGEST,
    peer::Kept,
    sequence::{Sequence, Waiting},
};
use crate::{
    become_user::{Relay, Replies, Users},
    foreign::Store,
    lock::lock,
    process::GRACE,
    run::interrupted,
};

/// State of a controller connection, common to its requests.
pub(crate) struct Session {
    output: Mutex<File>,
    routes: Mutex<HashMap<u64, Route>>,
    idle: Condvar,
    users: Users,
    /// Argument with which this executor was called.
    word: String,
    /// Received foreign modules, for all requests.
    pub(super) store: Arc<Store>,
    /// Received contents for other hosts.
    pub(super) kept: Arc<Kept>,
    sequence: Sequence,
    pub(super) gate: Gate,
    pub(super) former: Former,
}

/// Location where a request runs.
pub(crate) enum Route {
    /// In this process.
    Here(Arc<Execution>),
    /// In another user's executor.
    There(Arc<Relay>),
    /// Queued until the host is locked, or lost executors have ended.
    Locked,
}

impl Session {
    pub(crate) fn new(output: File, word: &str) -> Session {
        Session {
            output: Mutex::new(output),
            routes: Mutex::default(),
            idle: Condvar::new(),
            users: Users::new(word),
            word: word.to_owned(),
            store: Arc::default(),
            kept: Arc::default(),
            sequence: Sequence::default(),
            gate: Gate::default(),
            former: Former::default(),
        }
    }

    /// Processes a message of the controller without waiting for the work it starts.
    pub(crate) fn receive(self: &Arc<Session>, message: ToExecutor<Value>, blob: Vec<u8>) {
        match message {
            ToExecutor::Lock(terms) => {
                self.former.end(self, &terms.after);
                self.gate.agree(terms);
            }
            ToExecutor::End => {
                self.gate.end_in_order();
                self.users.end_in_order();
            }
            ToExecutor::Run(request) => {
                let module = crate::registry::find(&request.module).filter(|_| !request.check);
                if let Some(user) = module.and_then(|module| module.removes(&request.args)) {
                    self.users.leave(user);
                }
                if let Some((request, blob)) = self.former.admit(self, request, blob) {
                    self.admit(request, blob);
                }
            }
            ToExecutor::Content { id, content, last } => match self.route(id) {
                Some(Route::Here(job)) => job.content(content, blob, last),
                Some(Route::There(relay)) => drop(relay.send(&ToExecutor::Content { id, content, last }, &blob)),
                Some(Route::Locked) | None => {}
            },
            ToExecutor::Peer { id, content, peer } => match self.route(id) {
                Some(Route::Here(job)) => job.peer(content, peer),
                Some(Route::There(relay)) => drop(relay.send(&ToExecutor::Peer { id, content, peer }, &[])),
                Some(Route::Locked) | None => {}
            },
            ToExecutor::Cancel { id } => match self.route(id) {
                Some(Route::Here(job)) => job.cancel(),
                Some(Route::There(relay)) => relay.cancel(id),
                Some(Route::Locked) if self.former.cancel(self, id) || self.gate.cancel(self, id) => {}
                Some(Route::Locked) => match self.route(id) {
                    Some(Route::Here(job)) => job.cancel(),
                    Some(Route::There(relay)) => relay.cancel(id),
                    Some(Route::Locked) | None => {}
                },
                None => {}
            },
            ToExecutor::Ping { id } => match self.route(id) {
                // Until the other user's executor has started, this process answers for it.
                Some(Route::There(relay)) if relay.send(&ToExecutor::Ping { id }, &[]) => {}
                Some(_) => self.write(&Reply::Pong { id }, &[]),
                None => {}
            },
        }
    }

    /// Runs a request once this process holds the host lock.
    pub(super) fn admit(self: &Arc<Session>, request: Request<Value>, blob: Vec<u8>) {
        if let Some((request, blob)) = self.gate.admit(self, request, blob) {
            self.run_now(request, blob);
        }
    }

    /// Runs a request for which this process holds the host lock. Another user's executor takes its own too.
    pub(super) fn run_now(self: &Arc<Session>, mut request: Request<Value>, blob: Vec<u8>) {
        if let Some(become_user) = request.become_user.take() {
            return self.users.run(self.clone(), become_user, request, blob);
        }
        let id = request.id;
        if let Some(wanted) = request.detached.take() {
            let answer = detached::start(request, wanted, &blob, &self.word, &self.gate);
            lock(&self.routes).remove(&id);
            return self.answer(id, answer, &[], Spent::default());
        }
        let (job, signals) = Execution::new(&request, blob);
        self.enter(id, Route::Here(Arc::clone(&job)));
        match request.turn {
            Some(turn) => self.sequence.push(self, Waiting { job, signals, request, turn, since: Instant::now() }),
            None => execution::start(Arc::clone(self), job, signals, request),
        }
    }

    fn route(&self, id: u64) -> Option<Route> {
        lock(&self.routes).get(&id).map(|route| match route {
            Route::Here(job) => Route::Here(Arc::clone(job)),
            Route::There(relay) => Route::There(Arc::clone(relay)),
            Route::Locked => Route::Locked,
        })
    }

    /// Registers a running request.
    pub(crate) fn enter(&self, id: u64, route: Route) {
        lock(&self.routes).insert(id, route);
    }

    /// Sends an event of a running request. An event after the answer is dropped: the relay of another user's executor
    /// would take it for a forgery.
    pub(crate) fn event(&self, id: u64, event: Event, blob: &[u8]) {
        let Ok(frame) = encode(&Reply::<Value>::Event { id, event }, blob) else { return };
        // Checked while the output is locked: a pending answer is either written after this or has left the routes.
        let mut output = lock(&self.output);
        if lock(&self.routes).contains_key(&id) {
            let _ = output.write_all(&frame).and_then(|()| output.flush());
        }
    }

    /// Sends the answer to a request; a second answer is dropped.
    pub(crate) fn done(&self, id: u64, result: Value, blob: &[u8]) {
        self.done_after(id, result, blob, Spent::default());
    }

    /// Like [`Session::done`], with the time spent.
    pub(crate) fn done_after(&self, id: u64, result: Value, blob: &[u8], spent: Spent) {
        if lock(&self.routes).remove(&id).is_some() {
            self.answer(id, result, blob, spent);
        }
    }

    fn answer(&self, id: u64, result: Value, blob: &[u8], spent: Spent) {
        let reply = Reply::Done { id, result, spent };
        if let Err(error) = self.try_write(&reply, blob) {
            let result = interrupted(match error {
                windlass_protocol::Error::TooLarge { length, limit } => format!(
                    "The module was run, but its result of {length} bytes is too large to be sent: the limit is \
                     {limit} bytes. None of it was kept. A task that prints or reads that much should write to a file \
                     on the host, which can be fetched."
                ),
                error => format!("The module was run, but its result cannot be sent: {error}."),
            });
            self.write(&Reply::Done { id, result, spent }, &[]);
        }
        self.idle.notify_all();
    }

    fn write(&self, reply: &Reply<Value>, blob: &[u8]) {
        // An error means that the controller is gone; the session ends with its standard input.
        let _ = self.try_write(reply, blob);
    }

    /// Fails only if the message cannot be encoded.
    fn try_write(&self, reply: &Reply<Value>, blob: &[u8]) -> Result<(), windlass_protocol::Error> {
        let frame = encode(reply, blob)?;
        let mut output = lock(&self.output);
        let _ = output.write_all(&frame).and_then(|()| output.flush());
        Ok(())
    }

    /// Waits for running requests whose connection is lost. Another process of the run takes their results.
    fn outlive(&self) {
        lock(&self.routes).retain(|_, route| {
            if let Route::Here(job) = route {
                job.cut();
            }
            !matches!(route, Route::Locked)
        });
        self.users.close();
        let deadline = Instant::now() + LONGEST;
        self.wait_until(deadline, |routes| routes.is_empty());
    }

    fn wait_until(&self, deadline: Instant, reached: impl Fn(&HashMap<u64, Route>) -> bool) {
        let mut routes = lock(&self.routes);
        while !reached(&routes) {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            routes = self
                .idle
                .wait_timeout(routes, deadline - now)
                .map_or_else(|error| error.into_inner().0, |woken| woken.0);
        }
    }

    /// Stops all running requests, and waits for them with a time limit.
    pub(crate) fn end(&self) {
        self.former.close();
        if self.gate.lose() {
            self.outlive();
        }
        for route in lock(&self.routes).values() {
            if let Route::Here(job) = route {
                job.cancel();
            }
        }
        self.users.end();
        let deadline = Instant::now() + GRACE + Duration::from_secs(2);
        self.wait_until(deadline, |routes| !routes.values().any(|route| matches!(route, Route::Here(_))));
        self.store.clear();
        self.users.wait();
        // Released last, because requests of this run may continue until here.
        self.gate.end();
    }
}

impl Replies for Session {
    fn enter(&self, id: u64, relay: Arc<Relay>) {
        self.enter(id, Route::There(relay));
    }

    fn forward(&self, reply: Reply<Value>, blob: &[u8]) {
        match reply {
            Reply::Done { id, result, spent } => self.done_after(id, result, blob, spent),
            Reply::Event { id, event } => self.event(id, event, blob),
            Reply::Pong { id } => self.write(&Reply::Pong { id }, &[]),
            Reply::Hello(_) => {}
        }
    }

    fn lock_terms(&self) -> Option<LockTerms> {
        self.gate.terms()
    }
}
