//! Reads playbooks, task files and roles into plays: checks keywords, expands imports and roles.
//!
//! Names of imports and roles may be templates, so it uses the variables that are known before any host.

mod before_hosts;
mod import;
mod inclusion;
mod load;
mod role;
mod tags;
mod task;

pub use before_hosts::collection_playbook;
pub(crate) use import::NAMES as IMPORT_NAMES;
pub use load::{Loader, TaskFile};
pub use role::RoleRequest;
pub(crate) use role::argument_specs;
pub(crate) use task::several_modules;
