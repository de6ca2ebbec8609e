//! Modules of community.docker, against an engine that answers from a script and, if one is running, against a real
//! one.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../cases/mod.rs"]
mod cases;
mod fake;
mod real;
mod scripted;
