//! Ansible inventories and host patterns.
//!
//! [`Inventory::load`] reads sources (INI and YAML files, host lists, scripts, directories) into hosts and groups;
//! [`Inventory::matching`] answers host patterns; [`Inventory::layers`] gives the variables of a host, lowest
//! precedence first, each with where it was written.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod address;
mod change;
mod error;
pub mod export;
mod files;
mod ini;
mod layers;
mod literal;
mod load;
mod model;
mod pattern;
mod range;
mod script;
mod step;
mod words;
mod yaml;

pub use error::{Error, Warning};
pub use layers::{Layer, LayerOrigin, Place};
pub use literal::python_literal;
pub use load::{DirectoryFilter, LoadOptions};
pub use model::{Group, Host, HostName, Inventory};
pub use pattern::{Matches, split_pattern};
