//! Modules and plugins that are not built in: in a project, its roles and collections, in any language. Python modules
//! also need parts of an ansible-core on the controller.
//!
//! [`Modules`] finds a module where Ansible would, [`Package`] reads and packs it once, and the executor runs it.

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
pub use plugins::{ActionCall, CallbackEvent, Launch, Print, PythonCallback, PythonPlugins, Reply, unusable};
pub(crate) use plugins::{answer_to, packed, unpacked, with_changes};
pub use style::Style;

/// Reason why nothing of a collection can be used.
fn not_installed(collection: &str) -> String {
    format!(
        "the collection {collection} is not installed; install it with `windlass galaxy collection install {collection}`"
    )
}
