//! A running command: what it is fed, what it writes, how it ends.

use std::sync::Arc;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};

/// A command on the host.
#[derive(Debug)]
pub struct Channel {
    /// Its standard input.
    pub input: ChannelInput,
    /// Its output and its end.
    pub output: ChannelOutput,
}

/// The standard input of a command.
#[derive(Debug)]
pub struct ChannelInput {
    half: Arc<ChannelWriteHalf<Msg>>,
}

/// What a command writes and how it ends, in the order it arrives. Dropping it before the end closes the channel.
#[derive(Debug)]
pub struct ChannelOutput {
    half: ChannelReadHalf,
    write_half: Arc<ChannelWriteHalf<Msg>>,
    ended: bool,
    terminate: bool,
}

/// A piece of what a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes of its standard output.
    Stdout(Vec<u8>),
    /// Bytes of its standard error.
    Stderr(Vec<u8>),
    /// It has ended.
    Exit(Exit),
    /// The server refused to run it.
    Refused,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With an exit status.
    Status(u32),
    /// By a signal, by its name without `SIG`.
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
    /// Sends bytes; waits while the host does not take them, which may be for ever if it has closed the channel: its output should be read at
    /// the same time, and tells its end. `false` once the connection is gone.
    pub async fn send(&self, bytes: Vec<u8>) -> bool {
        self.half.data_bytes(bytes).await.is_ok()
    }

    /// Ends the standard input.
    pub async fn finish(&self) {
        // An error means that the connection is gone, and with it the input.
        let _ = self.half.eof().await;
    }
}

impl ChannelOutput {
    /// The next piece; `None` once the channel is closed or the connection lost.
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

    /// Has the command sent SIGTERM if this is dropped before its end. Without that it only loses its streams.
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
            // Errors mean that the connection is gone, and the channel with it.
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
