//! A running process and its output.

use std::{
    collections::VecDeque,
    fs::File,
    io::{ErrorKind, Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use windlass_guard::{Start, Watched};
use windlass_protocol::Stream;

use super::GRACE;
use crate::{Failure, Host};

/// Bytes to keep from each end of an overlong stream.
pub(super) const END: usize = 8 << 10;
/// Time during which a background process may still write after its parent has ended.
const BACKGROUND: Duration = Duration::from_secs(5);
/// Interval at which a waiting run checks for cancellation.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A child process. Its whole process group is stopped unless it was reaped.
pub(super) struct Running {
    child: Child,
    group: Pid,
    /// Stops the group if this process dies; `None` once the process has ended.
    watched: Option<Watched>,
    reaped: bool,
}

impl Running {
    pub(super) fn of(child: Child, start: Start) -> Running {
        let group = Pid::from_child(&child);
        Running { watched: Some(start.watch_group(group)), group, child, reaped: false }
    }

    /// Reaps the process, which has ended, and returns its exit status.
    pub(super) fn status(mut self) -> Result<ExitStatus, Failure> {
        // The id belongs to this group only until the process is reaped.
        self.watched = None;
        let status = self.child.wait();
        let status = status.map_err(|error| Failure::new(format!("The process could not be awaited: {error}.")))?;
        self.reaped = true;
        Ok(status)
    }

    fn ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    /// Stops the process while reading its output. Otherwise a process that prints while it shuts down would die of
    /// SIGPIPE, and the traps of a shell would never run.
    fn stop_draining(&mut self, pipes: &mut Pipes) {
        let _ = kill_process_group(self.group, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while !self.ended() && Instant::now() < deadline {
            if pipes.wait().is_err() {
                break;
            }
            pipes.discard();
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        self.watched = None;
        let _ = self.child.wait();
        self.reaped = true;
    }

    /// Sends TERM, waits, and sends KILL. The leader is reaped last, because its id belongs to this group only until
    /// then.
    fn stop(&mut self) {
        if self.reaped {
            return;
        }
        let _ = kill_process_group(self.group, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while !self.ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        self.watched = None;
        let _ = self.child.wait();
        self.reaped = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Parent's ends of a process's pipes.
pub(super) struct Pipes {
    input: Option<(File, Vec<u8>, usize)>,
    stdout: Option<File>,
    stderr: Option<File>,
}

impl Pipes {
    pub(super) fn of(running: &mut Running, input: Option<Vec<u8>>) -> Result<Pipes, Failure> {
        let child = &mut running.child;
        let stdin = child.stdin.take().map(|pipe| non_blocking(pipe.into())).transpose()?;
        Ok(Pipes {
            input: stdin.zip(input).map(|(pipe, bytes)| (pipe, bytes, 0)),
            stdout: child.stdout.take().map(|pipe| non_blocking(pipe.into())).transpose()?,
            stderr: child.stderr.take().map(|pipe| non_blocking(pipe.into())).transpose()?,
        })
    }

    /// Writes input and reads output until the process has ended. A background process may keep the pipes open; they
    /// are closed once the process itself has ended and no more output arrives.
    pub(super) fn pump(
        mut self,
        host: &Host,
        running: &mut Running,
        live: bool,
        keep: usize,
    ) -> Result<(Kept, Kept), Failure> {
        let (mut out, mut err) = (Kept::new(keep), Kept::new(keep));
        let mut buffer = vec![0; 64 << 10];
        let mut given_up: Option<Instant> = None;
        loop {
            if let Err(cancelled) = host.check_cancelled() {
                running.stop_draining(&mut self);
                return Err(cancelled);
            }
            let quiet = self.wait()?;
            let ended = running.ended();
            self.feed();
            let mut read = |pipe: &mut Option<File>, kept: &mut Kept, stream| {
                let Some(file) = pipe else { return };
                match file.read(&mut buffer) {
                    Ok(0) => *pipe = None,
                    Ok(count) => {
                        let bytes = buffer.get(..count).unwrap_or_default();
                        kept.push(bytes);
                        if live {
                            host.output(stream, bytes);
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(_) => *pipe = None,
                }
            };
            read(&mut self.stdout, &mut out, Stream::Stdout);
            read(&mut self.stderr, &mut err, Stream::Stderr);
            let closed = self.stdout.is_none() && self.stderr.is_none();
            let deadline = ended.then(|| *given_up.get_or_insert_with(|| Instant::now() + BACKGROUND));
            if ended && (closed || quiet || deadline.is_some_and(|deadline| Instant::now() > deadline)) {
                return Ok((out, err));
            }
        }
    }

    /// Waits up to one tick for a pipe; true if none became ready.
    fn wait(&self) -> Result<bool, Failure> {
        let pipes = [&self.stdout, &self.stderr];
        let mut polled: Vec<_> =
            pipes.into_iter().flatten().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)).collect();
        if let Some((pipe, ..)) = &self.input {
            polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
        }
        if polled.is_empty() {
            // Both streams are closed but the process still runs; usually it is about to end.
            std::thread::sleep(Duration::from_millis(2));
            return Ok(true);
        }
        match poll(&mut polled, Some(&TICK)) {
            Ok(count) => Ok(count == 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::new(format!("The output of the process could not be read: {error}."))),
        }
    }

    /// Reads and drops the available output.
    fn discard(&mut self) {
        let mut buffer = [0; 8 << 10];
        for pipe in [&mut self.stdout, &mut self.stderr] {
            let Some(file) = pipe else { continue };
            match file.read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Ok(0) | Err(_) => *pipe = None,
            }
        }
        // Unread input blocks nobody, but closing its pipe could end the process early.
    }

    fn feed(&mut self) {
        let Some((pipe, bytes, written)) = &mut self.input else { return };
        match pipe.write(bytes.get(*written..).unwrap_or_default()) {
            Ok(count) => *written += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            // The process may close its input early; that is not an error.
            Err(_) => *written = bytes.len(),
        }
        if *written >= bytes.len() {
            self.input = None;
        }
    }
}

fn non_blocking(descriptor: OwnedFd) -> Result<File, Failure> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)
        .and_then(|flags| rustix::fs::fcntl_setfl(&descriptor, flags | rustix::fs::OFlags::NONBLOCK));
    flags.map_err(|error| Failure::new(format!("A pipe to the process could not be set up: {error}.")))?;
    Ok(File::from(descriptor))
}

/// Captured output: the whole stream, or the beginning and the end of one that exceeds the limit.
pub(super) struct Kept {
    keep: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    pub(super) total: u64,
    pub(super) overlong: bool,
}

impl Kept {
    fn new(keep: usize) -> Kept {
        Kept { keep, head: Vec::new(), tail: VecDeque::new(), total: 0, overlong: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if !self.overlong {
            self.head.extend_from_slice(bytes);
            if self.head.len() <= self.keep {
                return;
            }
            self.overlong = true;
            let end = END.min(self.keep / 2);
            self.tail = self.head.split_off(self.head.len() - end).into();
            self.head.truncate(end);
            self.head.shrink_to_fit();
            return;
        }
        self.tail.extend(bytes);
        let excess = self.tail.len().saturating_sub(self.head.len());
        self.tail.drain(..excess);
    }

    pub(super) fn bytes(mut self) -> Vec<u8> {
        if self.overlong {
            let missing = self.total - (self.head.len() + self.tail.len()) as u64;
            self.head.extend_from_slice(format!("\n[... {missing} bytes are left out here ...]\n").as_bytes());
        }
        self.head.extend(self.tail);
        self.head
    }
}
