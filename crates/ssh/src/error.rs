//! Errors of connections. Their kind decides on another attempt and on the exit codes of `hostkeys`; their text is all
//! that a user sees.

use std::path::PathBuf;
use std::time::Duration;

/// Reason why an SSH session failed. Each message is a whole sentence that identifies the cause.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or option of the SSH configuration is invalid.
    #[error("{place}: {problem}")]
    Configuration {
        /// File and line, or option.
        place: String,
        /// Description of the problem.
        problem: String,
    },
    /// The name of the host or of the user has characters that a shell, ssh or known_hosts would interpret.
    #[error("{0}")]
    Name(String),
    /// The name has no address.
    #[error("the name `{host}` could not be resolved: {reason}; check ansible_host, /etc/hosts and the DNS")]
    Resolve {
        /// Name that has no address.
        host: String,
        /// The resolver's error.
        reason: String,
    },
    /// The TCP connection failed.
    #[error("no TCP connection to {peer}: {reason}")]
    Tcp {
        /// `host:port`.
        peer: String,
        /// The operating system's error.
        reason: String,
    },
    /// A phase exceeded its deadline.
    #[error("{peer} did not finish the {phase} within {} s", .after.as_secs())]
    Timeout {
        /// `host:port`.
        peer: String,
        /// Phase that was not finished.
        phase: Phase,
        /// Deadline that has passed.
        after: Duration,
    },
    /// The connection was closed before the server's SSH banner.
    #[error(
        "{peer} closed the connection before its SSH banner; sshd refuses connections under load (MaxStartups) or after \
         failed logins (PerSourcePenalties), or a firewall is in between"
    )]
    ClosedBeforeBanner {
        /// `host:port`.
        peer: String,
    },
    /// The peer is not an SSH server.
    #[error("{peer} does not speak SSH; it answered {answer:?}")]
    NotSsh {
        /// `host:port`.
        peer: String,
        /// Beginning of its answer.
        answer: String,
    },
    /// The key exchange failed.
    #[error("the key exchange with {peer} failed: {reason}")]
    KeyExchange {
        /// `host:port`.
        peer: String,
        /// The problem.
        reason: String,
        /// Whether the connection was merely cut, so that another attempt may succeed.
        transient: bool,
    },
    /// Client and server have no algorithm in common.
    #[error("the key exchange with {peer} failed: {reason}")]
    NoCommonAlgorithm {
        /// `host:port`.
        peer: String,
        /// Kind of algorithm without a match.
        reason: String,
    },
    /// The host's key is unknown, and the policy does not accept unknown keys.
    #[error(
        "the host key of {} is unknown: {} {}; no user name and no password was sent to it. Compare the fingerprint with the host's own and \
         add the key to {} with `windlass hostkeys pin` and the same inventory, or accept the keys of new hosts with `--accept-new-host-keys`",
        .0.host, .0.algorithm, .0.fingerprint, .0.file.display()
    )]
    HostKeyUnknown(Box<PresentedKey>),
    /// The user was asked about the host's key and did not confirm it.
    #[error(
        "the host key of {}, {} {}, was not confirmed; no user name and no password was sent to it",
        .0.host, .0.algorithm, .0.fingerprint
    )]
    HostKeyDeclined(Box<PresentedKey>),
    /// The host's key differs from the known one.
    #[error(
        "THE HOST KEY OF {} HAS CHANGED; no user name and no password was sent to it. It presents {} {}, but {}:{} expects {expected}. \
         Either the host was reinstalled, or someone is between you and it. If the new key is right, replace the known one with \
         `windlass hostkeys replace HOST` and the same inventory, or remove that line",
        .presented.host, .presented.algorithm, .presented.fingerprint, .presented.file.display(), .presented.line
    )]
    HostKeyChanged {
        /// The presented key, and the place of the known one.
        presented: Box<PresentedKey>,
        /// Algorithm and fingerprint of the known key.
        expected: String,
    },
    /// The host's key was revoked.
    #[error(
        "the host key of {}, {} {}, is revoked in {}:{}; no user name and no password was sent to it",
        .0.host, .0.algorithm, .0.fingerprint, .0.file.display(), .0.line
    )]
    HostKeyRevoked(Box<PresentedKey>),
    /// The RSA key of the host or of its authority is shorter than the configuration permits.
    #[error(
        "the host key of {}, {} {}, has {bits} bits, and RequiredRSASize is {least}; no user name and no password was sent to it",
        .presented.host, .presented.algorithm, .presented.fingerprint
    )]
    HostKeyShort {
        /// The presented key.
        presented: Box<PresentedKey>,
        /// Length of the key in bits.
        bits: u32,
        /// Least length in bits that is accepted.
        least: u32,
    },
    /// No authentication method worked.
    #[error("{user}@{peer} was refused: {tried}{hint}")]
    Authentication {
        /// The remote user.
        user: String,
        /// `host:port`.
        peer: String,
        /// Methods that were tried, and those the server accepts.
        tried: String,
        /// Remedy; empty or begins with a separator.
        hint: String,
    },
    /// A ProxyCommand could not be started, or ended immediately.
    #[error("the ProxyCommand `{command}` for {peer} failed: {reason}")]
    ProxyCommand {
        /// The command with its tokens replaced.
        command: String,
        /// `host:port`.
        peer: String,
        /// The problem.
        reason: String,
    },
    /// The jump host cannot be used.
    #[error("the jump host on the way to {peer} failed: {source}")]
    Jump {
        /// The final destination.
        peer: String,
        /// Error of the jump host.
        source: Box<Error>,
    },
    /// A jump host could not reach the next host.
    #[error("the jump host {jump} could not connect to {peer}: {reason}")]
    JumpRefused {
        /// The jump host.
        jump: String,
        /// `host:port` of the next host.
        peer: String,
        /// The jump host's answer.
        reason: String,
    },
    /// The server refused to open a channel.
    #[error("{peer} refused to open a session ({reason}); its MaxSessions may be reached")]
    ChannelRefused {
        /// `host:port`.
        peer: String,
        /// The server's answer.
        reason: String,
    },
    /// An established connection was lost.
    #[error("the connection to {peer} is lost: {reason}")]
    Lost {
        /// `host:port`.
        peer: String,
        /// Reason, as far as known.
        reason: String,
    },
}

