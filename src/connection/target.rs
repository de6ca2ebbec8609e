use std::path::PathBuf;
use std::time::Duration;

use windlass_ssh::{HostKeyChecking, Secret};

/// How a host is reached (`ansible_connection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Over SSH.
    Ssh,
    /// On this machine.
    Local,
}

/// A host with everything that decides how it is reached, from variables, keywords and settings. Two targets that are equal share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The name in the inventory. It is part of what makes targets equal, so each host of the inventory has a connection of its own.
    pub name: String,
    /// How the host is reached.
    pub kind: Kind,
    /// `ansible_host`, or the name.
    pub host: String,
    /// `ansible_port`; `None` leaves it to ssh_config.
    pub port: Option<u16>,
    /// `ansible_user`; `None` leaves it to ssh_config.
    pub user: Option<String>,
    /// `ansible_password`.
    pub password: Option<Secret>,
    /// `ansible_ssh_private_key_file`.
    pub private_key_file: Option<PathBuf>,
    /// The passphrase of that key.
    pub private_key_passphrase: Option<Secret>,
    /// The words of `ansible_ssh_args`, `ansible_ssh_common_args` and `ansible_ssh_extra_args`, in this order.
    pub ssh_arguments: Vec<String>,
    /// `None` leaves it to ssh_config; `ansible_host_key_checking: false` is [`HostKeyChecking::No`].
    pub host_key_checking: Option<HostKeyChecking>,
    /// `ansible_timeout`: the deadline of the TCP connection; `None` leaves it to ssh_config.
    pub connect_timeout: Option<Duration>,
    /// `ansible_ssh_retries`: how often a connection that could not be made is tried again.
    pub retries: u32,
    /// `ansible_remote_tmp`: where the executor is kept on the host, if it may be executed there.
    pub remote_tmp: String,
}

impl Target {
    /// A target with nothing but its name and kind decided.
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
            retries: 0,
            remote_tmp: "~/.ansible/tmp".to_owned(),
        }
    }
}
