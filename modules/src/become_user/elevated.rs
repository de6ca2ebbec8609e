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

use serde_json::Value;
use windlass_protocol::{Become, FrameDecoder, Reply, Request, ToExecutor, write_frame};

use super::{Refusal, start::Parts};
use crate::serve::{Session, failed, lock};

/// How much of what the user's executor says on standard error is kept for messages.
const SAID: usize = 4096;

/// Another user's executor.
pub(crate) struct Elevated {
    user: String,
    input: Mutex<Option<File>>,
    child: Mutex<Child>,
    pending: Mutex<HashSet<u64>>,
    alive: AtomicBool,
    said: Arc<Mutex<Vec<u8>>>,
    terminal: bool,
}

impl Elevated {
    /// Takes over a started executor and reads its replies from now on.
    pub(crate) fn new(parts: Parts, who: &Become, session: &Arc<Session>) -> Result<Arc<Elevated>, Refusal> {
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
        });
        let refuse = |error: std::io::Error| Refusal::new(format!("The executor could not start a thread: {error}."));
        if let Some(errors) = errors {
            thread::Builder::new().name("become stderr".into()).spawn(move || listen(errors, &said)).map_err(refuse)?;
        }
        let (reader, session) = (Arc::clone(&elevated), Arc::clone(session));
        let relay = move || reader.relay(&session, output, decoder);
        thread::Builder::new().name("become replies".into()).spawn(relay).map_err(refuse)?;
        Ok(elevated)
    }

    pub(crate) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Passes a request on. After an error nothing has been run.
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

    /// Whether it runs, and has nothing to do.
    pub(crate) fn idle(&self) -> bool {
        self.alive() && lock(&self.pending).is_empty()
    }

    /// Stops what runs. Closing the connection would do too, but where it is a terminal the executor would be hung up on before it could
    /// stop its processes.
    pub(crate) fn cancel_all(&self) {
        let pending: Vec<u64> = lock(&self.pending).iter().copied().collect();
        for id in pending {
            self.send(&ToExecutor::Cancel { id }, &[]);
        }
    }

    /// Waits until nothing runs any more, closes the connection, and waits for the executor's end.
    pub(crate) fn wait(&self, deadline: Instant) {
        self.wait_until(deadline, || lock(&self.pending).is_empty());
        self.close();
        if self.terminal {
            // The relaying thread still holds the terminal open; it is hung up when this process ends.
            return;
        }
        self.wait_until(deadline + Duration::from_secs(1), || false);
        if self.alive() {
            // The relaying thread reaps it; of another user's process this may not be allowed, but its connection is closed.
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

    fn close(&self) {
        *lock(&self.input) = None;
    }

    fn relay(&self, session: &Arc<Session>, mut output: File, mut decoder: FrameDecoder) {
        let mut buffer = vec![0; 128 << 10];
        let fault = loop {
            match decoder.next_frame::<Reply<Value>>() {
                Ok(Some((reply, blob))) => {
                    if let Reply::Done { id, .. } = &reply {
                        lock(&self.pending).remove(id);
                    }
                    session.forward(reply, &blob);
                    continue;
                }
                Ok(None) => {}
                Err(error) => break Some(error.to_string()),
            }
            match output.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) => decoder.extend(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A terminal whose other side is closed answers with an error.
                Err(_) => break None,
            }
        };
        self.alive.store(false, Ordering::Release);
        self.close();
        let said = String::from_utf8_lossy(&lock(&self.said)).trim().to_owned();
        let reason = fault.or(Some(said).filter(|said| !said.is_empty()));
        let pending: Vec<u64> = lock(&self.pending).drain().collect();
        for id in pending {
            let tail = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            session.done(
                id,
                failed(format!("The executor of user {} ended before the task was done{tail}.", self.user)),
                &[],
            );
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
