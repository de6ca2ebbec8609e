//! Files of `group_vars` and `host_vars`, variables of vars plugins, and reading of files that may be encrypted.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Mapping, Node, Options, Source, Value};

use crate::foreign::{ForeignPlugins, VarsOwner};
use crate::{Error, Warning};

/// Directory in which to look for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Group,
    Host,
}

impl Kind {
    fn directory(self) -> &'static str {
        match self {
            Self::Group => "group_vars",
            Self::Host => "host_vars",
        }
    }
}

/// A file and the variables in it.
pub(crate) type File = (Arc<Path>, Arc<Mapping>);

/// Variables that vars plugins have given to a group or host.
#[derive(Debug, Clone)]
pub struct PluginVars {
    /// Directory of an inventory source, or of the playbook.
    pub directory: PathBuf,
    /// Whether it is a group.
    pub is_group: bool,
    /// Its name.
    pub name: String,
    /// The variables, each with the file of its plugin.
    pub given: Vec<(Arc<Path>, Arc<Mapping>)>,
}

/// Finds, reads and caches variable files. A file that applies to many hosts is read once.
#[derive(Debug, Default)]
pub(crate) struct VariableFiles {
    secrets: Secrets,
    duplicate_keys: DuplicateKeys,
    /// Runs vars plugins.
    plugins: Option<Arc<dyn ForeignPlugins>>,
    /// Whether no vars plugins exist, which saves a request and a cache entry for every host.
    has_no_plugins: AtomicBool,
    /// Variables of vars plugins, by directory, kind and name, in the order of the requests.
    of_plugins: Mutex<IndexMap<(PathBuf, Kind, String), Vec<File>>>,
    /// Names in each directory, so that hosts without files cost nothing; `None` if the directory does not exist.
    listings: Mutex<HashMap<PathBuf, Option<Arc<HashSet<OsString>>>>>,
    read: Mutex<HashMap<PathBuf, Arc<Mapping>>>,
    warnings: Mutex<Vec<Warning>>,
}

const EXTENSIONS: [&str; 3] = ["yml", "yaml", "json"];

