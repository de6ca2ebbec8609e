//! Ansible inventories and host patterns.
//!
//! [`Inventory::load`] reads sources into hosts and groups: INI, YAML and TOML files, host lists, scripts,
//! `constructed` and directories. [`Inventory::matching`] resolves host patterns. [`Inventory::layers`] returns the
//! variables of a host with their positions, lowest precedence first.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod address;
mod change;
mod constructed;
mod error;
pub mod export;
mod expressions;
mod files;
mod foreign;
mod generator;
mod host_list;
mod ini;
mod layers;
mod literal;
mod load;
mod model;
mod names;
mod pattern;
mod places;
mod plugin;
mod range;
mod script;
mod step;
mod subset;
mod toml;
mod words;
mod yaml;

pub use address::parse as parse_address;
pub use error::{Error, Problem, Warning};
pub use expressions::Expressions;
pub use files::PluginVars;
pub use foreign::{Configured, ForeignInventory, ForeignPlugins, ForeignVars, VarsOwner};
pub use layers::{Layer, LayerOrigin, Place};
pub use literal::python_literal;
pub use load::{DirectoryFilter, LoadOptions};
pub use model::{Group, Host, HostName, Inventory};
pub use names::GroupNames;
pub use pattern::{Matches, limit_files, split_pattern};
pub use places::{Membership, Repeated, Replaced};
pub use subset::sources_included_by;
