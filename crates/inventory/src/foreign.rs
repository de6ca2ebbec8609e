//! Inventory plugins outside of this crate, such as the plugins of clouds, and vars plugins.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_vault::Secrets;
use windlass_yaml::{Mapping, Node, Options, Source, Span, Value};

use crate::load::Loader;
use crate::plugin::Candidate;
use crate::{Error, script};

/// Runs inventory and vars plugins that this crate lacks.
pub trait ForeignPlugins: Debug + Send + Sync {
    /// Whether a plugin of that name is installed.
    fn knows(&self, plugin: &str) -> bool;

    /// Reads a source. The error is a sentence, with advice in a second one.
    fn read(&self, configured: &Configured<'_>) -> Result<ForeignInventory, String>;

    /// Variables that vars plugins give to a group or host; `None` if there are no vars plugins at all. The error is a
    /// sentence.
    fn vars(&self, owner: &VarsOwner<'_>) -> Result<Option<Vec<ForeignVars>>, String>;
}

/// A group or host whose variables are looked for.
#[derive(Debug)]
pub struct VarsOwner<'a> {
    /// Directory of an inventory source, or of the playbook.
    pub directory: &'a Path,
    /// Whether the owner is a group; otherwise it is a host.
    pub is_group: bool,
    /// Name of the group or host.
    pub name: &'a str,
    /// Secrets that decrypt its variables.
    pub secrets: &'a Secrets,
}

/// Variables that a vars plugin gives to a group or host.
#[derive(Debug)]
pub struct ForeignVars {
    /// File of the plugin.
    pub plugin: PathBuf,
    /// The variables, a mapping.
    pub vars: serde_json::Value,
    /// Whether strings in the variables are templates, because the plugin has read them as such. Otherwise they are
    /// data.
    pub is_trusted: bool,
}

impl ForeignVars {
    pub(crate) fn mapping(&self, options: &Options) -> Result<Arc<Mapping>, Error> {
        let name = format!("output of the vars plugin {}", self.plugin.display());
        let source = Source::new(name, self.vars.to_string());
        let node = if self.is_trusted {
            windlass_yaml::load_one(source, options)?
        } else {
            Node::from_json(&self.vars, &Span::none())
        };
        match node.value {
            Value::Map(mapping) => Ok(mapping),
            _ => {
                let message = format!(
                    "The vars plugin {} must return a mapping, and not {}.",
                    self.plugin.display(),
                    node.kind()
                );
                Err(Error::VarsPlugin { message })
            }
        }
    }
}

/// A file that configures an inventory plugin.
#[derive(Debug)]
pub struct Configured<'a> {
    /// Name of the plugin, as the file gives it.
    pub plugin: &'a str,
    /// The file.
    pub path: &'a Path,
    /// Secrets that decrypt values in the file.
    pub secrets: &'a Secrets,
    /// Variables of the command line.
    pub extra_vars: &'a Mapping,
    /// Whether the plugin may answer from its cache.
    pub use_cache: bool,
}

/// The inventory that a plugin has read.
#[derive(Debug)]
pub struct ForeignInventory {
    /// Groups and hosts in the form that an inventory script prints, with `_meta`.
    pub groups: serde_json::Value,
    /// Whether strings in the inventory are templates, as the plugin declares. Otherwise they are data.
    pub is_trusted: bool,
}

/// Passes a file to the plugin it names; `Ok(false)` if nothing can run such plugins.
pub(crate) fn read(loader: &mut Loader<'_>, source: &mut Candidate, plugin: &Node) -> Result<bool, Error> {
    let (Some(foreign), Some(name)) = (loader.options.foreign_plugins.clone(), plugin.as_str()) else {
        return Ok(false);
    };
    let document = source.document(loader)?;
    let configured = Configured {
        plugin: name,
        path: &source.path,
        secrets: &loader.options.secrets,
        extra_vars: &loader.options.extra_vars,
        use_cache: loader.options.use_cache,
    };
    observe(&document, &loader.options.secrets);
    let read = foreign.read(&configured).map_err(|sentence| Error::at(&plugin.span, sentence))?;
    let document = if read.is_trusted {
        let output = Source::new(format!("output of the inventory plugin {name}"), read.groups.to_string());
        windlass_yaml::load_one(output, &loader.yaml_options())?
    } else {
        Node::from_json(&read.groups, &plugin.span)
    };
    loader.apply(script::statements(&document, &|_| Ok(None))?, &source.path).map(|()| true)
}

/// Decrypts the values of a file so that they are masked, because the plugin's error may quote them.
fn observe(node: &Node, secrets: &Secrets) {
    match &node.value {
        // The plugin reports a value that it cannot decrypt.
        Value::Vault(text) => drop(windlass_vault::decrypt(text.as_bytes(), secrets)),
        Value::List(items) => items.iter().for_each(|item| observe(item, secrets)),
        Value::Map(mapping) => mapping.iter().for_each(|(_, value)| observe(value, secrets)),
        _ => {}
    }
}
