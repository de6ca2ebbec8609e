//! Executors of other users. Each is started once through `sudo`, `su` or `doas` and kept for the session. Requests and
//! replies pass through this process unchanged.

mod asker;
mod command;
mod copy;
mod elevated;
mod start;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_protocol::{Become, Event, LockTerms, Reply, Request, Secret, Spent, ToExecutor};

use crate::lock::lock;
use crate::run::failed;
use elevated::Elevated;

/// The command that starts another user's executor, for display.
pub fn become_command(who: &Become) -> String {
    match command::invocation(who, &["executor".to_owned()], "PROMPT") {
        Ok(invocation) => shell_words::join(invocation.words),
        Err(refusal) => refusal.message,
    }
}

/// Reason why another user's executor did not start.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// Complete message.
    pub(crate) message: String,
    /// Whether no further attempt is made, because it could lock the account.
    pub(crate) last: bool,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), last: false }
    }

    fn last(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), last: true }
    }
}

/// The controller's side of the requests that other users' executors run.
pub(crate) trait Replies: Send + Sync {
    /// Registers a request; further messages about it go to the relay.
    fn enter(&self, id: u64, relay: Arc<Relay>);

    /// Passes a reply on unchanged. A second answer to a request, and an event after the answer, are dropped.
    fn forward(&self, reply: Reply<Value>, blob: &[u8]);

    /// The terms of the host lock.
    fn lock_terms(&self) -> Option<LockTerms>;
}

/// Answers a request with a result of this process.
fn answer(replies: &dyn Replies, id: u64, result: Value) {
    replies.forward(Reply::Done { id, result, spent: Spent::default() }, &[]);
}

/// Executors of other users.
pub(crate) struct Users {
    word: String,
    slots: Mutex<HashMap<Become, Arc<Mutex<Slot>>>>,
    /// Random prefix of hashed passwords.
    salt: [u8; 32],
}

enum Slot {
    Empty,
    Running(Arc<Elevated>),
    Refused(Refusal),
}

impl Users {
    pub(crate) fn new(word: &str) -> Users {
        let mut salt = [0; 32];
        // A failure is harmless: without a random salt, the hashes are only easier to guess for those who can read this
        // process's memory.
        let _ = getrandom::fill(&mut salt);
        Users { word: word.to_owned(), slots: Mutex::default(), salt }
    }

    /// Runs a request as another user. A separate thread handles it until the user's executor has received it.
    pub(crate) fn run(&self, replies: Arc<dyn Replies>, who: Become, request: Request<Value>, blob: Vec<u8>) {
        let key = self.key(&who);
        let slot = Arc::clone(lock(&self.slots).entry(key).or_insert_with(|| Arc::new(Mutex::new(Slot::Empty))));
        let relay = Arc::new(Relay::default());
        let id = request.id;
        replies.enter(id, Arc::clone(&relay));
        // A request in a sequence must not be overtaken.
        if request.turn.is_some()
            && let Slot::Running(elevated) = &*lock(&slot)
            && elevated.alive()
        {
            return relay.begin(&*replies, elevated, request, &blob);
        }
        let (replies_of_thread, word) = (Arc::clone(&replies), self.word.clone());
        let pass_on = move || {
            let replies = replies_of_thread;
            match started(&slot, &replies, &who, &word) {
                Ok(elevated) => relay.begin(&*replies, &elevated, request, &blob),
                Err(refusal) => {
                    let event = Event::BecomeFailed { message: refusal.message.clone() };
                    replies.forward(Reply::Event { id, event }, &[]);
                    answer(&*replies, id, failed(refusal.message));
                }
            }
        };
        if let Err(error) = thread::Builder::new().name(format!("become {id}")).spawn(pass_on) {
            answer(&*replies, id, failed(format!("The executor could not start a thread: {error}.")));
        }
    }

    /// Identifies an executor. The password is replaced by its hash, because this process needs it only at the prompt.
    fn key(&self, who: &Become) -> Become {
        let hash = |password: &Secret| {
            let digest = Sha256::new().chain_update(self.salt).chain_update(password.expose()).finalize();
            Secret::new(hex::encode(digest))
        };
        Become { password: who.password.as_ref().map(hash), timeout: 0, ..who.clone() }
    }

