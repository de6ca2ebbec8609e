//! Modules that run commands: `command`, `shell`, `script`, and `async_status`, which asks for one that runs by itself.

pub mod async_status;
pub mod command;
mod execution;
pub mod expect;
pub mod script;
pub mod shell;
mod words;

pub use words::split;
