//! Streams of a running command, over SSH or on this machine, as one type for the executor's client.
//!
//! Processes on this machine run in a process group of their own and end with the controller.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use windlass_guard::Watched;
use windlass_protocol::Wiped;
use windlass_ssh::{ChannelInput, ChannelOutput, Exit, Output as Piece, Signal};

use super::Error;

/// Time that a command has between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The streams of a running command.
#[derive(Debug)]
pub struct Duplex {
    /// Standard input of the command.
    pub input: Input,
    /// Output of the command, and its end.
    pub output: Output,
}

/// The standard input of a command.
#[derive(Debug)]
pub enum Input {
    /// Input of an SSH channel.
    Channel(ChannelInput),
    /// Input of a process on this machine; `None` once it has ended.
    Process(Option<ChildStdin>),
}

/// Output and exit status of a command.
#[derive(Debug)]
pub enum Output {
    /// Output of an SSH channel.
    Channel(ChannelOutput),
    /// Output of a process on this machine, and its process group.
    Process(mpsc::Receiver<Piece>, Option<Pid>),
}

impl Input {
    /// Sends bytes, waiting while the command does not read. Returns `false` once the input is closed.
    /// They are zeroed afterwards, since they may hold a secret.
    pub async fn send(&mut self, bytes: impl Into<Wiped>) -> bool {
        let bytes: Wiped = bytes.into();
        match self {
            Self::Channel(channel) => channel.send(bytes).await,
            Self::Process(Some(stdin)) => stdin.write_all(&bytes).await.is_ok(),
            Self::Process(None) => false,
        }
    }

    /// Ends the input.
    pub async fn finish(&mut self) {
        match self {
            Self::Channel(channel) => channel.finish().await,
            // Dropping the pipe closes it.
            Self::Process(stdin) => *stdin = None,
        }
    }
}

impl Output {
    /// Next piece of output; `None` at the end.
    pub async fn next(&mut self) -> Option<Piece> {
        match self {
            Self::Channel(channel) => channel.next().await,
            Self::Process(pieces, _) => pieces.recv().await,
        }
    }

    /// Sends a signal to the command and its children.
    pub async fn signal(&self, signal: Signal) {
        match self {
            // An error means that the connection is lost.
            Self::Channel(channel) => _ = channel.signal(signal).await,
            Self::Process(_, group) => send(*group, signal),
        }
    }

    /// Terminates the command if this is dropped before its end.
    pub fn terminate_on_drop(&mut self) {
        match self {
            Self::Channel(channel) => channel.terminate_on_drop(),
            // Dropping always ends processes on this machine.
            Self::Process(..) => {}
        }
    }
}

/// Starts a process with three pipes in a process group of its own. An interrupt at the terminal then reaches only this
/// program, which ends its processes in order. If it dies without doing so, its guard ends them.
pub(super) fn process(command: Command) -> Result<Duplex, Error> {
    let start = windlass_guard::start();
    started(command, |child| group_of(child).map(|group| start.watch_group(group)))
}

/// Like [`process`], for a process that ends when its input does.
pub(super) fn process_unguarded(command: Command) -> Result<Duplex, Error> {
    started(command, |_| None)
}

fn started(mut command: Command, guarded: impl FnOnce(&Child) -> Option<Watched>) -> Result<Duplex, Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| Error::Process { program, reason: error.to_string() };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.process_group(0).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => return Err(failed(error)),
    };
    let watched = guarded(&child);
    let Some(stdin) = child.stdin.take() else { return Err(failed(io::Error::other("it has no standard input"))) };
    let (sender, receiver) = mpsc::channel(16);
    let group = group_of(&child);
    tokio::spawn(watch(child, sender, watched));
    Ok(Duplex { input: Input::Process(Some(stdin)), output: Output::Process(receiver, group) })
}

fn group_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

fn send(group: Option<Pid>, signal: Signal) {
    let signal = match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    if let Some(group) = group {
        // An error means that all its processes have ended.
        let _ = kill_process_group(group, signal);
    }
}

/// Forwards a process's output and exit status. Once the receiver is dropped, ends its group: SIGTERM, then SIGKILL.
async fn watch(mut child: Child, sender: mpsc::Sender<Piece>, _watched: Option<Watched>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let pieces = async {
        tokio::join!(pass_on(stdout, &sender, Piece::Stdout), pass_on(stderr, &sender, Piece::Stderr));
        child.wait().await
    };
    tokio::select! {
        status = pieces => {
            let exit = match status {
                Ok(status) => match (status.code(), status.signal()) {
                    (Some(code), _) => Exit::Status(code.unsigned_abs()),
                    (None, signal) => Exit::Signal(signal.unwrap_or_default().to_string()),
                },
                Err(error) => Exit::Signal(error.to_string()),
            };
            // An error means that the receiver was dropped.
            let _ = sender.send(Piece::Exit(exit)).await;
        }
        () = sender.closed() => {
            let group = group_of(&child);
            send(group, Signal::Term);
            if timeout(GRACE, child.wait()).await.is_err() {
                send(group, Signal::Kill);
            }
        }
    }
}

async fn pass_on(stream: Option<impl AsyncRead + Unpin>, sender: &mpsc::Sender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    let Some(mut stream) = stream else { return };
    // Most pieces are small, and all memory is zeroed when it is freed: a buffer for each would cost more than a copy.
    let mut buffer = Vec::with_capacity(32 << 10);
    loop {
        buffer.clear();
        match stream.read_buf(&mut buffer).await {
            Ok(1..) => {
                if sender.send(piece(buffer.to_vec())).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
