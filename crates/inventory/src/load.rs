//! From sources to an inventory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Source, Span};

use crate::files::{VariableFiles, read_source};
use crate::model::Inventory;
use crate::step::{Statements, Step};
use crate::{Error, Warning, address, ini, script, yaml};

/// Which entries of an inventory directory are not sources.
#[derive(Clone, Debug)]
pub struct DirectoryFilter {
    /// Entries whose names end with one of these are passed over (`inventory_ignore_extensions`).
    pub extensions: Vec<String>,
    /// Entries whose names match one of these are passed over (`inventory_ignore_patterns`).
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

/// How sources are read.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The passwords for encrypted files.
    pub secrets: Secrets,
    /// The directory of the playbook, whose `group_vars` and `host_vars` count too.
    pub playbook_dir: Option<PathBuf>,
    /// What to do about keys that stand twice in a mapping.
    pub duplicate_keys: DuplicateKeys,
    /// Which entries of inventory directories are not sources.
    pub directory_filter: DirectoryFilter,
    /// Whether a source that cannot be read is an error rather than a warning (`any_unparsed_is_failed`).
    pub unparsed_is_error: bool,
    /// How long an inventory script may take.
    pub script_timeout: Duration,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            secrets: Secrets::new(),
            playbook_dir: None,
            duplicate_keys: DuplicateKeys::default(),
            directory_filter: DirectoryFilter::default(),
            unparsed_is_error: false,
            script_timeout: Duration::from_secs(300),
        }
    }
}

impl Inventory {
    /// Reads sources in order: INI, YAML and JSON files, executable scripts, directories of these, and host lists
    /// such as `a,b,`. Later sources win.
    pub fn load(sources: &[String], options: &LoadOptions) -> Result<(Self, Vec<Warning>), Error> {
        let files = Arc::new(VariableFiles::new(options.secrets.clone(), options.duplicate_keys));
        let mut loader =
            Loader { inventory: Inventory::empty(Arc::clone(&files)), options, files, warnings: Vec::new() };
        let mut any = false;
        for source in sources.iter().filter(|source| !source.is_empty()) {
            any |= loader.source(source)?;
        }
        let Loader { mut inventory, mut warnings, .. } = loader;
        inventory.source_directories = sources.iter().filter_map(|source| variables_directory(source)).collect();
        inventory.playbook_directory = options.playbook_dir.as_deref().map(canonical);
        warnings.extend(inventory.settle());
        if !any {
            warnings.push(Warning::NoInventory);
        }
        Ok((inventory, warnings))
    }
}

fn is_host_list(source: &str) -> bool {
    source.contains(',') && !Path::new(source).exists()
}

/// The directory whose `group_vars` and `host_vars` belong to a source.
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

fn absolute(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let expanded = match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_path_buf(),
    };
    std::path::absolute(&expanded).unwrap_or(expanded)
}

struct Loader<'a> {
    inventory: Inventory,
    options: &'a LoadOptions,
    files: Arc<VariableFiles>,
    warnings: Vec<Warning>,
}

