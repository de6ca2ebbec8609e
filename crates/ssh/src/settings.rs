use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{HostKeyChecking, Secret};

/// Whom to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// A name, an address or an alias of ssh_config.
    pub host: String,
    /// The port, if it does not come from ssh_config.
    pub port: Option<u16>,
    /// The remote user, if it does not come from ssh_config.
    pub user: Option<String>,
}

/// Answers for the passphrase of a private key file. It may ask a person: it is called on a thread that may block, and once per key.
pub type PassphraseSource = Arc<dyn Fn(&Path) -> Option<Secret> + Send + Sync>;

/// How to connect. What is given here wins over `arguments`, and those win over the ssh_config files.
#[derive(Clone, Default)]
pub struct Settings {
    /// Options as on ssh's command line (`-o`, `-J`, `-F`, `-i`, `-p`, `-l`).
    pub arguments: Vec<String>,
    /// A private key to offer first.
    pub identity_file: Option<PathBuf>,
    /// The password of the remote user.
    pub password: Option<Secret>,
    /// Where passphrases of private keys come from.
    pub passphrase: Option<PassphraseSource>,
    /// The policy for host keys, if it does not come from ssh_config (`ask` there by default).
    pub host_key_checking: Option<HostKeyChecking>,
    /// The deadline of the TCP connection, if it does not come from ssh_config (10 s by default).
    pub connect_timeout: Option<Duration>,
    /// How often a connection that could not be made is tried again.
    pub retries: u32,
    /// The deadlines of the other phases.
    pub deadlines: Deadlines,
    /// Which ssh_config files are read.
    pub config_files: ConfigFiles,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Settings").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// How long the phases after the TCP connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// The server's banner and the key exchange.
    pub handshake: Duration,
    /// The authentication with all its attempts; servers with slow PAM or DNS take many seconds.
    pub authentication: Duration,
    /// The opening of a channel.
    pub channel: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            authentication: Duration::from_secs(60),
            channel: Duration::from_secs(30),
        }
    }
}

/// Which ssh_config files are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ConfigFiles {
    /// `~/.ssh/config` and `/etc/ssh/ssh_config`.
    #[default]
    Standard,
    /// None at all.
    None,
}
