//! How hosts are reached, and as whom tasks run there.

use std::path::PathBuf;
use std::time::Duration;

use super::{Config, seconds};
use crate::connection::Secret;
use crate::error::Result;

/// Settings of connections.
#[derive(Debug, Clone)]
pub struct ConnectSettings {
    /// Default connection type of hosts.
    pub transport: String,
    /// Login user; `None` leaves it to ssh_config.
    pub remote_user: Option<String>,
    /// SSH port; `None` leaves it to ssh_config.
    pub remote_port: Option<u16>,
    /// Private key for the login.
    pub private_key_file: Option<PathBuf>,
    /// Login password (`--ask-pass`).
    pub password: Option<Secret>,
    /// Time limit for connecting, in seconds.
    pub timeout: u64,
    /// Number of further attempts to connect.
    pub retries: Option<u32>,
    /// `ssh_args` of ansible.cfg.
    pub ssh_args: Option<String>,
    /// `ssh_common_args`.
    pub ssh_common_args: Option<String>,
    /// `ssh_extra_args`.
    pub ssh_extra_args: Option<String>,
    /// SSH options (`-o`) of the command line, which override all others.
    pub ssh_options: Vec<String>,
    /// Whether host keys are verified.
    pub host_key_checking: bool,
    /// Whether unknown host keys are accepted and added to known_hosts.
    pub accept_new_host_keys: bool,
    /// Directory for the executor on hosts.
    pub remote_tmp: Option<String>,
    /// Silence after which a host counts as lost; `None` means never.
    pub heartbeat_timeout: Option<Duration>,
    /// Maximum size of a file that a host may send (`fetch`), in bytes.
    pub max_fetch_size: u64,
    /// Whether hosts pass large files on to each other.
    pub peer_transfer: bool,
    /// Port on which a host listens to pass on a large file; 0 selects any free port.
    pub peer_port: u16,
}

impl ConnectSettings {
    pub(super) fn from_config(config: &Config) -> Result<ConnectSettings> {
        Ok(ConnectSettings {
            transport: config.get("transport").unwrap_or_else(|| "ssh".to_owned()),
            remote_user: config.get("remote_user"),
            remote_port: config.number("remote_port")?,
            private_key_file: config.get("private_key_file").map(|file| config.path(&file)),
            password: None,
            timeout: config.number("timeout")?.unwrap_or(10),
            retries: config.number("reconnection_retries")?,
            ssh_args: config.get("ssh_args"),
            ssh_common_args: config.get("ssh_common_args"),
            ssh_extra_args: config.get("ssh_extra_args"),
            ssh_options: Vec::new(),
            host_key_checking: config.bool("host_key_checking")?.unwrap_or(true),
            accept_new_host_keys: config.bool("accept_new_host_keys")?.unwrap_or(false),
            remote_tmp: config.get("remote_tmp"),
            heartbeat_timeout: seconds(config, "heartbeat_timeout", Duration::from_secs(120))?,
            max_fetch_size: config.number("max_fetch_size")?.unwrap_or(crate::executor::LARGEST_FILE),
            peer_transfer: config.bool("peer_transfer")?.unwrap_or(false),
            peer_port: config.number("peer_port")?.unwrap_or(0),
        })
    }
}

/// Settings of `become`.
#[derive(Debug, Clone)]
pub struct BecomeSettings {
    /// Whether to become another user (`--become`).
    pub enabled: bool,
    /// Default method.
    pub method: String,
    /// Default user.
    pub user: String,
    /// Program to use instead of the method's own.
    pub exe: Option<String>,
    /// Flags to use instead of the method's own.
    pub flags: Option<String>,
    /// Password (`--ask-become-pass`).
    pub password: Option<Secret>,
}

impl BecomeSettings {
    pub(super) fn from_config(config: &Config) -> Result<BecomeSettings> {
        Ok(BecomeSettings {
            enabled: config.bool("become")?.unwrap_or(false),
            method: config.get("become_method").unwrap_or_else(|| "sudo".to_owned()),
            user: config.get("become_user").unwrap_or_else(|| "root".to_owned()),
            exe: config.get("become_exe"),
            flags: config.get("become_flags"),
            password: None,
        })
    }
}