impl Loader<'_> {
    /// Reads a source; tells whether anything could be read.
    fn source(&mut self, source: &str) -> Result<bool, Error> {
        if is_host_list(source) {
            self.host_list(source)?;
            return Ok(true);
        }
        self.path(&absolute(Path::new(source)))
    }

    fn path(&mut self, path: &Path) -> Result<bool, Error> {
        if path.is_dir() {
            return self.directory(path);
        }
        let mut reasons = Vec::new();
        match self.read(path, &mut reasons) {
            Some(statements) => {
                let source: Arc<Path> = path.into();
                match self.apply(statements, &source) {
                    Ok(()) => return Ok(true),
                    Err(error) => reasons.push(error),
                }
            }
            None if reasons.is_empty() => reasons.push(Error::Read {
                path: path.to_path_buf(),
                source: std::io::Error::new(std::io::ErrorKind::Unsupported, "it is of no known kind of inventory"),
            }),
            None => {}
        }
        let source_name = path.display().to_string();
        if self.options.unparsed_is_error {
            let reasons = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            return Err(Error::Unparsed { source_name, reasons });
        }
        self.warnings.push(Warning::Unparsed { source_name, reasons });
        Ok(false)
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
                any |= self.path(&directory.join(entry))?;
            }
        }
        Ok(any)
    }

    fn apply(&mut self, statements: Statements, source: &Arc<Path>) -> Result<(), Error> {
        self.warnings.extend(statements.warnings);
        for step in statements.steps {
            self.inventory.apply(step, source)?;
        }
        Ok(())
    }

    fn host_list(&mut self, source: &str) -> Result<(), Error> {
        let span = Span::synthetic(format!("host list {source}"));
        let origin: Arc<Path> = Path::new(source).into();
        for entry in source.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let parsed = address::parse(entry).filter(|(host, _)| !host.contains('['));
            let (name, port) = parsed.unwrap_or((entry, None));
            if self.inventory.hosts.contains_key(name) {
                continue;
            }
            let port = port.map(|port| windlass_yaml::Node::new(windlass_yaml::Value::Int(port.into()), span.clone()));
            let names = vec![Arc::from(name)];
            let step =
                Step::Hosts { names, group: "ungrouped".into(), port, variables: Arc::default(), span: span.clone() };
            self.inventory.apply(step, &origin)?;
        }
        Ok(())
    }

    /// Reads a file in the ways its name and mode allow, until one succeeds.
    fn read(&mut self, path: &Path, reasons: &mut Vec<Error>) -> Option<Statements> {
        if let Err(source) = fs::metadata(path) {
            reasons.push(Error::Read { path: path.to_path_buf(), source });
            return None;
        }
        if script::is_executable(path) {
            match script::read(path, self.options.script_timeout, &self.files.options()) {
                Ok(statements) => return Some(statements),
                Err(error) => reasons.push(error),
            }
        }
        let source = match read_source(path, self.files.secrets()) {
            Ok(source) => source,
            Err(error) => {
                reasons.push(error);
                return None;
            }
        };
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
        match extension.as_str() {
            "yml" | "yaml" | "json" => self.yaml_or_ini(&source, reasons, false),
            "toml" => {
                let span = Span::new(source, 1, 1);
                reasons.push(
                    Error::at(&span, "Inventories in TOML format cannot be read.")
                        .with_hint("Write the inventory in YAML or INI format."),
                );
                None
            }
            "" => self.yaml_or_ini(&source, reasons, true),
            _ => self.ini(&source).map_err(|error| reasons.push(error)).ok(),
        }
    }

    /// What is no YAML inventory may be INI: a name without an extension says nothing, and sections tell more than a
    /// name.
    fn yaml_or_ini(&mut self, source: &Arc<Source>, reasons: &mut Vec<Error>, any_text: bool) -> Option<Statements> {
        let as_yaml = match self.yaml(source) {
            Ok(statements) => return Some(statements),
            Err(error) => error,
        };
        let has_sections = source.text.lines().any(|line| line.starts_with('[') && line.trim_end().ends_with(']'));
        if !any_text && !has_sections {
            reasons.push(as_yaml);
            return None;
        }
        match self.ini(source) {
            Ok(statements) => Some(statements),
            Err(as_ini) => {
                // Only the error of what the file seems to be is of use.
                let looks_like_yaml = !has_sections
                    && source.text.lines().map(str::trim).any(|line| {
                        line == "---" || line.starts_with("- ") || line.ends_with(':') || line.contains(": ")
                    });
                reasons.push(if looks_like_yaml { as_yaml } else { as_ini });
                None
            }
        }
    }

    fn yaml(&mut self, source: &Arc<Source>) -> Result<Statements, Error> {
        let loaded = windlass_yaml::parse(Arc::clone(source), &self.files.options())?;
        let warnings: Vec<Warning> = loaded.warnings.iter().cloned().map(Warning::Yaml).collect();
        let document = loaded.into_one(source)?;
        let mut statements = if document.is_null() { Statements::default() } else { yaml::read(&document)? };
        statements.warnings.extend(warnings);
        Ok(statements)
    }

    fn ini(&self, source: &Arc<Source>) -> Result<Statements, Error> {
        ini::read(source, |group| self.inventory.groups.contains_key(group))
    }
}
