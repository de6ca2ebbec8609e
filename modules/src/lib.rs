//! The built-in modules, and the executor that runs them on a host.
//!
//! A module is one file: its [`Spec`] (options, documentation, examples), and a [`Module::plan`] that reads the host
//! and decides on the changes. The plan carries the change as a closure, which check mode does not call. So check mode
//! and diff always match the real change.
//!
//! A new module is one file and one line in [`registry`].

// Code that only the other modules use.
#![cfg_attr(not(feature = "all"), allow(dead_code))]

pub mod accounts;
#[cfg(feature = "all")]
pub mod archive;
mod args;
mod become_user;
pub mod commands;
#[cfg(feature = "all")]
pub mod crypto;
#[cfg(feature = "all")]
pub mod docker;
pub mod files;
pub mod foreign;
mod host;
mod host_lock;
#[cfg(feature = "all")]
pub mod http;
mod invocation;
mod job_files;
mod lock;
mod module;
pub mod net;
mod privacy;
pub mod process;
pub mod registry;
#[cfg(feature = "all")]
pub mod repositories;
mod run;
mod secrets;
mod serve;
mod spec;
#[cfg(feature = "all")]
pub mod storage;
pub mod system;
mod terminal;
pub mod text;
pub mod version_control;

pub mod facts;
#[cfg(feature = "all")]
pub mod kubernetes;
pub mod languages;
pub mod ping;

pub use args::{Args, SECRET, type_fault};
pub use become_user::become_command;
pub use host::{Content, Host, Sink};
pub use invocation::{has_secrets, hide_secrets, invocation, secret_values};
pub use module::{Diff, Failure, Module, Outcome, Plan};
pub use privacy::refuse_inspection;
pub use run::run;
pub use secrets::is_token;
pub use serve::{ServeError, serve};
pub use spec::{Check, Form, Kind, Opt, Return, Spec};

/// A JSON object in insertion order.
pub type Map = serde_json::Map<String, serde_json::Value>;
