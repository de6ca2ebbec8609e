//! Runs commands that take minutes, such as kubeadm and image pulls, with live output and a time limit. The message
//! about an exceeded limit shows the end of the output.

use std::{
    collections::VecDeque,
    io::Read,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use windlass_protocol::Event;

use crate::{
    Failure, Host, Sink,
    process::{Command, Output},
};

/// Bytes of the latest output to show in the message about a timeout.
const LATEST: usize = 2000;

/// Runs a long command. Passes its output on live, and stops it after the time limit.
pub(crate) fn run_within(command: Command, host: &Host, limit: Duration) -> Result<Output, Failure> {
    let shown = command.words().into_iter().take(3).collect::<Vec<_>>().join(" ");
    let latest = Arc::new(Latest { inner: host.sink.clone(), forward: host.stream, bytes: Mutex::default() });
    let stop = Arc::new(AtomicBool::new(false));
    let limited = Host { stream: true, cancelled: stop.clone(), sink: latest.clone(), ..host.beside() };
    let over = Arc::new(AtomicBool::new(false));
    let (finished, wait) = mpsc::channel::<()>();
    let result = std::thread::scope(|scope| {
        let (stop, over) = (stop.clone(), over.clone());
        scope.spawn(move || {
            let deadline = Instant::now() + limit;
            while let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_millis(100)) {
                over.store(Instant::now() >= deadline, Ordering::Relaxed);
                if over.load(Ordering::Relaxed) || host.cancelled() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        let result = command.live().run(&limited);
        drop(finished);
        result
    });
    match result {
        Err(_) if over.load(Ordering::Relaxed) => Err(Failure::new(format!(
            "{shown} did not end within {} seconds and was stopped. The end of its output: {}",
            limit.as_secs(),
            latest.text()
        ))),
        other => other,
    }
}

/// Passes events on and remembers the end of the output.
struct Latest {
    inner: Arc<dyn Sink>,
    forward: bool,
    bytes: Mutex<VecDeque<u8>>,
}

impl Latest {
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        if text.is_empty() { "nothing.".to_owned() } else { text }
    }
}

impl Sink for Latest {
    fn event(&self, event: Event, blob: &[u8]) {
        if matches!(event, Event::Output { .. }) {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend(blob);
            let excess = bytes.len().saturating_sub(LATEST);
            bytes.drain(..excess);
        }
        if self.forward {
            self.inner.event(event, blob);
        }
    }

    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.inner.content(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_over_time_stopped_and_quoted() {
        let command = Command::new("/bin/sh").args(["-c", "echo waiting for the API server; sleep 60"]);
        let failure = run_within(command, &Host::alone(), Duration::from_millis(500)).unwrap_err();
        assert!(failure.message.contains("was stopped"), "{}", failure.message);
        assert!(failure.message.ends_with("waiting for the API server"), "{}", failure.message);
    }

    #[test]
    fn process_within_time_succeeds() {
        let output = run_within(Command::new("echo").arg("done"), &Host::alone(), Duration::from_secs(60)).unwrap();
        assert_eq!(output.stdout_text(), "done\n");
    }
}
