//! Modules for version control.

pub mod git;
pub mod git_config;
#[cfg(feature = "all")]
pub mod subversion;
