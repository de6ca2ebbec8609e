//! Runs programs to their end, with a deadline and a bound on their output.
//!
//! Programs stay in this program's process group. They can therefore prompt at the terminal, and an interrupt there
//! reaches them too. At the deadline, the program and all its descendants are killed. If this program dies first, its
//! guard stops them.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use windlass_guard::Process;

use crate::file::is_interrupted;

/// Default deadline of a program.
pub const DEADLINE: Duration = Duration::from_secs(600);
/// Longest time until this program's own signal arrives, after a program was ended by one.
const OWN_SIGNAL: Duration = Duration::from_secs(2);
/// Default bound on each output stream, in bytes.
pub const OUTPUT: u64 = 64 << 20;

/// Limits on a program.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum run time; `None` means no limit.
    pub deadline: Option<Duration>,
    /// Maximum bytes written to each stream.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { deadline: Some(DEADLINE), output: OUTPUT }
    }
}

impl Limits {
    /// Limits with this deadline and the default bound on output.
    pub fn within(deadline: Option<Duration>) -> Self {
        Self { deadline, ..Self::default() }
    }
}

/// A program that ran to its end.
#[derive(Debug)]
pub struct Output {
    /// Exit status.
    pub status: ExitStatus,
    /// Bytes written to standard output.
    pub stdout: Vec<u8>,
    /// Bytes written to standard error; empty if that was not piped.
    pub stderr: Vec<u8>,
}

/// Reason why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be started, read or waited for.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The program exceeded this deadline and was killed.
    #[error("it did not end within {} s and was killed", .0.as_secs_f64().ceil())]
    Late(Duration),
    /// The program wrote more than this many bytes and was killed.
    #[error("it wrote more than {0} bytes and was killed")]
    TooMuch(u64),
}

thread_local! {
    /// Deadline of this thread's current action; it bounds its templates and every program that it starts.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs an action; its templates, and programs that it starts, end at `end` at the latest (`timeout` of a task).
pub fn until<T>(end: Option<Instant>, action: impl FnOnce() -> T) -> T {
    /// Restores the previous deadline, also if the action panics.
    struct Restore(Option<Instant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNTIL.set(self.0);
        }
    }
    let before = UNTIL.get();
    let _restore = Restore(before);
    UNTIL.set([before, end].into_iter().flatten().min());
    action()
}

/// A future whose programs end at a given time at the latest.
pub struct Until<'a, T, E> {
    end: E,
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

impl<'a, T, E: Fn() -> Instant + Unpin> Until<'a, T, E> {
    /// Applies `end` to every poll of the future.
    pub fn new(end: E, future: Pin<Box<dyn Future<Output = T> + Send + 'a>>) -> Self {
        Self { end, future }
    }
}

impl<T, E: Fn() -> Instant + Unpin> Future for Until<'_, T, E> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let end = (self.end)();
        until(Some(end), || self.future.as_mut().poll(context))
    }
}

/// Time left for a program that starts now: the shorter of `deadline` and the deadline of this thread's action.
pub fn remaining(deadline: Option<Duration>) -> Option<Duration> {
    let left = UNTIL.get().map(|end| end.saturating_duration_since(Instant::now()));
    [deadline, left].into_iter().flatten().min()
}

/// Whether the deadline of this thread's action has passed.
pub fn is_overdue() -> bool {
    UNTIL.get().is_some_and(|end| Instant::now() >= end)
}

/// Runs a program to its end, and captures its standard output and standard error.
pub fn run(command: &mut Command, limits: Limits) -> Result<Output, Error> {
    run_to_end(command.stderr(Stdio::piped()), limits)
}

/// Like [`run`], but the program's standard error is this program's, so that the user sees it.
pub fn run_showing_stderr(command: &mut Command, limits: Limits) -> Result<Output, Error> {
    run_to_end(command.stderr(Stdio::inherit()), limits)
}

fn run_to_end(command: &mut Command, limits: Limits) -> Result<Output, Error> {
    let limits = Limits { deadline: remaining(limits.deadline), ..limits };
    let start = windlass_guard::start();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let _watched = start.watch_tree(Pid::from_child(&child));
    let until = limits.deadline.map(|deadline| Instant::now() + deadline);
    let outcome = finish(&mut child, limits, until);
    if outcome.is_err() {
        kill_tree(&mut child);
    }
    outcome
}

