//! What is not ours: modules of a project, its roles and its collections, in any language, and what Python modules need of an
//! ansible-core on the control machine.
//!
//! A module is found by [`Modules`] where Ansible would find it, read and packed once ([`Package`]), and run by the executor.

mod ansible_core;
mod finder;
mod groups;
mod imports;
mod listing;
mod module;
mod module_utils;
mod package;
mod plugins;
mod resolve;
mod routing;
mod style;

pub use ansible_core::AnsibleCore;
pub use finder::{Modules, ModulesOptions};
pub use module::{ForeignModule, Origin, Resolution};
pub use package::Package;
pub use plugins::{PythonPlugins, unusable};
pub use style::Style;
