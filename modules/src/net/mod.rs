//! Modules about network connections, and their common code.

mod connections;
pub(crate) mod resolve;
pub mod wait_for;
