//! A running executor of another user: forwards requests to it and relays its replies.
//!
//! It is trusted no more than its user. Only replies to its own unanswered requests pass, so that it cannot speak for
//! root; another reply ends it.

use std::{
    collections::HashSet,
    fs::File,
    io::{Read, Write},
    process::Child,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use windlass_protocol::{Become, Event, FrameDecoder, Reply, Request, ToExecutor, write_frame};

use super::{Refusal, Replies, answer, start::Parts};
use crate::lock::lock;
use crate::run::interrupted;

/// Bytes of the executor's standard error to keep for messages.
const SAID: usize = 4096;

/// An executor of another user, and its requests without an answer.
pub(crate) struct Elevated {
    user: String,
    input: Mutex<Option<File>>,
    child: Mutex<Child>,
    pending: Mutex<HashSet<u64>>,
    alive: AtomicBool,
    said: Arc<Mutex<Vec<u8>>>,
    terminal: bool,
    /// Reason why this executor is no longer trusted.
    distrusted: Mutex<Option<String>>,
}

impl Elevated {
    /// Takes over a started executor, and reads its replies from then on.
    pub(crate) fn new(parts: Parts, who: &Become, replies: &Arc<dyn Replies>) -> Result<Arc<Elevated>, Refusal> {
        let Parts { child, input, output, errors, decoder } = parts;
        let said = Arc::new(Mutex::new(Vec::new()));
        let elevated = Arc::new(Elevated {
            user: who.user.clone(),
            input: Mutex::new(Some(input)),
            child: Mutex::new(child),
            pending: Mutex::default(),
            alive: AtomicBool::new(true),
            said: Arc::clone(&said),
            terminal: errors.is_none(),
            distrusted: Mutex::default(),
        });
        let refuse = |error: std::io::Error| Refusal::new(format!("The executor could not start a thread: {error}."));
        if let Some(errors) = errors {
            thread::Builder::new().name("become stderr".into()).spawn(move || listen(errors, &said)).map_err(refuse)?;
        }
        let (reader, replies) = (Arc::clone(&elevated), Arc::clone(replies));
        let relay = move || reader.relay(&*replies, output, decoder);
        thread::Builder::new().name("become replies".into()).spawn(relay).map_err(refuse)?;
        Ok(elevated)
    }

    /// Whether the executor still runs.
    pub(crate) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Reason why this user gets no further executor in this session: the last one violated the protocol.
    pub(crate) fn distrusted(&self) -> Option<String> {
        lock(&self.distrusted).clone()
    }

    /// Forwards a request. After an error, nothing was run.
    pub(crate) fn run(&self, request: Request<Value>, blob: &[u8]) -> Result<(), String> {
        lock(&self.pending).insert(request.id);
        let id = request.id;
        if self.send(&ToExecutor::Run(request), blob) {
            return Ok(());
        }
        lock(&self.pending).remove(&id);
        Err(format!("The executor of user {} has ended before it could take the task.", self.user))
    }

    /// Writes a message; false if the executor is gone.
    pub(crate) fn send(&self, message: &ToExecutor<Value>, blob: &[u8]) -> bool {
        let mut input = lock(&self.input);
        let Some(file) = input.as_mut().filter(|_| self.alive()) else { return false };
        write_frame(file, message, blob).is_ok()
    }

    /// Whether the executor runs and is idle.
    pub(crate) fn idle(&self) -> bool {
        self.alive() && lock(&self.pending).is_empty()
    }

    /// Stops all running requests. Closing the connection is not enough: on a terminal, the executor would receive a
    /// hang-up before it could stop its processes.
    pub(crate) fn cancel_all(&self) {
        let pending: Vec<u64> = lock(&self.pending).iter().copied().collect();
        for id in pending {
            self.send(&ToExecutor::Cancel { id }, &[]);
        }
    }

    /// Waits until all requests have ended, closes the connection, and waits for the executor's end.
    pub(crate) fn wait(&self, deadline: Instant) {
        self.wait_until(deadline, || lock(&self.pending).is_empty());
        self.close();
        if self.terminal {
            // The relaying thread keeps the terminal open until this process ends.
            return;
        }
        self.wait_until(deadline + Duration::from_secs(1), || false);
        if self.alive() {
            // The relaying thread reaps the process. Killing another user's process may be forbidden, but its
            // connection is closed.
            if let Ok(mut child) = self.child.try_lock() {
                let _ = child.kill();
            }
        }
    }

    fn wait_until(&self, deadline: Instant, reached: impl Fn() -> bool) {
        while self.alive() && !reached() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.input) = None;
    }

    /// Accepts a reply only to a request that this executor received and has not answered yet. Any other reply is an
    /// attempt to impersonate another user, such as root.
    fn admit(&self, reply: &Reply<Value>) -> Result<(), String> {
        let user = &self.user;
        let mut pending = lock(&self.pending);
        let (id, given) = match reply {
            Reply::Done { id, .. } => (id, pending.remove(id)),
            // Another user's executor never starts a further one.
            Reply::Event { id, event: Event::BecomeFailed { .. } } => (id, false),
            Reply::Event { id, .. } => (id, pending.contains(id)),
            // A heartbeat may cross the answer; for another executor's request it is ignored, see `relay`.
            Reply::Pong { .. } => return Ok(()),
            Reply::Hello(_) => {
                return Err(format!("The executor of user {user} greeted twice and is not trusted any more"));
            }
        };
        if given {
            return Ok(());
        }
        Err(format!(
            "The executor of user {user} answered request {id}, which it was not given, and is not trusted any more. Look for a process of \
             {user} on this host that should not be there"
        ))
    }

    /// Whether a reply is a heartbeat for a request that this executor does not have, or has already answered.
    fn is_stray(&self, reply: &Reply<Value>) -> bool {
        matches!(reply, Reply::Pong { id } if !lock(&self.pending).contains(id))
    }

    fn relay(&self, replies: &dyn Replies, mut output: File, mut decoder: FrameDecoder) {
        let mut buffer = vec![0; 128 << 10];
        let fault = loop {
            match decoder.next_frame::<Reply<Value>>() {
                Ok(Some((reply, blob))) => match self.admit(&reply) {
                    Ok(()) if self.is_stray(&reply) => continue,
                    Ok(()) => {
                        replies.forward(reply, &blob);
                        continue;
                    }
                    Err(sentence) => {
                        *lock(&self.distrusted) = Some(sentence.clone());
                        break Some(sentence);
                    }
                },
                Ok(None) => {}
                Err(error) => break Some(error.to_string()),
            }
            match output.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) => decoder.extend(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A terminal whose other side is closed returns an error.
                Err(_) => break None,
            }
        };
        self.alive.store(false, Ordering::Release);
        self.close();
        drop(output);
        if lock(&self.distrusted).is_some() {
            // Killing another user's process may be forbidden, but its channel is closed in both directions.
            let _ = kill_process_group(Pid::from_child(&lock(&self.child)), Signal::KILL);
        }
        let said = String::from_utf8_lossy(&lock(&self.said)).trim().to_owned();
        let reason = fault.or(Some(said).filter(|said| !said.is_empty()));
        let pending: Vec<u64> = lock(&self.pending).drain().collect();
        for id in pending {
            let tail = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("The executor of user {} ended before the task was done{tail}.", self.user);
            answer(replies, id, interrupted(message));
        }
        let _ = lock(&self.child).wait();
    }
}

