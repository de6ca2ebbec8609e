//! Modules for version control.

pub mod git;
pub mod git_config;
pub mod subversion;
