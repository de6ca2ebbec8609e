//! Modules that run commands: `command`, `shell`, `script` and `expect`, and `async_status` for background jobs.

pub mod async_status;
pub mod command;
mod execution;
pub mod expect;
pub mod script;
pub mod shell;
mod words;

pub use words::split;
