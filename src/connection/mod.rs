//! Connections to hosts: over SSH, to this machine, or through a program of it. They run commands and provide their
//! streams; `executor` decides which commands.

mod duplex;
mod exec;
mod local;
pub(crate) mod open_files;
pub mod relay;
mod ssh;
mod target;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use windlass_ssh::Connector;

pub(crate) use duplex::GRACE;
pub use duplex::{Duplex, Input, Output};
pub(crate) use local::GUARD_COMMAND;
pub(crate) use ssh::destination as ssh_destination;
pub use target::{Kind, Target};
pub use windlass_ssh::{Exit, HostKeyChecking, Output as Piece, Secret, Signal};

/// A future of a [`Connection`]'s method.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An established connection to a host.
pub trait Connection: Send + Sync {
    /// Runs a shell command. `pty` requests a terminal in raw mode, where the connection supports one.
    fn shell<'a>(&'a self, command: &'a str, pty: bool) -> Pending<'a, Result<Duplex, Error>>;

    /// Starts the executor contained in this program, which need not be pushed; `word` follows its begin marker.
    /// Returns `None` where one has to be pushed.
    fn resident_executor(&self, _word: &str) -> Option<Result<Duplex, Error>> {
        None
    }

    /// Whether the connection is lost.
    fn is_closed(&self) -> bool {
        false
    }

    /// Reason for the loss, as part of a sentence.
    fn lost_reason(&self) -> String;

    /// Whether the host presents another key than the known one; then no password may be sent.
    fn has_changed_host_key(&self) -> bool {
        false
    }

    /// Address of the host, if the connection leads there directly.
    fn address(&self) -> Option<IpAddr> {
        None
    }

    /// Warning to the user about this connection.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Bytes sent and received on the wire.
    fn wire_bytes(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Closes the connection.
    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }
}

/// Reason why a connection failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An error of SSH.
    #[error(transparent)]
    Ssh(#[from] windlass_ssh::Error),
    /// A process failed to start on this machine.
    #[error("`{program}` could not be started on this machine: {reason}")]
    Process {
        /// Name of the missing program.
        program: String,
        /// The system's error.
        reason: String,
    },
}

impl Error {
    /// Whether the server refused the credentials; repeating them quickly must be avoided.
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::Ssh(error) if error.is_authentication())
    }

    /// Whether the server allows no further channel on this connection.
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
        Kind::Exec => {
            tracing::debug!(host = target.name, "ENTER with `{}`", target.exec.join(" "));
            Ok(Arc::new(exec::Exec::new(target)))
        }
    }
}
