//! `plugin_filters_cfg`: modules that must not be used on this machine.

use std::path::PathBuf;

use windlass_yaml::{Node, Source};

use super::Config;
use crate::error::{Error, Result};

/// Rejected modules, and the file that lists them.
#[derive(Debug, Clone, Default)]
pub struct Rejected {
    /// Path of the list.
    pub file: PathBuf,
    /// The modules' names.
    pub modules: Vec<String>,
}

impl Rejected {
    /// Reads the configured file, or else `/etc/ansible/plugin_filters.yml`. Errors in it become warnings, as in
    /// Ansible.
    pub(super) fn read(config: &Config, warnings: &mut Vec<String>) -> Result<Rejected> {
        let set = config.path_of("plugin_filters_cfg");
        let file = set.clone().unwrap_or_else(|| PathBuf::from("/etc/ansible/plugin_filters.yml"));
        let shown = file.display();
        if !file.exists() {
            if set.is_some() {
                warnings.push(format!("The plugin filter file, {shown} does not exist. Skipping."));
            }
            return Ok(Rejected::default());
        }
        let modules = match modules(&file) {
            Ok(modules) => modules,
            Err(reason) => {
                warnings.push(format!("The plugin filter file, {shown} {reason} Skipping."));
                return Ok(Rejected::default());
            }
        };
        if modules.iter().any(|name| name == "stat") {
            return Err(Error::new(format!(
                "The stat module was specified in the module reject list file, {shown}, but Ansible will not function without \
                 the stat module.  Please remove stat from the reject list."
            )));
        }
        Ok(Rejected { file, modules })
    }
}

/// Names of modules in the file. The error is the rest of a sentence whose subject is the file.
fn modules(file: &std::path::Path) -> std::result::Result<Vec<String>, String> {
    let text = windlass_bounds::read_text(file).map_err(|error| format!("was not readable: {error}."))?;
    let source = Source::new(file.display().to_string(), text);
    let node = windlass_yaml::load_one(source, &windlass_yaml::Options::default())
        .map_err(|error| format!("was not parsable: {error}."))?;
    let map = node.as_map().ok_or("was invalid: it holds no mapping.")?;
    match map.get("filter_version").and_then(Node::scalar_text) {
        None => return Err("was invalid: it has no filter_version.".to_owned()),
        Some(version) if version.trim() != "1.0" => {
            return Err(format!("was a version not recognized: {version}."));
        }
        Some(_) => {}
    }
    match map.get("module_rejectlist") {
        Some(list) if list.as_list().is_some() => {
            Ok(list.as_list().into_iter().flatten().filter_map(Node::scalar_text).collect())
        }
        _ => Err("was invalid: module_rejectlist is not a list.".to_owned()),
    }
}
