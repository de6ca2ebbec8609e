//! Where roles, modules and plugins are found, and the Python that runs some of them.

use std::collections::HashMap;
use std::path::PathBuf;

use windlass_template::PluginKind;

use super::{Config, Rejected, expand_home};
use crate::error::Result;

/// Settings of the search for code.
#[derive(Debug, Clone)]
pub struct CodeSettings {
    /// Search path for roles.
    pub roles_path: Vec<PathBuf>,
    /// Search path for collections.
    pub collections_path: Vec<PathBuf>,
    /// Search path for modules, after the project's own.
    pub library: Vec<PathBuf>,
    /// `--module-path`: searched for modules first.
    pub module_path: Vec<PathBuf>,
    /// Search path for `module_utils` of Python modules, after the project's own.
    pub module_utils: Vec<PathBuf>,
    /// Search paths for filters, tests and lookups in Python, after the project's own.
    pub plugins: HashMap<PluginKind, Vec<PathBuf>>,
    /// Search path for action plugins in Python, after the project's own.
    pub actions: Vec<PathBuf>,
    /// Search path for callbacks in Python, after the project's own.
    pub callbacks: Vec<PathBuf>,
    /// Search path for cache plugins in Python, after the project's own.
    pub cache_plugins: Vec<PathBuf>,
    /// Search path for vars plugins in Python, after the project's own.
    pub vars_plugins: Vec<PathBuf>,
    /// Names of vars plugins to run.
    pub vars_plugins_enabled: Vec<String>,
    /// Modules that may not be used.
    pub rejected: Rejected,
    /// Path of Python on hosts, or `auto` to search for it.
    pub interpreter_python: String,
    /// Names of Python that `auto` searches for, in this order.
    pub interpreter_python_fallback: Vec<String>,
    /// Limit of open files for Python modules; 0 keeps the host's limit.
    pub python_module_rlimit_nofile: u64,
    /// Directory of ansible-core on this machine, if it is installed.
    pub ansible_core: Option<PathBuf>,
}

/// Names of Python searched for on a host if none is set, in this order.
const INTERPRETER_PYTHON_FALLBACK: &[&str] =
    &["python3.13", "python3.12", "python3.11", "python3.10", "python3.9", "python3.8", "/usr/bin/python3", "python3"];

impl CodeSettings {
    pub(super) fn from_config(config: &Config, warnings: &mut Vec<String>) -> Result<CodeSettings> {
        let home = std::env::var("ANSIBLE_HOME").unwrap_or_else(|_| "~/.ansible".to_owned());
        let below = |name: &str| {
            vec![
                expand_home(&format!("{home}/{name}")),
                PathBuf::from(format!("/usr/share/ansible/{name}")),
                PathBuf::from(format!("/etc/ansible/{name}")),
            ]
        };
        let plugins = |name: &str| {
            vec![
                expand_home(&format!("{home}/plugins/{name}")),
                PathBuf::from(format!("/usr/share/ansible/plugins/{name}")),
            ]
        };
        Ok(CodeSettings {
            roles_path: config.paths("roles_path").unwrap_or_else(|| below("roles")),
            collections_path: config
                .paths("collections_path")
                .unwrap_or_else(|| below("collections").into_iter().take(2).collect()),
            library: config.paths("library").unwrap_or_else(|| plugins("modules")),
            module_path: Vec::new(),
            module_utils: config.paths("module_utils").unwrap_or_else(|| plugins("module_utils")),
            plugins: [
                (PluginKind::Filter, "filter_plugins", "filter"),
                (PluginKind::Test, "test_plugins", "test"),
                (PluginKind::Lookup, "lookup_plugins", "lookup"),
            ]
            .map(|(kind, setting, folder)| (kind, config.paths(setting).unwrap_or_else(|| plugins(folder))))
            .into(),
            actions: config.paths("action_plugins").unwrap_or_else(|| plugins("action")),
            callbacks: config.paths("callback_plugins").unwrap_or_else(|| plugins("callback")),
            cache_plugins: config.paths("cache_plugins").unwrap_or_else(|| plugins("cache")),
            vars_plugins: config.paths("vars_plugins").unwrap_or_else(|| plugins("vars")),
            vars_plugins_enabled: config.list("vars_plugins_enabled"),
            rejected: Rejected::read(config, warnings)?,
            interpreter_python: config.get("interpreter_python").unwrap_or_else(|| "auto".to_owned()),
            interpreter_python_fallback: Some(config.list("interpreter_python_fallback"))
                .filter(|names| !names.is_empty())
                .unwrap_or_else(|| INTERPRETER_PYTHON_FALLBACK.iter().map(|name| (*name).to_owned()).collect()),
            python_module_rlimit_nofile: config.number("python_module_rlimit_nofile")?.unwrap_or(0),
            ansible_core: config.get("ansible_core").map(|place| config.path(&place)),
        })
    }
}
