//! Interactive part of host key verification: asks at the terminal like ssh, and sends warnings as events of the run.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;
use windlass_ssh::{HostKeyUser, Pending, PresentedKey};

use super::{Event, Events, Question};

/// Time to answer a question; after that the host is refused.
const ANSWER_DEADLINE: Duration = Duration::from_secs(300);
/// Maximum wait for a warning to be shown, so that unread output cannot block the connection.
const SHOWN_DEADLINE: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 1024;

/// Asks at the process's terminal, even if the standard streams are redirected.
pub(crate) struct AtTerminal {
    events: Events,
}

impl AtTerminal {
    /// Sends warnings to `events`.
    pub(crate) fn new(events: Events) -> Self {
        Self { events }
    }

    /// Returns once all events sent so far are shown.
    async fn shown(&self) {
        let (sender, mut shown) = mpsc::unbounded_channel();
        let _ = self.events.send(Event::Prompt { text: String::new(), shown: sender });
        let _ = tokio::time::timeout(SHOWN_DEADLINE, shown.recv()).await;
    }
}

impl HostKeyUser for AtTerminal {
    fn confirm<'a>(&'a self, key: &'a PresentedKey) -> Pending<'a, Option<bool>> {
        Box::pin(async move {
            let _hidden = Question::begin();
            self.shown().await;
            let (question, fingerprint) = (question(key), key.fingerprint.clone());
            let asked = tokio::task::spawn_blocking(move || ask(&question, &fingerprint));
            asked.await.ok()?.ok()
        })
    }

    fn warn(&self, sentence: String) -> Pending<'_, ()> {
        Box::pin(async move {
            let _ = self.events.send(Event::Warning(sentence));
            self.shown().await;
        })
    }
}

fn question(key: &PresentedKey) -> String {
    format!(
        "The host key of {} is unknown.\n{} {}\nCompare the fingerprint with the host's own. Connect, and add the key to {}? (yes/no/[fingerprint]) ",
        key.host,
        key.algorithm,
        key.fingerprint,
        key.file.display()
    )
}

/// Asks until the answer is yes, no or the fingerprint. Fails without a terminal, or without an answer in time.
fn ask(question: &str, fingerprint: &str) -> io::Result<bool> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let deadline = Instant::now() + ANSWER_DEADLINE;
    terminal.write_all(format!("\n{question}").as_bytes())?;
    loop {
        match verdict(&line(&mut terminal, deadline)?, fingerprint) {
            Some(verdict) => return Ok(verdict),
            None => terminal.write_all(b"Please type 'yes', 'no' or the fingerprint: ")?,
        }
    }
}

/// Interprets an answer; `None` if it is neither yes, no nor the fingerprint.
fn verdict(answer: &str, fingerprint: &str) -> Option<bool> {
    match answer.trim() {
        answer if answer.eq_ignore_ascii_case("yes") => Some(true),
        answer if answer.eq_ignore_ascii_case("no") => Some(false),
        answer => (answer == fingerprint).then_some(true),
    }
}

/// Reads a line from the terminal. End of input means no.
fn line(terminal: &mut File, deadline: Instant) -> io::Result<String> {
    let mut typed = Vec::new();
    while typed.len() < LONGEST_ANSWER && typed.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        if poll(&mut [PollFd::new(&*terminal, PollFlags::IN)], Some(&left))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut bytes = [0; 256];
        match terminal.read(&mut bytes)? {
            0 if typed.is_empty() => return Ok("no".to_owned()),
            0 => break,
            count => typed.extend_from_slice(bytes.get(..count).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&typed).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_or_whole_fingerprint_accepts() {
        let verdict = |answer| verdict(answer, "SHA256:abc");
        assert_eq!([verdict("yes\n"), verdict(" YES "), verdict("SHA256:abc\n")], [Some(true); 3]);
        assert_eq!(verdict("No\n"), Some(false));
        assert_eq!([verdict("y"), verdict(""), verdict("SHA256:ab"), verdict("sha256:abc")], [None; 4]);
    }
}
