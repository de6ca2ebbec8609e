//! Inventory plugins, by Ansible's names.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use windlass_yaml::{Node, Source};

use crate::files::without_sops;
use crate::load::Loader;
use crate::{Error, Warning, constructed, foreign, generator, host_list, ini, script, subset, toml, yaml};

/// An inventory plugin.
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    /// Whether the plugin accepts a source, judging by its name and mode.
    accepts: fn(&Candidate) -> bool,
    /// Reads a source into the inventory; `Ok(false)` if it belongs to another plugin.
    pub(crate) read: fn(&mut Loader<'_>, &mut Candidate) -> Result<bool, Error>,
}

/// Plugins that are enabled by default, in order.
pub(crate) const ENABLED: [&str; 6] = ["host_list", "script", "auto", "yaml", "ini", "toml"];

const PLUGINS: &[Plugin] = &[
    Plugin { name: "host_list", accepts: Candidate::is_host_list, read: host_list::read },
    Plugin { name: "advanced_host_list", accepts: Candidate::is_host_list, read: host_list::read_ranges },
    Plugin { name: "script", accepts: Candidate::is_script, read: read_script },
    Plugin { name: "auto", accepts: |source| source.extension_is(&["yml", "yaml"]), read: read_auto },
    Plugin { name: "yaml", accepts: |source| source.extension_is(&["", "yml", "yaml", "json"]), read: read_yaml },
    Plugin { name: "ini", accepts: Candidate::is_file, read: read_ini },
    Plugin { name: "toml", accepts: |source| source.extension_is(&["toml"]), read: read_toml },
    Plugin { name: "constructed", accepts: Candidate::is_configuration, read: constructed::read },
    Plugin { name: "generator", accepts: Candidate::is_configuration, read: generator::read },
    Plugin { name: subset::NAME, accepts: Candidate::is_configuration, read: subset::read },
];

/// Stands for all enabled plugins that are not in the list above.
pub(crate) const FOREIGN: &Plugin =
    &Plugin { name: "enable_plugins", accepts: Candidate::is_configuration, read: read_enabled };

impl Plugin {
    /// Looks up a plugin by its short or full name.
    pub(crate) fn named(name: &str) -> Option<&'static Plugin> {
        PLUGINS.iter().find(|plugin| plugin.name == short(name))
    }

    pub(crate) fn accepts(&self, source: &Candidate) -> bool {
        (self.accepts)(source)
    }
}

/// A source about to be read. Its text is read and decrypted once, however many plugins try it.
pub(crate) struct Candidate {
    /// The source as given, for sources that are not paths.
    pub(crate) text: String,
    pub(crate) path: Arc<Path>,
    content: Option<Arc<Source>>,
    document: Option<Node>,
}

impl Candidate {
    pub(crate) fn new(text: impl Into<String>, path: &Path) -> Self {
        Self { text: text.into(), path: path.into(), content: None, document: None }
    }

    fn is_host_list(&self) -> bool {
        is_host_list(&self.text)
    }

    fn is_file(&self) -> bool {
        self.path.is_file() || (self.path.exists() && !self.path.is_dir())
    }

    /// Whether the file is executable or begins with `#!`.
    fn is_script(&self) -> bool {
        let is_executable = |path: &Path| {
            std::fs::metadata(path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        let has_interpreter = |path: &Path| {
            let mut start = [0; 2];
            std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start)).is_ok()
                && &start == b"#!"
        };
        self.path.is_file() && (is_executable(&self.path) || has_interpreter(&self.path))
    }

    /// Whether a source that has been read is a script, the configuration of a plugin, or a pipe.
    pub(crate) fn is_made_by_program(&self) -> bool {
        let is_configuration = self.document.as_ref().is_some_and(|document| document.get("plugin").is_some());
        let is_pipe = std::fs::metadata(&self.path).is_ok_and(|found| !found.is_file());
        is_configuration || is_pipe || self.is_script()
    }

    pub(crate) fn extension_is(&self, extensions: &[&str]) -> bool {
        let extension = self.path.extension().map(|extension| extension.to_string_lossy()).unwrap_or_default();
        self.is_file() && extensions.contains(&&*extension)
    }

    /// Whether the file can configure a plugin.
    fn is_configuration(&self) -> bool {
        self.extension_is(&["", "config", "yml", "yaml", "json"])
    }

    /// The text of the file.
    pub(crate) fn content(&mut self, loader: &Loader<'_>) -> Result<Arc<Source>, Error> {
        if let Some(content) = &self.content {
            return Ok(Arc::clone(content));
        }
        let content = loader.content(&self.path)?;
        self.content = Some(Arc::clone(&content));
        Ok(content)
    }

