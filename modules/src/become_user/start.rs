//! Starts another user's executor: the dialogue with `sudo`, `su` or `doas` until the executor sends its greeting.

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::LocalModes,
};
use serde_json::Value;
use windlass_protocol::{BEGIN_MARKER, Become, BecomeMethod, FrameDecoder, Hello, PROTOCOL_VERSION, Reply};

use super::{
    Refusal, asker,
    command::{Invocation, invocation, validation},
    copy::Reachable,
};
use crate::terminal;

/// Default time limit for the start, in seconds.
const USUAL_TIMEOUT: u64 = 60;

/// Time for a refused method to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// A started executor.
pub(super) struct Parts {
    pub(super) child: Child,
    pub(super) input: File,
    pub(super) output: File,
    pub(super) errors: Option<File>,
    pub(super) decoder: FrameDecoder,
}

/// Starts an executor as the user.
pub(super) fn start(who: &Become, word: &str) -> Result<Parts, Refusal> {
    let reachable = Reachable::for_user(&who.user)?;
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(|error| Refusal::new(format!("The host gave no random numbers: {error}.")))?;
    let random = hex::encode(random);
    let executor = own_command(&reachable.path, word, &random);
    let mark = format!("windlass-password-{random}:");
    let validated;
    // If other processes are hidden, the asking process cannot be verified. Then sudo asks before it starts anything,
    // and not again.
    let who = if who.method == BecomeMethod::Sudo && who.password.is_some() && !asker::processes_visible() {
        let validation = validation(who, &mark)?;
        let validate = |terminal| Dialogue::open(&validation, who, &random, terminal)?.validate();
        match validate(false) {
            Err(Stop::NeedsTerminal) => validate(true),
            other => other,
        }
        .map_err(|stop| stop.refusal(who))?;
        validated = Become { password: None, ..who.clone() };
        &validated
    } else {
        who
    };
    let invocation = invocation(who, &executor, &mark)?;
    let attempt = |terminal| Dialogue::open(&invocation, who, &random, terminal)?.hold();
    match attempt(invocation.terminal) {
        Err(Stop::NeedsTerminal) => attempt(true).map_err(|stop| stop.refusal(who)),
        other => other.map_err(|stop| stop.refusal(who)),
    }
}

/// The command line of this process, with another word before its own, by which a later executor finds the process.
fn own_command(path: &Path, word: &str, new_word: &str) -> Vec<String> {
    let before = std::env::args().skip(1).take_while(|argument| argument != word);
    let path = path.to_string_lossy().into_owned();
    std::iter::once(path).chain(before).chain([new_word.to_owned(), word.to_owned()]).collect()
}

/// Reason why a dialogue ended early.
enum Stop {
    Refused(Refusal),
    NeedsTerminal,
}

