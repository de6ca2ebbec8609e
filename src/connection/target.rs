//! The host of a connection with all that distinguishes one connection from another. It is the key of the pool.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_ssh::{HostKeyChecking, Secret};

/// Type of a connection (`ansible_connection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// SSH.
    Ssh,
    /// This machine.
    Local,
    /// A program of this machine that runs commands on the host, such as `docker exec`.
    Exec,
}

impl Kind {
    /// Name of the connection.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ssh => "ssh",
            Kind::Local => "local",
            Kind::Exec => "exec",
        }
    }
}

/// A host with everything that determines its connection: variables, keywords and settings. Equal targets share a
/// connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Name in the inventory. It takes part in equality, so each host of the inventory has its own connection.
    pub name: String,
    /// Type of the connection.
    pub kind: Kind,
    /// `ansible_host`, or the inventory name.
    pub host: String,
    /// `ansible_port`; `None` leaves it to ssh_config.
    pub port: Option<u16>,
    /// `ansible_user`; `None` leaves it to ssh_config.
    pub user: Option<String>,
    /// `ansible_password`.
    pub password: Option<Secret>,
    /// `ansible_ssh_private_key_file`.
    pub private_key_file: Option<PathBuf>,
    /// Passphrase of that key.
    pub private_key_passphrase: Option<Secret>,
    /// Words of `ansible_ssh_args`, `ansible_ssh_common_args` and `ansible_ssh_extra_args`, in this order.
    pub ssh_arguments: Vec<String>,
    /// `None` leaves it to ssh_config; `ansible_host_key_checking: false` is [`HostKeyChecking::No`].
    pub host_key_checking: Option<HostKeyChecking>,
    /// `ansible_timeout`: time limit of the TCP connection, and of the server's banner; `None` leaves it to ssh_config.
    pub connect_timeout: Option<Duration>,
    /// `ansible_ssh_retries`: number of further attempts to connect; `None` retries only failures that occur
    /// immediately.
    pub retries: Option<u32>,
    /// `ansible_remote_tmp`: folder for the executor on the host, if programs may be executed there.
    pub remote_tmp: String,
    /// Program with arguments that runs a command on the host, such as `docker exec -i web` ([`Kind::Exec`]).
    pub exec: Vec<String>,
    /// Warning for a user to whom that command cannot switch.
    pub exec_warning: Option<String>,
    /// `windlass_peer_address`: address by which other hosts reach this one, if it is not that of the connection.
    pub peer_address: Option<IpAddr>,
}

impl Target {
    /// A target of this name and kind, everything else left to defaults.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        let name = name.into();
        Self {
            host: name.clone(),
            name,
            kind,
            port: None,
            user: None,
            password: None,
            private_key_file: None,
            private_key_passphrase: None,
            ssh_arguments: Vec::new(),
            host_key_checking: None,
            connect_timeout: None,
            retries: None,
            remote_tmp: "~/.ansible/tmp".to_owned(),
            exec: Vec::new(),
            exec_warning: None,
            peer_address: None,
        }
    }
}