    /// The file as YAML. Its warnings are added once.
    pub(crate) fn document(&mut self, loader: &mut Loader<'_>) -> Result<Node, Error> {
        if let Some(document) = &self.document {
            return Ok(document.clone());
        }
        let content = self.content(loader)?;
        let loaded = windlass_yaml::parse(Arc::clone(&content), &loader.yaml_options())?;
        loader.warnings.extend(loaded.warnings.iter().cloned().map(Warning::Yaml));
        let document = without_sops(loaded.into_one(&content)?, &loader.options.secrets)?;
        self.document = Some(document.clone());
        Ok(document)
    }

    /// The file as the configuration of a plugin; an error if the file names another plugin.
    pub(crate) fn configuration(&mut self, loader: &mut Loader<'_>, plugin: &str) -> Result<Node, Error> {
        let document = self.document(loader)?;
        let named = document.get("plugin").and_then(Node::as_str).unwrap_or_default();
        if short(named) == plugin {
            return Ok(document);
        }
        let message = format!("This file does not configure the inventory plugin `{plugin}`.");
        Err(Error::at(&document.span, message).with_hint(format!("Such a file begins with `plugin: {plugin}`.")))
    }

    /// Whether lines look like the sections of an INI file.
    fn has_sections(&self) -> bool {
        let mut lines = self.content.iter().flat_map(|source| source.text.lines());
        lines.any(|line| line.starts_with('[') && line.trim_end().ends_with(']'))
    }

    /// Drops the errors of plugins that the file was clearly not meant for.
    pub(crate) fn relevant(&self, mut failures: Vec<(&'static str, Error)>) -> Vec<(&'static str, Error)> {
        let failed = |name: &str| failures.iter().any(|(plugin, _)| *plugin == name);
        let looks_like_yaml = !self.has_sections()
            && self
                .content
                .iter()
                .flat_map(|source| source.text.lines())
                .map(str::trim)
                .any(|line| line == "---" || line.starts_with("- ") || line.ends_with(':') || line.contains(": "));
        let misled = match (failed("yaml"), failed("ini")) {
            (true, _) if failed("auto") || failed(subset::NAME) => "yaml",
            (_, true) if failed("toml") => "ini",
            (true, true) if looks_like_yaml => "ini",
            (true, true) => "yaml",
            _ => return failures,
        };
        failures.retain(|(plugin, _)| *plugin != misled);
        failures
    }
}

/// The short name of one of Ansible's own plugins; another name as it is.
fn short(name: &str) -> &str {
    ["ansible.builtin.", "ansible.legacy."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Whether a source is a list of hosts rather than a path.
pub(crate) fn is_host_list(source: &str) -> bool {
    source.contains(',') && !Path::new(source).exists()
}

fn read_script(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let statements = script::read(&source.path, loader.options.script_timeout, &loader.yaml_options())?;
    loader.apply(statements, &source.path).map(|()| true)
}

/// Passes a configuration to the plugin it names.
fn read_auto(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    // If the file is not YAML, the plugin for YAML inventories reports that.
    let Ok(document) = source.document(loader) else { return Ok(false) };
    let Some(plugin) = document.get("plugin") else { return Ok(false) };
    match plugin.as_str().and_then(Plugin::named) {
        Some(named) if named.name != "auto" && named.accepts(source) => (named.read)(loader, source),
        Some(_) => Ok(false),
        None => foreign::read(loader, source, plugin),
    }
}

/// Passes a configuration to the plugin it names, if `enable_plugins` lists the plugin.
fn read_enabled(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let Ok(document) = source.document(loader) else { return Ok(false) };
    match document.get("plugin") {
        Some(plugin) if loader.foreign.iter().any(|name| plugin.as_str() == Some(name)) => {
            foreign::read(loader, source, plugin)
        }
        _ => Ok(false),
    }
}

fn read_yaml(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let document = source.document(loader)?;
    let statements = if document.is_null() { Default::default() } else { yaml::read(&document)? };
    loader.apply(statements, &source.path).map(|()| true)
}

/// A file that is not YAML may be INI: sections are a better sign than the extension.
fn read_ini(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let content = source.content(loader)?;
    if source.extension_is(&["yml", "yaml", "json"]) && !source.has_sections() {
        return Ok(false);
    }
    let inventory = &loader.inventory;
    let statements = ini::read(&content, |group| inventory.groups.contains_key(&*inventory.group_names.usable(group)))?;
    loader.apply(statements, &source.path).map(|()| true)
}

fn read_toml(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let statements = toml::read(&source.content(loader)?)?;
    loader.apply(statements, &source.path).map(|()| true)
}
