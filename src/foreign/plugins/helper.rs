//! The Python process that evaluates plugins. It is started on first use and ends with the run.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::Pid;
use serde_json::{Value as Json, json};
use windlass_bounds::child::{Error as ChildError, Limits, await_interruption, await_own_signal, kill_tree, remaining};
use windlass_guard::Watched;

use super::printed::{Print, Printed};

/// Program that the process runs. Python would import modules from the working directory, in which others may write.
const PROGRAM: &str = concat!(
    "import sys; sys.path[:] = [path for path in sys.path if path]\n",
    include_str!("actions.py"),
    include_str!("cache.py"),
    include_str!("callbacks.py"),
    include_str!("vars.py"),
    include_str!("helper.py")
);

/// Interval at which the end of a process is looked for.
const ENDING: Duration = Duration::from_millis(5);

/// Parameters to start the process.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// Path of the interpreter.
    pub(super) python: PathBuf,
    /// Import paths: ansible-core and collections.
    pub(super) paths: Vec<PathBuf>,
    /// Directories of collections.
    pub(super) collections: Vec<PathBuf>,
    /// Directory of the playbook.
    pub(super) basedir: PathBuf,
    /// Limits on the time and size of an answer.
    pub(super) limits: Limits,
    /// Prints what plugins print.
    pub(super) print: Print,
}

impl Setup {
    /// The same setup with a deadline of at most this time.
    pub(super) fn within(&self, deadline: Duration) -> Setup {
        let deadline = self.limits.deadline.map_or(deadline, |set| set.min(deadline));
        Setup { limits: Limits { deadline: Some(deadline), ..self.limits }, ..self.clone() }
    }
}

/// A running Python process.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    /// Stops it should this program die first.
    _watched: Watched,
    /// `None` once it is closed: the process takes no further request.
    input: Option<ChildStdin>,
    output: ChildStdout,
    printed: Printed,
    print: Print,
    /// Bytes read beyond the last answer.
    read: Vec<u8>,
    /// Number of requests sent.
    requests: u64,
    /// Start of the current request.
    began: Instant,
    /// Time that the current request may take, including the plugin's questions.
    deadline: Option<Duration>,
    limits: Limits,
}

/// A plugin's error.
pub(super) struct Refusal {
    pub(super) message: String,
    /// Whether the plugin used an undefined value.
    pub(super) undefined: bool,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), undefined: false }
    }
}

