//! Resolution of module names.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::finder::Modules;
use super::package::Package;

/// Result of resolving a name.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// A built-in action or module.
    Native,
    /// A module in a file.
    Foreign(Arc<ForeignModule>),
    /// An unknown name, with an explanation if one is known.
    Unknown(Option<String>),
}

/// A module in a file.
#[derive(Debug)]
pub struct ForeignModule {
    /// Short name of the module.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Place where it was found.
    pub origin: Origin,
    /// Action plugin of the module, a Python part for the controller. Without a module, `path` is that plugin.
    pub action: Option<PathBuf>,
    package: OnceLock<Result<Package, String>>,
}

/// Place where a module was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the project, a role, or a configured directory.
    Project,
    /// In a collection, `namespace.name`.
    Collection(String),
    /// In ansible-core.
    Core,
}

impl ForeignModule {
    pub(super) fn found(name: &str, path: PathBuf, origin: Origin) -> Resolution {
        let action = match origin {
            Origin::Collection(_) => path.ancestors().find(|path| path.ends_with("plugins")).and_then(|plugins| {
                Some(plugins.join("action").join(format!("{name}.py"))).filter(|path| path.is_file())
            }),
            _ => None,
        };
        ForeignModule::with_action(name, path, action, origin)
    }

    pub(super) fn with_action(name: &str, path: PathBuf, action: Option<PathBuf>, origin: Origin) -> Resolution {
        let module = ForeignModule { name: name.to_owned(), path, origin, action, package: OnceLock::new() };
        Resolution::Foreign(Arc::new(module))
    }

    /// Whether there is a module, and not an action plugin alone.
    pub fn has_file(&self) -> bool {
        self.action.as_ref() != Some(&self.path)
    }

    /// Dotted name of its Python module.
    pub fn python_name(&self) -> String {
        let text = self.path.to_string_lossy();
        match (&self.origin, text.rfind("/ansible_collections/")) {
            (Origin::Collection(_), Some(start)) => {
                let inside = text.get(start + 1..).unwrap_or_default();
                inside.strip_suffix(".py").unwrap_or(inside).replace('/', ".")
            }
            _ => format!("ansible.modules.{}", self.name),
        }
    }

    /// Package to send to hosts, built on first use.
    pub fn package(&self, modules: &Modules) -> Result<&Package, String> {
        self.package.get_or_init(|| Package::make(self, modules)).as_ref().map_err(Clone::clone)
    }
}
