//! Variables and their precedence.
//!
//! Every run has one [`World`]: the inventory and the state of each host. It is immutable; the strategy creates a
//! successor with the changed hosts. So a running task keeps seeing the state it started with, and no lock is held
//! while templates run.

mod answers;
mod base_settings;
mod cache;
mod connection;
mod exec;
mod expressions;
mod facts;
mod hostvars;
pub(crate) mod magic;
mod merge;
mod ours;
pub(crate) mod reserved;
mod scope;
pub(crate) mod secrecy;
mod world;

pub use answers::{Answer, Answers};
pub(crate) use base_settings::BaseSettings;
pub use cache::FactCache;
pub use connection::{Choice, ConnectionVariables, Source, connection_choices, connection_variables};
pub(crate) use connection::{boolean, float, given, is_boolean, number, render, seconds, unless_omitted};
pub use expressions::InventoryExpressions;
pub use facts::Facts;
pub(crate) use hostvars::variables_of;
pub(crate) use magic::ansible_version;
pub(crate) use merge::all as merged;
pub use scope::{Definition, Level, TaskScope};
pub(crate) use world::known_host;
pub use world::{FindPython, Given, HostList, HostState, PlayState, Run, Values, World};
