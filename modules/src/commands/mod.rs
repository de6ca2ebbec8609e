//! Modules that run commands: `command`, `shell`, `script`.

pub mod command;
mod execution;
pub mod script;
pub mod shell;
mod words;

pub use words::split;
