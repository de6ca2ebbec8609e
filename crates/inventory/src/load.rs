//! Loads sources into an inventory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Mapping, Options, Source, Span};

use crate::files::{VariableFiles, read_source};
use crate::model::Inventory;
use crate::names::GroupNames;
use crate::plugin::{self, Candidate, Plugin, is_host_list};
use crate::step::Statements;
use crate::{Error, Expressions, ForeignPlugins, Warning};

/// Selects the entries of an inventory directory that are skipped.
#[derive(Clone, Debug)]
pub struct DirectoryFilter {
    /// Skips names that end with one of these (`inventory_ignore_extensions`).
    pub extensions: Vec<String>,
    /// Skips names that match one of these (`inventory_ignore_patterns`).
    pub patterns: Vec<Regex>,
}

impl Default for DirectoryFilter {
    fn default() -> Self {
        let extensions =
            [".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry"];
        Self { extensions: extensions.map(str::to_owned).to_vec(), patterns: Vec::new() }
    }
}

impl DirectoryFilter {
    fn passes(&self, name: &str) -> bool {
        !(name.starts_with('.')
            || matches!(name, "host_vars" | "group_vars" | "vars_plugins")
            || self.extensions.iter().any(|extension| name.ends_with(extension.as_str()))
            || self.patterns.iter().any(|pattern| pattern.is_match(name)))
    }
}

/// Options for loading sources.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Passwords for encrypted files.
    pub secrets: Secrets,
    /// Playbook directory, whose `group_vars` and `host_vars` apply too.
    pub playbook_dir: Option<PathBuf>,
    /// Treatment of keys that repeat in a mapping.
    pub duplicate_keys: DuplicateKeys,
    /// Entries of inventory directories to skip.
    pub directory_filter: DirectoryFilter,
    /// Plugins to try on a source, in order (`enable_plugins`).
    pub enabled: Vec<String>,
    /// Whether a source that cannot be read is an error rather than a warning (`any_unparsed_is_failed`).
    pub unparsed_is_error: bool,
    /// Whether a source that does not exist is an error.
    pub missing_is_error: bool,
    /// Whether loading fails if no source can be read (`unparsed_is_failed`).
    pub nothing_is_error: bool,
    /// Treatment of group names that are not valid variable names (`force_valid_group_names`).
    pub group_names: GroupNames,
    /// Deadline of an inventory script.
    pub script_timeout: Option<Duration>,
    /// Evaluates the expressions of `constructed` and `generator`; without it, such sources cannot be read.
    pub expressions: Option<Arc<dyn Expressions>>,
    /// Runs inventory plugins in Python; without it, sources that configure one cannot be read.
    pub foreign_plugins: Option<Arc<dyn ForeignPlugins>>,
    /// Whether such plugins may answer from their caches.
    pub use_cache: bool,
    /// Variables of the command line, for `constructed`.
    pub extra_vars: Arc<Mapping>,
    /// Whether dictionaries of one host or group are merged if several sources define them (`hash_behaviour = merge`).
    pub merge_hashes: bool,
    /// Whether to keep the positions of memberships and the values that later sources replace.
    pub keep_places: bool,
    /// Whether `constructed` sees `extra_vars` by default (`use_extra_vars`).
    pub use_extra_vars: bool,
    /// Texts that replace files, by absolute path: unsaved documents of an editor.
    pub texts: Arc<HashMap<PathBuf, Arc<str>>>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            secrets: Secrets::new(),
            playbook_dir: None,
            duplicate_keys: DuplicateKeys::default(),
            directory_filter: DirectoryFilter::default(),
            enabled: plugin::ENABLED.map(str::to_owned).to_vec(),
            unparsed_is_error: false,
            missing_is_error: false,
            nothing_is_error: false,
            group_names: GroupNames::default(),
            script_timeout: Some(windlass_bounds::child::DEADLINE),
            expressions: None,
            foreign_plugins: None,
            use_cache: true,
            extra_vars: Arc::default(),
            use_extra_vars: false,
            merge_hashes: false,
            keep_places: false,
            texts: Arc::default(),
        }
    }
}

