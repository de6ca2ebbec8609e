//! Modules about connections, and what they share.

mod connections;
pub(crate) mod resolve;
pub mod wait_for;