    /// Stops a user's idle executors, because an account with running processes cannot be removed.
    pub(crate) fn leave(&self, user: &str) {
        let slots: Vec<_> =
            lock(&self.slots).iter().filter(|(who, _)| who.user == user).map(|(_, slot)| slot.clone()).collect();
        for slot in slots {
            if let Ok(slot) = slot.try_lock()
                && let Slot::Running(elevated) = &*slot
                && elevated.idle()
            {
                elevated.wait(Instant::now());
            }
        }
    }

    /// Stops all requests of the executors.
    pub(crate) fn end(&self) {
        self.each(Elevated::cancel_all);
    }

    /// Closes the connections; requests go on, and their replies still arrive.
    pub(crate) fn close(&self) {
        self.each(Elevated::close);
    }

    /// Passes on that the run has ended in order.
    pub(crate) fn end_in_order(&self) {
        self.each(|elevated| _ = elevated.send(&ToExecutor::End, &[]));
    }

    /// Waits, with a time limit, until all requests have ended, and closes the connections, which ends the executors.
    pub(crate) fn wait(&self) {
        let deadline = Instant::now() + crate::process::GRACE + Duration::from_secs(3);
        self.each(|elevated| elevated.wait(deadline));
    }

    fn each(&self, action: impl Fn(&Elevated)) {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        for slot in slots {
            // A locked slot is starting its executor, whose input is closed when this process ends.
            if let Ok(slot) = slot.try_lock()
                && let Slot::Running(elevated) = &*slot
            {
                action(elevated);
            }
        }
    }
}

/// The executor of a slot, started if necessary. Only one thread starts it; the others wait for the result or the
/// refusal.
fn started(slot: &Mutex<Slot>, replies: &Arc<dyn Replies>, who: &Become, word: &str) -> Result<Arc<Elevated>, Refusal> {
    let mut slot = lock(slot);
    match &*slot {
        Slot::Running(elevated) if elevated.alive() => return Ok(Arc::clone(elevated)),
        Slot::Running(elevated) if let Some(sentence) = elevated.distrusted() => {
            return Err(Refusal::last(format!("{sentence}.")));
        }
        Slot::Refused(refusal) => return Err(refusal.clone()),
        _ => {}
    }
    match start::start(who, word) {
        Ok(parts) => {
            let elevated = Elevated::new(parts, who, replies)?;
            if let Some(terms) = replies.lock_terms() {
                elevated.send(&ToExecutor::Lock(terms), &[]);
            }
            *slot = Slot::Running(Arc::clone(&elevated));
            Ok(elevated)
        }
        Err(refusal) => {
            *slot = if refusal.last { Slot::Refused(refusal.clone()) } else { Slot::Empty };
            Err(refusal)
        }
    }
}

/// Link from one request to another user's executor.
#[derive(Default)]
pub(crate) struct Relay {
    state: Mutex<RelayState>,
}

#[derive(Default)]
struct RelayState {
    elevated: Option<Arc<Elevated>>,
    cancelled: bool,
}

impl Relay {
    fn begin(&self, replies: &dyn Replies, elevated: &Arc<Elevated>, request: Request<Value>, blob: &[u8]) {
        let id = request.id;
        let mut state = lock(&self.state);
        if state.cancelled {
            let message = format!("The {} action was cancelled.", request.module);
            answer(replies, id, failed(message));
            return;
        }
        if let Err(message) = elevated.run(request, blob) {
            answer(replies, id, failed(message));
            return;
        }
        state.elevated = Some(Arc::clone(elevated));
    }

    /// Forwards a message of the controller; false if the other user's executor has not started yet.
    pub(crate) fn send(&self, message: &ToExecutor<Value>, blob: &[u8]) -> bool {
        let elevated = lock(&self.state).elevated.clone();
        if let Some(elevated) = &elevated {
            elevated.send(message, blob);
        }
        elevated.is_some()
    }

    /// Cancels the request, even if it has not been forwarded yet.
    pub(crate) fn cancel(&self, id: u64) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        if let Some(elevated) = &state.elevated {
            elevated.send(&ToExecutor::Cancel { id }, &[]);
        }
    }
}