impl Inventory {
    /// Loads sources in order: files, executable scripts, directories of these, and host lists such as `a,b,`. The
    /// enabled plugins try each source until one succeeds. Later sources win.
    pub fn load(sources: &[String], options: &LoadOptions) -> Result<(Self, Vec<Warning>), Error> {
        let files = Arc::new(VariableFiles::new(
            options.secrets.clone(),
            options.duplicate_keys,
            options.foreign_plugins.clone(),
        ));
        let Enabled { plugins, foreign, warnings } = Enabled::of(options)?;
        let mut loader = Loader {
            inventory: unread(files, options),
            options,
            plugins,
            foreign,
            warnings,
            is_included: false,
            directories: Vec::new(),
        };
        let mut any = false;
        for source in sources.iter().filter(|source| !source.is_empty()) {
            any |= loader.source(source)?;
        }
        if !any && options.nothing_is_error {
            return Err(Error::NoInventory { reasons: loader.warnings });
        }
        let Loader { mut inventory, mut warnings, directories, .. } = loader;
        inventory.source_directories = directories;
        inventory.playbook_directory = options.playbook_dir.as_deref().map(canonical);
        inventory.extra_vars = Arc::clone(&options.extra_vars);
        inventory.was_read = any;
        warnings.extend(inventory.settle());
        if !any {
            warnings.push(Warning::NoInventory);
        }
        Ok((inventory, warnings))
    }
}

/// An inventory before any source is read.
fn unread(files: Arc<VariableFiles>, options: &LoadOptions) -> Inventory {
    let mut inventory = Inventory::empty(files);
    inventory.group_names = options.group_names;
    inventory.merge_hashes = options.merge_hashes;
    inventory.places = options.keep_places.then(Box::default);
    inventory
}

/// Plugins that `enable_plugins` names.
struct Enabled {
    plugins: Vec<&'static Plugin>,
    /// Names of enabled plugins that are not in this crate.
    foreign: Vec<String>,
    warnings: Vec<Warning>,
}

impl Enabled {
    /// Warns about unknown names, and fails if no plugin is left.
    fn of(options: &LoadOptions) -> Result<Enabled, Error> {
        let mut enabled = Enabled { plugins: Vec::new(), foreign: Vec::new(), warnings: Vec::new() };
        for name in &options.enabled {
            match Plugin::named(name) {
                Some(plugin) => enabled.plugins.push(plugin),
                None if options.foreign_plugins.as_ref().is_some_and(|foreign| foreign.knows(name)) => {
                    if enabled.foreign.is_empty() {
                        enabled.plugins.push(plugin::FOREIGN);
                    }
                    enabled.foreign.push(name.clone());
                }
                None => enabled.warnings.push(Warning::UnknownPlugin { name: name.clone() }),
            }
        }
        if enabled.plugins.is_empty() {
            return Err(Error::NoPlugins { names: options.enabled.join(", ") });
        }
        Ok(enabled)
    }
}

/// Directory whose `group_vars` and `host_vars` belong to a source.
fn variables_directory(source: &str) -> Option<PathBuf> {
    if source.is_empty() || is_host_list(source) {
        return None;
    }
    let path = absolute(Path::new(source));
    Some(canonical(if path.is_dir() { &path } else { path.parent()? }))
}

pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let expanded = match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_path_buf(),
    };
    std::path::absolute(&expanded).unwrap_or(expanded)
}

/// An inventory being loaded.
pub(crate) struct Loader<'a> {
    pub(crate) inventory: Inventory,
    pub(crate) options: &'a LoadOptions,
    plugins: Vec<&'static Plugin>,
    /// Enabled plugins that are not in this crate.
    pub(crate) foreign: Vec<String>,
    pub(crate) warnings: Vec<Warning>,
    /// Whether another source includes the sources that are read.
    pub(crate) is_included: bool,
    /// Directories with the variables of the sources, in their order.
    directories: Vec<PathBuf>,
}