fn listen(mut errors: File, said: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let mut said = lock(said);
        said.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = said.len().saturating_sub(SAID);
        said.drain(..excess);
        let _ = std::io::stderr().write_all(buffer.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::OwnedFd,
        process::{Command, Stdio},
        sync::mpsc::{Receiver, Sender, channel},
    };

    use serde_json::json;
    use windlass_protocol::{BecomeMethod, Hello, LockTerms, Spent};

    use super::*;
    use crate::become_user::Relay;

    /// A controller that takes every reply, whatever request it belongs to.
    struct Controller(Sender<Reply<Value>>);

    impl Replies for Controller {
        fn enter(&self, _id: u64, _relay: Arc<Relay>) {}

        fn forward(&self, reply: Reply<Value>, _blob: &[u8]) {
            self.0.send(reply).unwrap();
        }

        fn lock_terms(&self) -> Option<LockTerms> {
            None
        }
    }

    /// User anna's executor, controlled by this test.
    struct Scripted {
        elevated: Arc<Elevated>,
        /// Writes as the peer.
        says: File,
        heard: Receiver<Reply<Value>>,
        _input: File,
    }

    fn pipe() -> (File, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)))
    }

    fn scripted() -> Scripted {
        let (replies, heard) = channel();
        let (peer_reads, input) = pipe();
        let (output, says) = pipe();
        let mut command = Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(
            command.arg("5").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
            0,
        );
        let parts =
            Parts { child: command.spawn().unwrap(), input, output, errors: None, decoder: FrameDecoder::default() };
        let who = Become {
            method: BecomeMethod::Sudo,
            user: "anna".into(),
            exe: None,
            flags: None,
            password: None,
            timeout: 0,
        };
        let replies: Arc<dyn Replies> = Arc::new(Controller(replies));
        let elevated = Elevated::new(parts, &who, &replies).unwrap();
        Scripted { elevated, says, heard, _input: peer_reads }
    }

    impl Scripted {
        fn give(&self, id: u64) {
            let request = json!({ "id": id, "module": "ping", "args": {} });
            self.elevated.run(serde_json::from_value(request).unwrap(), &[]).unwrap();
        }

        fn say(&mut self, reply: &Reply<Value>) {
            write_frame(&mut self.says, reply, b"").unwrap();
        }

        fn hear(&mut self) -> (u64, Value) {
            match self.heard.recv().unwrap() {
                Reply::Done { id, result, .. } => (id, result),
                other => (0, json!(format!("{other:?}"))),
            }
        }

        /// Expects the peer's own request to fail, and its later messages to be dropped.
        fn expect_cast_out(mut self, own: u64) {
            let (id, result) = self.hear();
            assert_eq!((id, result["failed"].as_bool()), (own, Some(true)), "{result}");
            assert!(result["msg"].as_str().unwrap().contains("anna"), "{result}");
            assert!(self.elevated.distrusted().is_some());
            assert!(!self.elevated.alive());
            // A process that another test is starting holds a copy of the channel until it executes its program.
            let deadline = Instant::now() + Duration::from_secs(10);
            while write_frame(&mut self.says, &done(own), b"").is_ok() {
                assert!(Instant::now() < deadline, "its channel is still open");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn done(id: u64) -> Reply<Value> {
        Reply::Done { id, result: json!({ "changed": false, "forged": true }), spent: Spent::default() }
    }

    #[test]
    fn executor_answering_its_own_request_is_passed_on() {
        let mut peer = scripted();
        peer.give(1);
        peer.say(&done(1));
        assert_eq!(peer.hear(), (1, json!({ "changed": false, "forged": true })));
        assert!(peer.elevated.alive());
    }

    #[test]
    fn executor_answering_a_request_of_another_user_is_ended() {
        let mut peer = scripted();
        peer.give(1);
        peer.say(&done(2));
        peer.expect_cast_out(1);
    }

    #[test]
    fn executor_sending_events_for_another_users_request_is_ended() {
        let mut peer = scripted();
        peer.give(1);
        peer.say(&Reply::Event { id: 2, event: Event::NotRun });
        peer.expect_cast_out(1);
    }

    #[test]
    fn executor_answering_twice_is_ended() {
        let mut peer = scripted();
        peer.give(1);
        peer.give(2);
        peer.say(&done(1));
        assert_eq!(peer.hear().0, 1);
        peer.say(&done(1));
        peer.expect_cast_out(2);
    }

    #[test]
    fn executor_greeting_twice_is_ended() {
        let mut peer = scripted();
        peer.give(1);
        peer.say(&Reply::Hello(Hello { protocol: 0, pid: 1, uid: 0, boot_id: String::new() }));
        peer.expect_cast_out(1);
    }
}