impl Helper {
    /// Starts the process.
    pub(super) fn start(setup: &Setup) -> Result<Helper, Refusal> {
        let python = setup.python.display();
        let refuse = |error: &dyn std::fmt::Display| Refusal::new(format!("{python} cannot be started: {error}"));
        let start = windlass_guard::start();
        let mut child = Command::new(&setup.python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| refuse(&error))?;
        let watched = start.watch_tree(Pid::from_child(&child));
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(refuse(&"it has no standard streams"));
        };
        // A process that does not read must not keep its writer.
        nonblocking(&input).map_err(|error| refuse(&error))?;
        let mut helper = Helper {
            child,
            _watched: watched,
            input: Some(input),
            output,
            printed: Printed::new(errors).map_err(|error| refuse(&error))?,
            print: setup.print.clone(),
            read: Vec::new(),
            requests: 0,
            began: Instant::now(),
            deadline: None,
            limits: setup.limits,
        };
        helper.begin();
        let given = json!({ "paths": setup.paths, "collections": setup.collections, "basedir": setup.basedir });
        helper.send(given.to_string())?;
        Ok(helper)
    }

    /// Sends a request and returns the result. `answer` handles questions that the plugin asks meanwhile.
    pub(super) fn ask(
        &mut self,
        request: &Json,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
    ) -> Result<Json, Refusal> {
        let print = self.print.clone();
        self.ask_printing(request, answer, &print)
    }

    /// Like [`Helper::ask`], for a request whose text has its own place.
    pub(super) fn ask_printing(
        &mut self,
        request: &Json,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
        print: &Print,
    ) -> Result<Json, Refusal> {
        // Output of background programs since the last request belongs to no request.
        self.printed.finish(&self.print);
        self.requests += 1;
        self.begin();
        let request = format!("[{},{request}]", self.requests);
        let answer = self.send(request).and_then(|()| self.answer(answer, print));
        self.printed.finish(print);
        answer
    }

    /// Starts the deadline of a request. Questions of the plugin do not restart it, because a plugin may ask endlessly.
    fn begin(&mut self) {
        self.began = Instant::now();
        self.deadline = remaining(self.limits.deadline);
    }

    fn until(&self) -> Option<Instant> {
        self.deadline.and_then(|deadline| self.began.checked_add(deadline))
    }

    /// Waits for the answer to the last request.
    fn answer(
        &mut self,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
        print: &Print,
    ) -> Result<Json, Refusal> {
        loop {
            let line = match self.line(print) {
                Ok(line) => line,
                Err(ChildError::Io(_)) => {
                    // The process closes its output only when it ends.
                    self.end();
                    let status = self.child.wait().ok();
                    status.into_iter().for_each(await_own_signal);
                    let status = status.map(|status| status.to_string()).unwrap_or_default();
                    return Err(Refusal::new(format!("the Python process that runs it has ended ({status})")));
                }
                Err(error) => return Err(self.given_up(format!("the Python process that runs it: {error}"))),
            };
            let reply = match serde_json::from_slice::<Json>(&line) {
                Ok(reply) if reply.get("to").and_then(Json::as_u64) == Some(self.requests) => reply,
                // Another answer must never count as this one.
                Ok(_) => return Err(self.given_up("the Python process that runs it answered another request")),
                Err(error) => return Err(self.given_up(format!("its answer cannot be read: {error}"))),
            };
            if reply.get("is_last").and_then(Json::as_bool) == Some(true) {
                self.end();
            }
            if let Some(question) = reply.get("ask") {
                let reply = match answer(question) {
                    Ok(value) => json!({ "value": value }),
                    Err(message) => json!({ "error": message }),
                };
                self.send(reply.to_string())?;
                continue;
            }
            return match (reply.get("value"), reply.get("error").and_then(Json::as_str)) {
                (_, Some("KeyboardInterrupt")) => {
                    await_interruption();
                    Err(Refusal::new("KeyboardInterrupt"))
                }
                (_, Some(message)) => Err(Refusal {
                    message: message.to_owned(),
                    undefined: reply.get("undefined").and_then(Json::as_bool).unwrap_or(false),
                }),
                (Some(value), None) => Ok(value.clone()),
                (None, None) => Err(Refusal::new("it gave no answer")),
            };
        }
    }

    /// Next line of its output, within the limits of time and size. Prints what plugins print meanwhile.
    fn line(&mut self, print: &Print) -> Result<Vec<u8>, ChildError> {
        let mut searched = 0;
        loop {
            let fresh = self.read.get(searched..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(searched + end + 1);
                return Ok(std::mem::replace(&mut self.read, rest));
            }
            searched = self.read.len();
            if searched as u64 > self.limits.output {
                return Err(ChildError::TooMuch(self.limits.output));
            }
            let pipes = std::iter::once(self.output.as_fd()).chain(self.printed.pipe());
            let mut pipes: Vec<PollFd<'_>> = pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)).collect();
            wait(&mut pipes, self.until()).map_err(|error| match error.kind() {
                ErrorKind::TimedOut => ChildError::Late(self.deadline.unwrap_or_default()),
                _ => error.into(),
            })?;
            let is_silent = pipes.first().is_some_and(|output| output.revents().is_empty());
            self.printed.read(print);
            if is_silent {
                continue;
            }
            let mut piece = vec![0; 64 << 10];
            match self.output.read(&mut piece) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.read.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes a request. A process that does not read it in time is an error.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = self.until();
        let Some(input) = &mut self.input else { return Err(ErrorKind::BrokenPipe.into()) };
        while !bytes.is_empty() {
            wait(&mut [PollFd::new(input, PollFlags::OUT)], until)?;
            match input.write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the process, and waits until it has stopped its threads. One that does not end in time is killed.
    pub(super) fn finish(mut self) -> Result<(), ChildError> {
        let Helper { child, input, limits, .. } = &mut self;
        // It ends with its input.
        drop(input.take());
        let until = limits.deadline.map(|deadline| Instant::now() + deadline);
        while child.try_wait()?.is_none() {
            if until.is_some_and(|until| Instant::now() >= until) {
                kill_tree(child);
                return Err(ChildError::Late(limits.deadline.unwrap_or_default()));
            }
            std::thread::sleep(ENDING);
        }
        Ok(())
    }

    /// Whether the process can take another request.
    pub(super) fn is_alive(&mut self) -> bool {
        self.input.is_some() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process, for a reason.
    fn given_up(&mut self, reason: impl Into<String>) -> Refusal {
        self.end();
        Refusal::new(reason)
    }

    /// Kills the process, which may be in the middle of a request.
    fn end(&mut self) {
        self.input = None;
        kill_tree(&mut self.child);
    }

    fn send(&mut self, mut line: String) -> Result<(), Refusal> {
        line.push('\n');
        let written = self.write(line.as_bytes());
        written.map_err(|error| match (error.kind(), self.deadline) {
            // A process that is out of time may take no answer to its last question either.
            (ErrorKind::TimedOut, Some(deadline)) => self.given_up(ChildError::Late(deadline).to_string()),
            _ => self.given_up(format!("the Python process that runs it takes no request: {error}")),
        })
    }
}

pub(super) fn nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    Ok(rustix::fs::fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

/// Waits until one of the pipes is ready or closed.
fn wait(pipes: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        let timeout = left.map(Timespec::try_from).and_then(Result::ok);
        match poll(pipes, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The process is idle and has nothing to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.printed.finish(&self.print);
    }
}
