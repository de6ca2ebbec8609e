//! Throwaway hosts on this machine: real systemd, real sshd, no Python, in systemd-nspawn containers on a bridge.
//!
//! The demo, the tests and rehearsals of upgrades run against them. [`up`] starts a lab, [`Lab`] is what one does with it, [`down`] removes it
//! with everything it made. Every host has an overlay over one cached Debian base, control groups of its own, host keys of its own, and an
//! address on the bridge; the hosts reach each other and this machine, and nothing else.
//!
//! No crash leaves anything that [`down`] does not find: the record is written before a thing is made, mounts live in the mount namespace
//! of the processes that need them, and processes are found through their control groups.

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
pub use requirements::{Missing, missing};
pub use state::Node;
