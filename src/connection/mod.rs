//! Ways to a host: SSH, and this machine itself. Each runs commands there and gives their streams; what runs is the executor's matter.

mod duplex;
pub mod host_keys;
mod local;
pub(crate) mod open_files;
pub mod relay;
mod ssh;
mod target;

use std::pin::Pin;
use std::sync::Arc;

use windlass_ssh::Connector;

pub use duplex::{Duplex, Input, Output};
pub(crate) use ssh::destination as ssh_destination;
pub use target::{Kind, Target};
pub use windlass_ssh::{Exit, HostKeyChecking, Output as Piece, Secret};

/// A future of a [`Connection`]'s method.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An established way to a host.
pub trait Connection: Send + Sync {
    /// Runs a shell command, with a terminal in raw mode if `pty` is set and the connection has such.
    fn shell<'a>(&'a self, command: &'a str, pty: bool) -> Pending<'a, Result<Duplex, Error>>;

    /// Starts an executor that need not be pushed, as this very program contains it; `word` follows its begin marker.
    /// `None` where one has to be pushed.
    fn resident_executor(&self, word: &str) -> Option<Result<Duplex, Error>>;

    /// The connection is gone.
    fn is_closed(&self) -> bool;

    /// Why the connection is gone, as a part of a sentence.
    fn lost_reason(&self) -> String;

    /// The host answers with another key than the known one: passwords may not be sent there.
    fn has_changed_host_key(&self) -> bool {
        false
    }

    /// Something the user should know about this connection.
    fn warning(&self) -> Option<String>;

    /// Bytes sent and received, as they are on the wire.
    fn wire_bytes(&self) -> (u64, u64);

    /// Ends the connection.
    fn close(&self) -> Pending<'_, ()>;
}

/// Why there is no way to the host.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// SSH says why.
    #[error(transparent)]
    Ssh(#[from] windlass_ssh::Error),
    /// A process on this machine could not be started.
    #[error("`{program}` could not be started on this machine: {reason}")]
    Process {
        /// What was to be started.
        program: String,
        /// The system's answer.
        reason: String,
    },
}

impl Error {
    /// The server refused the credentials, which must not be repeated quickly.
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::Ssh(error) if error.is_authentication())
    }

    /// The server allows no further channel on this connection.
    pub fn is_channel_refused(&self) -> bool {
        matches!(self, Self::Ssh(windlass_ssh::Error::ChannelRefused { .. }))
    }
}

/// Connects to a target.
pub async fn connect(target: &Target, connector: &Connector) -> Result<Arc<dyn Connection>, Error> {
    match target.kind {
        Kind::Ssh => ssh::connect(target, connector).await,
        Kind::Local => {
            tracing::debug!(host = target.name, "ESTABLISH LOCAL CONNECTION");
            Ok(Arc::new(local::Local))
        }
    }
}
