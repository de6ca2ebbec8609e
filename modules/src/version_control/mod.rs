//! Modules that keep copies of repositories.

pub mod git;
pub mod git_config;
pub mod subversion;
