//! Throwaway hosts on this machine: real systemd, real sshd and no Python, in systemd-nspawn containers on a bridge.
//!
//! The demo, the tests and rehearsals of upgrades use them. [`up`] starts a lab, [`Lab`] operates it, and [`down`]
//! removes it completely. Every host has an overlay over a cached Debian base, its own control groups and host keys,
//! and an address on the bridge. Hosts reach each other and this machine, but nothing else.
//!
//! [`down`] also cleans up after any crash. Resources are recorded before they are created, mounts live in the mount
//! namespace of the processes that need them, and control groups lead to all processes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod base;
mod cgroup;
mod command;
mod error;
mod inventory;
mod lab;
mod network;
mod node;
mod options;
mod requirements;
mod ssh;
mod state;
mod sysctl;
mod wait;

pub use error::Error;
pub use inventory::Format;
pub use lab::{Lab, NodeStatus, default_directory, down, up};
pub use options::{Mount, Network, Options, System, parse_size};
pub use requirements::{Base, Missing, missing};
pub use state::Node;
