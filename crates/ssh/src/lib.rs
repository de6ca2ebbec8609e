//! SSH transport: connections, host keys, ssh_config.
//!
//! [`Connector::connect`] reads ssh_config and known_hosts as OpenSSH does, reaches the host directly, through jump hosts or a ProxyCommand,
//! judges the host key before anything is sent, and proves who we are. [`Session::exec`] then runs commands.
//! Every phase has a deadline of its own, and every [`Error`] is a sentence that tells its cause apart from the others.

mod account;
mod algorithms;
mod authentication;
mod channel;
mod client;
mod config;
mod connect;
mod error;
mod host_key;
mod keys;
mod known_hosts;
mod known_lines;
mod pattern;
mod resolved;
mod scan;
mod session;
mod settings;
mod stream;
mod user;

pub use channel::{Channel, ChannelInput, ChannelOutput, Exit, Output};
pub use config::HostKeyChecking;
pub use connect::{Connector, connect};
pub use error::{Error, Phase, PresentedKey};
pub use host_key::Verdict;
pub use scan::HostKey;
pub use session::Session;
pub use settings::{ConfigFiles, Deadlines, Destination, PassphraseSource, Settings};
pub use user::{HostKeyUser, Pending};
pub use windlass_secret::Secret;
