//! The one list of built-in modules.

use crate::Module;

/// Every built-in module, in alphabetical order of its file.
pub const MODULES: &[&dyn Module] = &[
    &crate::facts::package_facts::PackageFacts,
    &crate::facts::service_facts::ServiceFacts,
    &crate::facts::setup::Setup,
    &crate::ping::Ping,
];

/// The module that answers to this name, short or fully qualified.
pub fn find(name: &str) -> Option<&'static dyn Module> {
    MODULES.iter().copied().find(|module| module.spec().answers_to(name))
}
