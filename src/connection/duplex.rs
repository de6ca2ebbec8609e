use std::io;
use std::os::unix::process::ExitStatusExt as _;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use windlass_ssh::{ChannelInput, ChannelOutput, Exit, Output as Piece};

/// The streams of a running command.
#[derive(Debug)]
pub struct Duplex {
    /// Its standard input.
    pub input: Input,
    /// Its output and its end.
    pub output: Output,
}

/// The standard input of a command.
#[derive(Debug)]
pub enum Input {
    /// Of a channel of SSH.
    Channel(ChannelInput),
    /// Of a process on this machine; `None` once it has ended.
    Process(Option<ChildStdin>),
}

/// What a command writes and how it ends.
#[derive(Debug)]
pub enum Output {
    /// Of a channel of SSH.
    Channel(ChannelOutput),
    /// Of a process on this machine.
    Process(mpsc::Receiver<Piece>),
}

impl Input {
    /// Sends bytes and waits while they are not taken; `false` once nobody takes them any more.
    pub async fn send(&mut self, bytes: Vec<u8>) -> bool {
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
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Piece> {
        match self {
            Self::Channel(channel) => channel.next().await,
            Self::Process(pieces) => pieces.recv().await,
        }
    }

    /// Has the command terminated if this is dropped before its end.
    pub fn terminate_on_drop(&mut self) {
        match self {
            Self::Channel(channel) => channel.terminate_on_drop(),
            // Processes on this machine are always ended.
            Self::Process(_) => {}
        }
    }
}

/// Starts a process whose three streams are pipes, in a group of its own: an interrupt at the terminal is for this program alone, which then
/// ends its processes in order.
pub(super) fn process(mut command: Command) -> io::Result<Duplex> {
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let stdin = child.stdin.take().ok_or_else(|| io::Error::other("it has no standard input"))?;
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(watch(child, sender));
    Ok(Duplex { input: Input::Process(Some(stdin)), output: Output::Process(receiver) })
}

/// Passes on what a process writes and how it ends. When nobody listens any more, its group is told to end and it is killed.
async fn watch(mut child: Child, sender: mpsc::Sender<Piece>) {
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
            // An error means that nobody listens any more.
            let _ = sender.send(Piece::Exit(exit)).await;
        }
        () = sender.closed() => {
            let group = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
            if let Some(group) = group {
                // An error means that it has ended by itself.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            }
        }
    }
}

async fn pass_on(stream: Option<impl AsyncRead + Unpin>, sender: &mpsc::Sender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    let Some(mut stream) = stream else { return };
    loop {
        let mut buffer = Vec::with_capacity(32 << 10);
        match stream.read_buf(&mut buffer).await {
            Ok(1..) => {
                if sender.send(piece(buffer)).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
