//! What a name of a module stands for.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::finder::Modules;
use super::package::Package;

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// An action or module of Windlass' own.
    Native,
    /// A file.
    Foreign(Arc<ForeignModule>),
    /// Nothing; what is known about it, as a sentence.
    Unknown(Option<String>),
}

/// A module in a file.
#[derive(Debug)]
pub struct ForeignModule {
    /// Its short name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    package: OnceLock<Result<Package, String>>,
}

/// Where a module was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the project, a role, or a folder that is set.
    Project,
    /// In a collection, `namespace.name`.
    Collection(String),
    /// In ansible-core.
    Core,
}

impl ForeignModule {
    pub(super) fn found(name: &str, path: PathBuf, origin: Origin) -> Resolution {
        let module = ForeignModule { name: name.to_owned(), path, origin, package: OnceLock::new() };
        Resolution::Foreign(Arc::new(module))
    }

    /// Its dotted name in Python.
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

    /// What is sent to hosts; made when first asked for.
    pub fn package(&self, modules: &Modules) -> Result<&Package, String> {
        self.package.get_or_init(|| Package::make(self, modules)).as_ref().map_err(Clone::clone)
    }

    /// A part of it that runs on the control machine in Python, which this cannot do.
    pub fn action_plugin(&self) -> Option<PathBuf> {
        let Origin::Collection(_) = self.origin else { return None };
        let plugins = self.path.ancestors().find(|path| path.ends_with("plugins"))?;
        Some(plugins.join("action").join(format!("{}.py", self.name))).filter(|path| path.is_file())
    }
}