impl VariableFiles {
    pub(crate) fn new(
        secrets: Secrets,
        duplicate_keys: DuplicateKeys,
        plugins: Option<Arc<dyn ForeignPlugins>>,
    ) -> Self {
        Self { secrets, duplicate_keys, plugins, ..Self::default() }
    }

    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn warn(&self, warning: impl Into<Warning>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning.into());
    }

    /// Variables of a group or host beside an inventory or playbook. Variables of vars plugins come before its files:
    /// `NAME`, otherwise `NAME.yml`, `NAME.yaml` or `NAME.json`. For a directory, all files in it.
    pub(crate) fn find(&self, base: &Path, kind: Kind, name: &str) -> Result<Vec<File>, Error> {
        // Names may come from a host (`group_by` over facts) and must not escape the directory.
        if name.starts_with('/') || name.split('/').any(|part| part == "..") || name.contains('\0') {
            return Ok(Vec::new());
        }
        let mut files = self.of_plugins(base, kind, name)?;
        let directory = base.join(kind.directory());
        let Some(listing) = self.listing(&directory)? else { return Ok(files) };
        // The listing only has plain names, so a name with a slash needs a lookup.
        let is_there = |candidate: &str| {
            if name.contains('/') {
                directory.join(candidate).exists()
            } else {
                listing.contains(candidate.as_ref() as &std::ffi::OsStr)
            }
        };
        let candidates =
            std::iter::once(name.to_owned()).chain(EXTENSIONS.map(|extension| format!("{name}.{extension}")));
        let of_sops = EXTENSIONS.map(|extension| format!("{name}.sops.{extension}"));
        let found = candidates.into_iter().find(|candidate| is_there(candidate)).into_iter();
        let found = found.chain(of_sops.into_iter().filter(|candidate| is_there(candidate)));
        let mut paths = Vec::new();
        for path in found.map(|name| directory.join(name)) {
            if path.is_dir() { self.collect(&path, &mut paths)? } else { paths.push(path) }
        }
        for path in paths {
            let vars = self.variables(&path)?;
            files.push((Arc::from(path), vars));
        }
        Ok(files)
    }

    /// Variables that vars plugins give to a group or host, with the file of each plugin.
    fn of_plugins(&self, base: &Path, kind: Kind, name: &str) -> Result<Vec<File>, Error> {
        let Some(plugins) = self.plugins.as_ref().filter(|_| !self.has_no_plugins.load(Ordering::Relaxed)) else {
            return Ok(Vec::new());
        };
        let key = (base.to_owned(), kind, name.to_owned());
        if let Some(known) = self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let owner = VarsOwner { directory: base, is_group: kind == Kind::Group, name, secrets: &self.secrets };
        let Some(found) = plugins.vars(&owner).map_err(|message| Error::VarsPlugin { message })? else {
            self.has_no_plugins.store(true, Ordering::Relaxed);
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for vars in found {
            let mapping = vars.mapping(&self.options())?;
            files.push((Arc::from(vars.plugin), mapping));
        }
        self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner).insert(key, files.clone());
        Ok(files)
    }

    /// Variables that vars plugins have given, from this request on.
    pub(crate) fn given_by_plugins(&self, from: usize) -> Vec<PluginVars> {
        let known = self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let given = |((directory, kind, name), given): (&(PathBuf, Kind, String), &Vec<File>)| PluginVars {
            directory: directory.clone(),
            is_group: *kind == Kind::Group,
            name: name.clone(),
            given: given.clone(),
        };
        known.iter().skip(from).map(given).collect()
    }

    /// Variables that vars plugins give to a group or host now, or have given.
    pub(crate) fn ask_plugins(&self, directory: &Path, is_group: bool, name: &str) -> Result<PluginVars, Error> {
        let given = self.of_plugins(directory, if is_group { Kind::Group } else { Kind::Host }, name)?;
        Ok(PluginVars { directory: directory.to_owned(), is_group, name: name.to_owned(), given })
    }

    fn listing(&self, directory: &Path) -> Result<Option<Arc<HashSet<OsString>>>, Error> {
        if let Some(listing) = self.listings.lock().unwrap_or_else(PoisonError::into_inner).get(directory) {
            return Ok(listing.clone());
        }
        let listing = if directory.is_dir() {
            Some(Arc::new(names(directory)?.into_iter().collect::<HashSet<_>>()))
        } else {
            if directory.exists() {
                self.warn(Warning::NotADirectory { path: directory.to_path_buf() });
            }
            None
        };
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_path_buf(), listing.clone());
        Ok(listing)
    }

    /// Collects the files of a directory and its subdirectories, sorted, without hidden files and backups.
    fn collect(&self, directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
        let mut entries = names(directory)?;
        entries.sort();
        for entry in entries {
            let text = entry.to_string_lossy();
            if text.starts_with('.') || text.ends_with('~') {
                continue;
            }
            let path = directory.join(&entry);
            let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
            match extension {
                None if path.is_dir() => self.collect(&path, paths)?,
                None => paths.push(path),
                Some(extension) if EXTENSIONS.contains(&extension.as_str()) && path.is_file() => paths.push(path),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn variables(&self, path: &Path) -> Result<Arc<Mapping>, Error> {
        if let Some(vars) = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(Arc::clone(vars));
        }
        let source = source_of(path, windlass_bounds::read_regular(path), &self.secrets)?;
        let loaded = windlass_yaml::parse(Arc::clone(&source), &self.options())?;
        for warning in &loaded.warnings {
            self.warn(warning.clone());
        }
        let document = without_sops(loaded.into_one(&source)?, &self.secrets)?;
        let vars = match &document.value {
            Value::Map(mapping) => Arc::clone(mapping),
            Value::Null => Arc::default(),
            _ => {
                let message = format!("A file of variables must be a mapping, but this is {}.", document.kind());
                return Err(Error::at(&document.span, message).with_hint("Write `name: value` in each line."));
            }
        };
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_path_buf(), Arc::clone(&vars));
        Ok(vars)
    }

    /// Decrypts a value.
    pub(crate) fn decrypt(&self, ciphertext: &str) -> Result<String, windlass_vault::Error> {
        let plain = windlass_vault::decrypt(ciphertext.as_bytes(), &self.secrets)?;
        Ok(String::from_utf8_lossy(&plain).into_owned())
    }

    pub(crate) fn options(&self) -> Options {
        Options { duplicate_keys: self.duplicate_keys, ..Options::default() }
    }
}

fn names(directory: &Path) -> Result<Vec<OsString>, Error> {
    let refused = |source| Error::Read { path: directory.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(refused)? {
        names.push(entry.map_err(refused)?.file_name());
    }
    Ok(names)
}

/// Decrypts a document if sops has encrypted it.
pub(crate) fn without_sops(document: Node, secrets: &Secrets) -> Result<Node, Error> {
    let plain = windlass_sops::decrypt(&document, secrets);
    Ok(plain.map_err(|error| Error::at(&error.span, error.message))?.unwrap_or(document))
}

/// Reads a file, which may be a pipe that the user named, and decrypts it if it is a vault or of age.
pub(crate) fn read_source(path: &Path, secrets: &Secrets) -> Result<Arc<Source>, Error> {
    source_of(path, windlass_bounds::read(path), secrets)
}

fn source_of(path: &Path, read: std::io::Result<Vec<u8>>, secrets: &Secrets) -> Result<Arc<Source>, Error> {
    let bytes = read.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    let plain = windlass_vault::decrypt_variables(&bytes, secrets);
    let plain = plain.map_err(|source| Error::Vault { path: path.to_path_buf(), source })?;
    let is_encrypted = plain.is_some();
    let bytes = plain.unwrap_or(bytes);
    let text = String::from_utf8(bytes).map_err(|_| Error::NotText { path: path.to_path_buf() })?;
    let name = path.display().to_string();
    Ok(if is_encrypted { Source::secret(name, text) } else { Source::new(name, text) })
}