impl Loader<'_> {
    /// Loads a source. Returns whether anything could be read.
    fn source(&mut self, source: &str) -> Result<bool, Error> {
        let is_read = self.read_source(source)?;
        self.directories.extend(variables_directory(source));
        Ok(is_read)
    }

    /// Loads sources that another source includes, into an inventory of their own. Fails if one cannot be read.
    pub(crate) fn included(&mut self, sources: &[(String, Span)]) -> Result<Inventory, Error> {
        let mut loader = Loader {
            inventory: unread(Arc::clone(&self.inventory.files), self.options),
            options: self.options,
            plugins: self.plugins.clone(),
            foreign: self.foreign.clone(),
            warnings: Vec::new(),
            is_included: true,
            directories: Vec::new(),
        };
        for (source, span) in sources {
            if !loader.source(source)? {
                self.warnings.append(&mut loader.warnings);
                return Err(Error::at(span, format!("The source `{source}` cannot be read.")));
            }
            self.inventory.included.push(source.clone());
        }
        self.warnings.append(&mut loader.warnings);
        self.inventory.source_directories.extend_from_slice(&loader.directories);
        self.directories.append(&mut loader.directories);
        Ok(loader.inventory)
    }

    fn read_source(&mut self, source: &str) -> Result<bool, Error> {
        if is_host_list(source) {
            return self.candidate(Candidate::new(source, Path::new(source)));
        }
        let path = absolute(Path::new(source));
        if path.exists() {
            return self.path(&path);
        }
        let no_comma = (!source.contains(['/', '.'])).then(|| Error::NoComma { name: source.to_owned() });
        let is_read = match (self.path(&path), &no_comma) {
            (Err(Error::Unparsed { reasons }), Some(hint)) => {
                return Err(Error::Unparsed { reasons: format!("{reasons}\n{hint}") });
            }
            (read, _) => read?,
        };
        if is_read {
            return Ok(true);
        }
        // The warning about the source is the last one.
        if let Some(Warning::Unparsed { reasons, .. }) = self.warnings.last_mut() {
            reasons.extend(no_comma.map(|hint| ("", hint)));
        }
        match self.warnings.pop_if(|_| self.options.missing_is_error) {
            Some(warning) => Err(Error::Unparsed { reasons: warning.to_string() }),
            None => Ok(false),
        }
    }

    fn path(&mut self, path: &Path) -> Result<bool, Error> {
        if path.is_dir() { self.directory(path) } else { self.candidate(Candidate::new(path.to_string_lossy(), path)) }
    }

    /// Like [`Self::path`], for an entry of a directory, which is never a pipe that the user named.
    fn found(&mut self, path: &Path) -> Result<bool, Error> {
        let found = fs::metadata(path).ok().filter(|found| !found.is_dir());
        match found.map_or(Ok(()), |found| windlass_bounds::regular(&found)) {
            Ok(()) => self.path(path),
            Err(source) => {
                let reasons = vec![("", Error::Read { path: path.to_path_buf(), source })];
                self.unparsed(path.display().to_string(), reasons).map(|()| false)
            }
        }
    }

    /// Tries the plugins on a source.
    fn candidate(&mut self, mut source: Candidate) -> Result<bool, Error> {
        let mut failures = Vec::new();
        if !is_host_list(&source.text)
            && let Err(error) = fs::metadata(&source.path)
        {
            failures.push(("", Error::Read { path: source.path.to_path_buf(), source: error }));
        }
        for plugin in self.plugins.clone() {
            if !plugin.accepts(&source) {
                continue;
            }
            match (plugin.read)(self, &mut source) {
                Ok(true) => {
                    self.inventory.made_by_program |= source.is_made_by_program();
                    self.processed(&source.text);
                    return Ok(true);
                }
                Ok(false) => {}
                Err(error) => failures.push((plugin.name, error)),
            }
        }
        let failures = source.relevant(failures);
        self.unparsed(source.text, failures).map(|()| false)
    }

    /// Makes the variables beside a source visible to `constructed` sources after it.
    fn processed(&mut self, source: &str) {
        if let Some(directory) = variables_directory(source)
            && !self.inventory.source_directories.contains(&directory)
        {
            self.inventory.source_directories.push(directory);
        }
    }

    fn unparsed(&mut self, source_name: String, reasons: Vec<(&'static str, Error)>) -> Result<(), Error> {
        let warning = Warning::Unparsed { source_name, reasons };
        if self.options.unparsed_is_error {
            return Err(Error::Unparsed { reasons: warning.to_string() });
        }
        self.warnings.push(warning);
        Ok(())
    }

    fn directory(&mut self, directory: &Path) -> Result<bool, Error> {
        let refused = |source| Error::Read { path: directory.to_path_buf(), source };
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(refused)? {
            entries.push(entry.map_err(refused)?.file_name());
        }
        entries.sort();
        let mut any = false;
        for entry in entries {
            if self.options.directory_filter.passes(&entry.to_string_lossy()) {
                any |= self.found(&directory.join(entry))?;
            }
        }
        if !any {
            self.unparsed(directory.display().to_string(), Vec::new())?;
        }
        Ok(any)
    }

    /// Applies the statements of a source.
    pub(crate) fn apply(&mut self, statements: Statements, source: &Arc<Path>) -> Result<(), Error> {
        self.warnings.extend(statements.warnings);
        for step in statements.steps {
            self.inventory.apply(step, source)?;
        }
        Ok(())
    }

    /// Reads a file and decrypts it if needed.
    pub(crate) fn content(&self, path: &Path) -> Result<Arc<Source>, Error> {
        match self.options.texts.get(path) {
            Some(text) if !windlass_vault::is_encrypted(text.as_bytes()) => {
                Ok(Source::new(path.display().to_string(), text.to_string()))
            }
            _ => read_source(path, &self.options.secrets),
        }
    }

    pub(crate) fn yaml_options(&self) -> Options {
        Options { duplicate_keys: self.options.duplicate_keys, ..Options::default() }
    }

    pub(crate) fn expressions(&self, span: &Span) -> Result<Arc<dyn Expressions>, Error> {
        let missing = || Error::at(span, "There is no template engine for the expressions of this source.");
        self.options.expressions.clone().ok_or_else(missing)
    }
}
