//! A running command: its input, its output and its exit.

use std::sync::Arc;

use bytes::Bytes;
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};

/// A command on the host.
#[derive(Debug)]
pub struct Channel {
    /// Standard input of the command.
    pub input: ChannelInput,
    /// Output and exit of the command.
    pub output: ChannelOutput,
}

/// The standard input of a command.
#[derive(Debug)]
pub struct ChannelInput {
    half: Arc<ChannelWriteHalf<Msg>>,
}

/// Output and exit of a command, in the order of arrival. Dropping it before the exit closes the channel.
#[derive(Debug)]
pub struct ChannelOutput {
    half: ChannelReadHalf,
    write_half: Arc<ChannelWriteHalf<Msg>>,
    ended: bool,
    terminate: bool,
}

/// Event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes from standard output.
    Stdout(Vec<u8>),
    /// Bytes from standard error.
    Stderr(Vec<u8>),
    /// The command ended.
    Exit(Exit),
    /// The server refused to run the command.
    Refused,
}

/// Signal that ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, which a command may handle.
    Term,
    /// SIGKILL.
    Kill,
}

/// Exit of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// Exit status.
    Status(u32),
    /// Name of the terminating signal, without `SIG`.
    Signal(String),
}

impl Channel {
    pub(crate) fn new(channel: russh::Channel<Msg>) -> Self {
        let (half, write_half) = channel.split();
        let write_half = Arc::new(write_half);
        Self {
            input: ChannelInput { half: write_half.clone() },
            output: ChannelOutput { half, write_half, ended: false, terminate: false },
        }
    }
}

impl ChannelInput {
    /// Sends bytes and waits until the host accepts them; `false` once the connection is lost. If the host has closed
    /// the channel, it may wait for ever: read the output at the same time, which reports the exit.
    /// The bytes keep their type, which may zero them on drop.
    pub async fn send(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> bool {
        self.half.data_bytes(Bytes::from_owner(bytes)).await.is_ok()
    }

    /// Closes the standard input.
    pub async fn finish(&self) {
        // An error means that the connection is lost, and the input with it.
        let _ = self.half.eof().await;
    }
}

impl ChannelOutput {
    /// The next event; `None` once the channel is closed or the connection lost.
    pub async fn next(&mut self) -> Option<Output> {
        loop {
            let message = self.half.wait().await;
            return Some(match message {
                Some(ChannelMsg::Data { data }) => Output::Stdout(data.into()),
                Some(ChannelMsg::ExtendedData { data, .. }) => Output::Stderr(data.into()),
                Some(ChannelMsg::ExitStatus { exit_status }) => Output::Exit(Exit::Status(exit_status)),
                Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                    Output::Exit(Exit::Signal(signal_text(&signal_name)))
                }
                Some(ChannelMsg::Failure) => Output::Refused,
                Some(ChannelMsg::Close) | None => {
                    self.ended = true;
                    return None;
                }
                Some(_) => continue,
            });
        }
    }

    /// Sends a signal to the command; `false` once the connection is lost. The server drops it where the command runs
    /// as another user (RFC 4254 section 6.9).
    pub async fn signal(&self, signal: Signal) -> bool {
        let signal = match signal {
            Signal::Term => russh::Sig::TERM,
            Signal::Kill => russh::Sig::KILL,
        };
        self.write_half.signal(signal).await.is_ok()
    }

    /// Makes dropping this before the exit send SIGTERM to the command. Otherwise the command only loses its streams.
    pub fn terminate_on_drop(&mut self) {
        self.terminate = true;
    }
}

impl Drop for ChannelOutput {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.ended {
            return;
        }
        let (half, terminate) = (self.write_half.clone(), self.terminate);
        runtime.spawn(async move {
            // An error means that the connection is lost, and the channel with it.
            if terminate {
                let _ = half.signal(russh::Sig::TERM).await;
            }
            let _ = half.close().await;
        });
    }
}

fn signal_text(signal: &russh::Sig) -> String {
    match signal {
        russh::Sig::Custom(name) => name.clone(),
        signal => format!("{signal:?}"),
    }
}
