//! A running command: what it is fed, what it writes, how it ends.

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
    half: ChannelWriteHalf<Msg>,
}

/// What a command writes and how it ends, in the order it arrives.
#[derive(Debug)]
pub struct ChannelOutput {
    half: ChannelReadHalf,
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
        let (read, write) = channel.split();
        Self { input: ChannelInput { half: write }, output: ChannelOutput { half: read } }
    }
}

impl ChannelInput {
    /// Sends bytes; waits while the host does not take them. `false` once the connection is gone.
    pub async fn send(&self, bytes: Vec<u8>) -> bool {
        self.half.data_bytes(bytes).await.is_ok()
    }

    /// Ends the standard input.
    pub async fn finish(&self) {
        // An error means that the connection is gone, and with it the input.
        let _ = self.half.eof().await;
    }

    /// Closes the channel; sshd sends the command a hangup.
    pub async fn close(&self) {
        // As above.
        let _ = self.half.close().await;
    }
}

impl ChannelOutput {
    /// The next piece; `None` once the channel is closed or the connection lost.
    pub async fn next(&mut self) -> Option<Output> {
        loop {
            return Some(match self.half.wait().await? {
                ChannelMsg::Data { data } => Output::Stdout(data.into()),
                ChannelMsg::ExtendedData { data, .. } => Output::Stderr(data.into()),
                ChannelMsg::ExitStatus { exit_status } => Output::Exit(Exit::Status(exit_status)),
                ChannelMsg::ExitSignal { signal_name, .. } => Output::Exit(Exit::Signal(signal_text(&signal_name))),
                ChannelMsg::Failure => Output::Refused,
                ChannelMsg::Close => return None,
                _ => continue,
            });
        }
    }
}

fn signal_text(signal: &russh::Sig) -> String {
    match signal {
        russh::Sig::Custom(name) => name.clone(),
        signal => format!("{signal:?}"),
    }
}