impl Stop {
    fn refusal(self, who: &Become) -> Refusal {
        match self {
            Stop::Refused(refusal) => refusal,
            Stop::NeedsTerminal => {
                Refusal::new(format!("{} requires a terminal and does not accept the one it was given.", who.method))
            }
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

struct Dialogue<'a> {
    who: &'a Become,
    invocation: &'a Invocation,
    terminal: bool,
    child: Child,
    input: File,
    output: File,
    errors: Option<File>,
    /// Output on the prompt's stream since the last answer.
    said: Vec<u8>,
    /// All output, for messages.
    all: Vec<u8>,
    received: Vec<u8>,
    begin: Vec<u8>,
    answered: bool,
    /// Whether a prompt was seen while the terminal shows its input, so that nothing takes a password yet.
    early: bool,
    /// Whether a prompt was seen that another program may have printed.
    doubtful: bool,
    output_ended: bool,
    deadline: Instant,
}

impl<'a> Dialogue<'a> {
    fn open(invocation: &'a Invocation, who: &'a Become, word: &str, terminal: bool) -> Result<Dialogue<'a>, Stop> {
        let started = if terminal {
            on_terminal(invocation).and_then(|(child, control)| Ok((child, control.try_clone()?, control, None)))
        } else {
            piped(&invocation.words)
        };
        let (child, input, output, errors) = started.map_err(|error| {
            let program = invocation.words.first().map(String::as_str).unwrap_or_default();
            Refusal::new(format!(
                "{program} could not be started to become {}: {}.",
                who.user,
                crate::process::reason(&error)
            ))
        })?;
        let seconds = if who.timeout == 0 { USUAL_TIMEOUT } else { who.timeout };
        Ok(Dialogue {
            who,
            invocation,
            terminal,
            child,
            input,
            output,
            errors,
            said: Vec::new(),
            all: Vec::new(),
            received: Vec::new(),
            begin: format!("{BEGIN_MARKER}{word}\n").into_bytes(),
            answered: false,
            early: false,
            doubtful: false,
            output_ended: false,
            deadline: Instant::now() + Duration::from_secs(seconds),
        })
    }

    /// Runs the dialogue until the executor sends its greeting. Answers the prompt at most once.
    fn hold(mut self) -> Result<Parts, Stop> {
        let held = self.until_greeted();
        match held {
            Ok(decoder) => {
                Ok(Parts { child: self.child, input: self.input, output: self.output, errors: self.errors, decoder })
            }
            Err(stop) => {
                self.leave();
                Err(stop)
            }
        }
    }

    /// Runs a dialogue in which the method starts nothing, until it ends.
    fn validate(mut self) -> Result<(), Stop> {
        let held = loop {
            match self.read().and_then(|open| self.answer().map(|()| open)) {
                Ok(true) => {}
                Ok(false) if self.child.wait().is_ok_and(|status| status.success()) => return Ok(()),
                Ok(false) => break self.ended(),
                Err(stop) => break stop,
            }
        };
        self.leave();
        Err(held)
    }

    fn leave(mut self) {
        // Closing its input lets the method end in order and write its log.
        drop(self.input);
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        drop((self.output, self.errors));
        // The process may belong to root and end slowly, so another thread reaps it.
        let mut child = self.child;
        std::thread::spawn(move || child.wait());
    }

    fn until_greeted(&mut self) -> Result<FrameDecoder, Stop> {
        let mut decoder: Option<FrameDecoder> = None;
        loop {
            let open = self.read()?;
            if let Some(decoder) = &mut decoder {
                decoder.extend(&self.received);
                self.received.clear();
            } else if let Some(at) = position(&self.received, &self.begin) {
                let mut fresh = FrameDecoder::default();
                fresh.extend(self.received.get(at + self.begin.len()..).unwrap_or_default());
                self.received.clear();
                decoder = Some(fresh);
            } else {
                self.answer()?;
            }
            if let Some(mut waiting) = decoder.take() {
                match waiting.next_frame::<Reply<Value>>() {
                    Ok(Some((Reply::Hello(Hello { protocol: PROTOCOL_VERSION, .. }), _))) => return Ok(waiting),
                    Ok(None) => decoder = Some(waiting),
                    Ok(Some(_)) | Err(_) => {
                        let user = &self.who.user;
                        return Err(
                            Refusal::new(format!("The executor of user {user} did not greet as expected.")).into()
                        );
                    }
                }
            }
            if !open {
                return Err(self.ended());
            }
        }
    }

    /// Reads the available output; false at its end.
    fn read(&mut self) -> Result<bool, Stop> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.late());
        }
        // A stream at its end is always ready, so it is no longer polled.
        let streams = [(!self.output_ended).then_some(&self.output), self.errors.as_ref()];
        let mut polled: Vec<_> =
            streams.iter().flatten().map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)).collect();
        let wait = if self.early { left.min(Duration::from_millis(20)) } else { left };
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        if matches!(poll(&mut polled, Some(&wait)), Ok(0)) {
            return if self.early { Ok(true) } else { Err(self.late()) };
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let [output_ready, errors_ready] = streams.map(|stream| stream.is_some() && ready.next().unwrap_or(false));
        drop(polled);
        let mut buffer = [0; 8192];
        if errors_ready && let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Ok(count @ 1..) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.said.extend_from_slice(bytes);
                    self.all.extend_from_slice(bytes);
                }
                _ => self.errors = None,
            }
        }
        if output_ready {
            match self.output.read(&mut buffer) {
                Ok(count @ 1..) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.received.extend_from_slice(bytes);
                    if self.terminal {
                        self.said.extend_from_slice(bytes);
                        self.all.extend_from_slice(bytes);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => self.output_ended = true,
            }
        }
        Ok(!self.output_ended || self.errors.is_some())
    }

    /// Answers a prompt. A second prompt means that the first answer was wrong; it is never retried.
    fn answer(&mut self) -> Result<(), Stop> {
        self.early = false;
        if self.doubtful || !self.prompted() {
            return Ok(());
        }
        let (method, user) = (&self.who.method, &self.who.user);
        let Some(password) = &self.who.password else {
            return Err(Refusal::new(format!(
                "Missing {method} password: {method} asks for a password to become {user}. Give one with --ask-become-pass or \
                 ansible_become_password."
            ))
            .into());
        };
        // Read before the processes: if the method is alone afterwards, it has turned the echo off itself and waits.
        self.early = self.terminal && asker::echoes(&self.input);
        self.doubtful = !self.early && !self.invocation.starts_nothing && !asker::is_alone(self.child.id());
        if self.early || self.doubtful {
            return Ok(());
        }
        if self.answered {
            return Err(self.wrong());
        }
        self.answered = true;
        self.said.clear();
        if self.input.write_all(&password.line()).and_then(|()| self.input.flush()).is_err() {
            return Err(self.ended());
        }
        Ok(())
    }

    fn prompted(&self) -> bool {
        match &self.invocation.prompt {
            Some(mark) => position(&self.said, mark.as_bytes()).is_some(),
            // The prompt may be in any language, but it ends with a colon and without a newline.
            None => {
                let text = String::from_utf8_lossy(&self.said);
                let line = text.rsplit('\n').next().unwrap_or_default().trim_end();
                // A message of the program itself begins with its name and may arrive in pieces: `su:`, then the rest.
                let message = line.starts_with(&format!("{}:", self.who.method));
                !message && (line.ends_with(':') || line.ends_with('：'))
            }
        }
    }

    fn wrong(&self) -> Stop {
        let (method, user) = (&self.who.method, &self.who.user);
        Refusal::last(format!(
            "Incorrect {method} password: {method} did not accept the password to become {user}. It was tried once and will not be tried \
             again, so that the account is not locked."
        ))
        .into()
    }

    fn late(&self) -> Stop {
        let (method, user) = (&self.who.method, &self.who.user);
        let tail = self.tail();
        Refusal::new(format!("Timed out waiting for {method} to become {user}{tail}.")).into()
    }

    fn ended(&mut self) -> Stop {
        let said = self.words();
        if !self.terminal && !self.answered && said.to_lowercase().contains("tty") {
            return Stop::NeedsTerminal;
        }
        if self.answered && self.who.method != BecomeMethod::Sudo {
            return self.wrong();
        }
        let (method, user) = (&self.who.method, &self.who.user);
        let tail = self.tail();
        if self.who.password.is_none() && said.to_lowercase().contains("password") {
            return Refusal::new(format!(
                "Missing {method} password: {method} refused to become {user} without one{tail}. Give one with --ask-become-pass or \
                 ansible_become_password."
            ))
            .into();
        }
        let status = self.child.wait().map(|status| status.to_string()).unwrap_or_default();
        Refusal::new(format!("{method} could not start the executor as {user} ({status}){tail}.")).into()
    }

    /// Output of the method, without our mark.
    fn words(&self) -> String {
        let mut all = self.all.clone();
        if !self.terminal {
            all.extend_from_slice(&self.received);
        }
        let text = String::from_utf8_lossy(&all).into_owned();
        let text = match &self.invocation.prompt {
            Some(mark) => text.replace(mark.as_str(), ""),
            None => text,
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn tail(&self) -> String {
        let said = self.words();
        let doubt = if self.doubtful {
            "; the password was not sent, because another program may have asked for it (mount /proc without `hidepid` to \
             show which)"
        } else {
            ""
        };
        if said.is_empty() { doubt.to_owned() } else { format!("{doubt}; it printed: {}", said.trim_end_matches('.')) }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

type Started = (Child, File, File, Option<File>);

/// Starts the command on a terminal that passes every byte unchanged. Its echo shows when a method with its own prompt
/// waits for a password, and the executor turns it off. sudo would copy the echo to a terminal of its own.
fn on_terminal(invocation: &Invocation) -> std::io::Result<(Child, File)> {
    let [program, arguments @ ..] = invocation.words.as_slice() else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    terminal::spawn(command, |settings| {
        settings.make_raw();
        settings.local_modes.set(LocalModes::ECHO, invocation.prompt.is_none());
    })
}

fn piped(words: &[String]) -> std::io::Result<Started> {
    let [program, arguments @ ..] = words else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let missing = || std::io::Error::other("a pipe is missing");
    let input = File::from(OwnedFd::from(child.stdin.take().ok_or_else(missing)?));
    let output = File::from(OwnedFd::from(child.stdout.take().ok_or_else(missing)?));
    let errors = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    Ok((child, input, output, errors))
}