impl Error {
    /// Whether a later attempt may succeed. Never true once the host key or a credential was judged.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Tcp { .. } | Self::ClosedBeforeBanner { .. } | Self::JumpRefused { .. } => true,
            Self::Timeout { phase, .. } => *phase != Phase::Authentication,
            Self::KeyExchange { transient, .. } => *transient,
            Self::Jump { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    /// Whether the server refused the credentials.
    pub fn is_authentication(&self) -> bool {
        match self {
            Self::Authentication { .. } => true,
            Self::Jump { source, .. } => source.is_authentication(),
            _ => false,
        }
    }

    /// Whether the host key was not accepted.
    pub fn is_host_key(&self) -> bool {
        match self {
            Self::HostKeyUnknown(_)
            | Self::HostKeyDeclined(_)
            | Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked(_)
            | Self::HostKeyShort { .. } => true,
            Self::Jump { source, .. } => source.is_host_key(),
            _ => false,
        }
    }
}

/// A key that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresentedKey {
    /// Name that was looked up.
    pub host: String,
    /// Algorithm of the key.
    pub algorithm: String,
    /// Fingerprint of the key.
    pub fingerprint: String,
    /// File with the deciding line, or the file the key would be written to.
    pub file: PathBuf,
    /// The deciding line; 0 if there is none.
    pub line: usize,
    /// The key itself.
    pub(crate) key: ssh_key::PublicKey,
}

/// Phases of a connection, each with its own deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Resolving the name and opening the TCP connection.
    Connect,
    /// Waiting for the server's first line.
    Banner,
    /// Exchanging keys.
    KeyExchange,
    /// Authenticating.
    Authentication,
    /// Opening a channel.
    Channel,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "TCP connection",
            Self::Banner => "SSH banner",
            Self::KeyExchange => "key exchange",
            Self::Authentication => "authentication",
            Self::Channel => "opening of a channel",
        })
    }
}
