//! `windlass serve` over journals of real runs: who may read, what pages show, and what hostile data cannot do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking, and says why")]

mod access;
mod live;
#[path = "../common/page.rs"]
mod page;
mod pages;
#[path = "../common/project.rs"]
mod project;
mod site;
