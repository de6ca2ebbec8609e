//! Prepares a module for sending: unchanged, or packed with its imports.

use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::finder::Modules;
use super::module::{ForeignModule, Origin};
use super::module_utils::{Collector, Sources};
use super::style::{COMMON, Style, shebang};

/// Everything a host needs to run a module.
#[derive(Debug)]
pub struct Package {
    /// Protocol of the module.
    pub style: Style,
    /// The file itself, or a compressed tar archive of Python sources.
    pub bytes: Vec<u8>,
    /// Words of its first line after `#!`.
    pub shebang: Option<Vec<String>>,
    /// Dotted name of its Python module.
    pub python_name: String,
}

/// Program that runs a packed Python module.
const DRIVER: &str = include_str!("driver.py");

impl Package {
    /// Reads and packs a module.
    pub(super) fn make(module: &ForeignModule, modules: &Modules) -> Result<Package, String> {
        let bytes = windlass_bounds::read(&module.path)
            .map_err(|error| format!("the module {} cannot be read: {error}", module.path.display()))?;
        let (style, first_line) = (Style::of(&bytes), shebang(&bytes));
        let python_name = module.python_name();
        let bytes = match style {
            Style::PowerShell => {
                return Err(format!(
                    "the module {} is for Windows, which Windlass does not manage",
                    module.path.display()
                ));
            }
            Style::Python => packed(module, modules, &python_name, bytes)?,
            _ => bytes,
        };
        Ok(Package { style, bytes, shebang: first_line, python_name })
    }
}

fn packed(module: &ForeignModule, modules: &Modules, python_name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let Some(core) = modules.ansible_core() else {
        return Err(format!(
            "the module {} is written in Python and needs the module_utils of ansible-core, but {}",
            module.path.display(),
            modules.without_core()
        ));
    };
    let text = String::from_utf8_lossy(&bytes).replace(COMMON, "from ansible.module_utils.basic import *");
    let mut sources = Collector::new(modules, python_name, &text).collect()?;
    // Modules may import an ansible installed on the host, as they can under Ansible.
    let namespace = "from pkgutil import extend_path\n\n__path__ = extend_path(__path__, __name__)\n";
    sources.insert("ansible/__init__.py".to_owned(), format!("{namespace}__version__ = '{}'\n", core.version).into());
    sources.insert("ansible/module_utils/__init__.py".to_owned(), namespace.into());
    let path = python_name.replace('.', "/");
    let packages = Path::new(&path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    for folder in packages {
        sources.entry(format!("{}/__init__.py", folder.display())).or_default();
    }
    sources.insert(format!("{path}.py"), text.into_bytes());
    sources.insert("__main__.py".to_owned(), DRIVER.into());
    archive(&sources).map_err(|error| format!("the module {} cannot be packed: {error}", module.path.display()))
}

fn archive(sources: &Sources) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, text) in sources {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, path, text.as_slice())?;
    }
    archive.into_inner()?.finish()
}

impl ForeignModule {
    /// Name of the module for messages, with its collection.
    pub fn described(&self) -> String {
        match &self.origin {
            Origin::Collection(collection) => format!("{collection}.{}", self.name),
            _ => self.name.clone(),
        }
    }
}
