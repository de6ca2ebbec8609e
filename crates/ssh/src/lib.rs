//! SSH transport: connections, host keys, ssh_config.
//!
//! [`Connector::connect`] reads ssh_config and known_hosts as OpenSSH does. It reaches the host directly, through jump
//! hosts or with a ProxyCommand. It judges the host key before it sends anything, and then authenticates.
//! [`Session::exec`] runs commands.
//!
//! Every phase has its own deadline, and every [`Error`] is a sentence that identifies its cause.

mod account;
mod algorithms;
mod attempts;
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
mod names;
mod openings;
mod pattern;
mod replaced;
mod resolved;
mod scan;
mod session;
mod settings;
mod stream;
mod user;

pub use channel::{Channel, ChannelInput, ChannelOutput, Exit, Output, Signal};
pub use config::{HostKeyChecking, duration};
pub use connect::{Connector, connect};
pub use error::{Error, Phase, PresentedKey};
pub use host_key::Verdict;
pub use resolved::{Reached, reached};
pub use scan::HostKey;
pub use session::Session;
pub use settings::{ConfigFiles, Deadlines, Destination, PassphraseSource, Settings};
pub use user::{HostKeyUser, Pending};
pub use windlass_secret::Secret;
