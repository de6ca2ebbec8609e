//! Modules about network connections, and their common code.

pub(crate) mod address;
mod connections;
pub(crate) mod resolve;
pub mod wait_for;
