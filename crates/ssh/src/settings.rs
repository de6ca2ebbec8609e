//! Input of a connection: its destination, the settings that outrank ssh_config, and the deadlines of its phases.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, HostKeyChecking, Secret, names};

/// Host to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// A name, an address or an ssh_config alias.
    pub host: String,
    /// Port; `None` takes it from ssh_config.
    pub port: Option<u16>,
    /// Remote user; `None` takes it from ssh_config.
    pub user: Option<String>,
}

impl Destination {
    /// Fails if a name is more than a name: a shell, ssh or known_hosts would interpret it.
    pub fn check(&self) -> Result<(), Error> {
        let user = || self.user.as_deref().map_or(Ok(()), names::check_user);
        names::check_host(&self.host).and_then(|()| user()).map_err(Error::Name)
    }
}

/// Provides the passphrase of a private key file. Called once per key on a thread that may block, so it may prompt a
/// person.
pub type PassphraseSource = Arc<dyn Fn(&Path) -> Option<Secret> + Send + Sync>;

/// Connection settings. They override `arguments`, which override the ssh_config files.
#[derive(Clone, Default)]
pub struct Settings {
    /// Options in the syntax of ssh's command line (`-o`, `-J`, `-F`, `-i`, `-p`, `-l`).
    pub arguments: Vec<String>,
    /// Private key to offer first.
    pub identity_file: Option<PathBuf>,
    /// Password of the remote user.
    pub password: Option<Secret>,
    /// Source of passphrases for private keys.
    pub passphrase: Option<PassphraseSource>,
    /// Host key policy; `None` takes it from ssh_config, whose default is `ask`.
    pub host_key_checking: Option<HostKeyChecking>,
    /// Deadline of the TCP connection, and then of the server's banner; `None` takes it from ssh_config, default 10 s.
    pub connect_timeout: Option<Duration>,
    /// Number of retries after a failed connection. `None` retries twice, but not after a passed deadline.
    pub retries: Option<u32>,
    /// Deadlines of the other phases.
    pub deadlines: Deadlines,
    /// The ssh_config files to read.
    pub config_files: ConfigFiles,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Settings").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// Deadlines of the phases after the TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Key exchange, from the server's banner on.
    pub key_exchange: Duration,
    /// Authentication with all its attempts; servers with slow PAM or DNS take many seconds.
    pub authentication: Duration,
    /// Opening of a channel.
    pub channel: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            key_exchange: Duration::from_secs(30),
            authentication: Duration::from_secs(60),
            channel: Duration::from_secs(30),
        }
    }
}

/// The ssh_config files to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ConfigFiles {
    /// `~/.ssh/config` and `/etc/ssh/ssh_config`.
    #[default]
    Standard,
    /// No files.
    None,
}