fn finish(child: &mut Child, limits: Limits, until: Option<Instant>) -> Result<Output, Error> {
    let stdout = child.stdout.take().map(|pipe| drain(pipe, limits.output)).transpose()?;
    let stderr = child.stderr.take().map(|pipe| drain(pipe, limits.output)).transpose()?;
    let stdout = collect(stdout, limits, until)?;
    let stderr = collect(stderr, limits, until)?;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            await_own_signal(status);
            return Ok(Output { status, stdout, stderr });
        }
        if let (Some(until), Some(deadline)) = (until, limits.deadline)
            && Instant::now() >= until
        {
            return Err(Error::Late(deadline));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Waits for this program's own signal where a program was ended by one: Ctrl-C reaches both, in any order. Otherwise
/// the failure of that program would end the run, with another message and exit code.
pub fn await_own_signal(status: ExitStatus) {
    const SIGNALS: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
    // A shell adds 128 to the signal that ended its command.
    let number = status.signal().or_else(|| status.code()?.checked_sub(128));
    if number.is_some_and(|number| SIGNALS.iter().any(|signal| signal.as_raw() == number)) {
        await_interruption();
    }
}

/// Waits for this program's own signal, which has reached another program already.
pub fn await_interruption() {
    let until = Instant::now() + OWN_SIGNAL;
    while !is_interrupted() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a pipe to its end in a thread, so that no stream blocks another. `None` if it exceeds the limit.
fn drain(pipe: impl Read + Send + 'static, limit: u64) -> io::Result<Receiver<io::Result<Option<Vec<u8>>>>> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("child output".into()).spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(limit + 1).read_to_end(&mut bytes);
        let outcome = read.map(|length| (length as u64 <= limit).then_some(bytes));
        // Sending fails only after the deadline, when nobody receives.
        let _ = sender.send(outcome);
    })?;
    Ok(receiver)
}

fn collect(
    stream: Option<Receiver<io::Result<Option<Vec<u8>>>>>,
    limits: Limits,
    until: Option<Instant>,
) -> Result<Vec<u8>, Error> {
    let Some(stream) = stream else { return Ok(Vec::new()) };
    let received = match until {
        None => stream.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(until) => stream.recv_timeout(until.saturating_duration_since(Instant::now())),
    };
    match received {
        Ok(outcome) => outcome?.ok_or(Error::TooMuch(limits.output)),
        Err(RecvTimeoutError::Timeout) => Err(Error::Late(limits.deadline.unwrap_or_default())),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its output could not be read").into()),
    }
}

/// Kills a program and everything that descends from it.
pub fn kill_tree(child: &mut Child) {
    // The second pass kills processes that the first one missed.
    for _ in 0..2 {
        if let Some(process) = Process::of(Pid::from_child(child).as_raw_nonzero().get()) {
            process.kill_descendants();
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limits: Limits) -> Result<Output, Error> {
        run(Command::new("/bin/sh").args(["-c", text]).stdin(Stdio::null()), limits)
    }

    #[test]
    fn program_finished_returns_streams_and_status() {
        let output = shell("echo out; echo err >&2; exit 3", Limits::default()).unwrap();
        assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(3), b"out\n".into(), b"err\n".into()));
    }

    #[test]
    fn endless_output_is_bounded() {
        let limits = Limits { output: 1 << 20, ..Limits::default() };
        for stream in ["yes", "yes >&2"] {
            let error = shell(stream, limits).unwrap_err();
            assert!(matches!(error, Error::TooMuch(_)), "{error}");
        }
    }

    #[test]
    fn deadline_kills_descendants() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let text = format!("sh -c 'echo $$ > {}; exec sleep 600' & wait", file.display());
        let error = shell(&text, Limits::within(Some(Duration::from_secs(2)))).unwrap_err();
        assert_eq!(error.to_string(), "it did not end within 2 s and was killed");
        let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        // A killed process remains visible until its parent has read its status.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z");
        let end = Instant::now() + Duration::from_secs(10);
        while !is_gone() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_gone(), "{}", state());
    }

    #[test]
    fn program_outlasting_its_task_killed() {
        let end = Instant::now() + Duration::from_secs(1);
        let error = until(Some(end), || shell("sleep 600", Limits::default())).unwrap_err();
        assert!(matches!(error, Error::Late(_)), "{error}");
        assert_eq!(remaining(None), None);
    }

    #[test]
    fn program_with_closed_streams_killed_at_deadline() {
        let error = shell("exec >&- 2>&-; sleep 600", Limits::within(Some(Duration::from_secs(1)))).unwrap_err();
        assert!(matches!(error, Error::Late(_)), "{error}");
    }
}
