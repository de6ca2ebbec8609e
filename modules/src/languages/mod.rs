//! Modules that drive the package managers of programming languages.

pub mod pip;
