//! `windlass serve` over journals of real runs: who may read and start, what pages show, and what hostile data and
//! forms cannot do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking, and says why")]

mod access;
mod attacks;
mod desk;
mod ends;
mod live;
#[path = "../common/page.rs"]
mod page;
mod pages;
#[path = "../common/project.rs"]
mod project;
mod site;
mod starting;
mod users;
