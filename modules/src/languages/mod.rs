//! Modules for package managers of programming languages.

pub mod gem;
pub mod npm;
pub mod pip;
