//! Common parts of lookups: options, terms as text, and file search.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use minijinja::Value;
use windlass_yaml::boolean::is_true;

use crate::filters::paths::{home_expanded, normalized};
use crate::limits::{self, LONGEST_TEXT};
use crate::python::{text, truth};
use crate::reads::{Read, Reads};
use crate::registry::LookupOptions;
use crate::{Context, Error, Lookup};

/// A lookup in the registry.
pub(super) struct Entry {
    pub(super) names: &'static [&'static str],
    pub(super) run: fn(&Call<'_>) -> Answer,
}

/// Result of a lookup, always a list.
pub(super) type Answer = Result<Vec<Value>, Error>;

impl Lookup for Entry {
    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn run(&self, context: &Context, terms: &[Value], options: &LookupOptions) -> Answer {
        let name = self.names.first().copied().unwrap_or_default();
        (self.run)(&Call { name, context, terms, options })
    }
}

/// One call of a lookup.
pub(super) struct Call<'c> {
    name: &'static str,
    pub(super) context: &'c Context,
    pub(super) terms: &'c [Value],
    pub(super) options: &'c LookupOptions,
}

impl Call<'_> {
    /// Creates an error about this call; the reason continues "The lookup 'x' ...".
    pub(super) fn error(&self, reason: impl AsRef<str>) -> Error {
        Error::lookup(format!("The lookup '{}' {}.", self.name, reason.as_ref().trim_end_matches('.')))
    }

    /// The terms, each as text.
    pub(super) fn texts(&self) -> Vec<String> {
        self.terms.iter().map(text).collect()
    }

    /// An option, unless it is missing or `none`.
    pub(super) fn option(&self, name: &str) -> Option<&Value> {
        self.options.get(name).filter(|value| !value.is_none())
    }

    /// An option as text.
    pub(super) fn text(&self, name: &str, default: &str) -> String {
        self.option(name).map_or_else(|| default.to_owned(), text)
    }

    /// An option that is a boolean or a word such as `yes`.
    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        match self.option(name) {
            None => default,
            Some(value) => match value.as_str() {
                Some(word) => is_true(word),
                None => truth(value),
            },
        }
    }

    /// Finds a file. An absolute path is used as it is. Otherwise, the directories of the role and the playbook are
    /// searched, each first in its `subdirectory`.
    pub(super) fn find(&self, subdirectory: &str, name: &str) -> Option<PathBuf> {
        let name = home_expanded(name);
        let tidy = |path: PathBuf| PathBuf::from(normalized(&path.to_string_lossy()));
        if name.starts_with('/') {
            return self.reads().first([tidy(PathBuf::from(name))], Path::exists);
        }
        let candidates = self.directories().into_iter().flat_map(|directory| {
            let inside = (!subdirectory.is_empty()).then(|| directory.join(subdirectory).join(&name));
            inside.into_iter().chain([directory.join(&name)])
        });
        self.reads().first(candidates.map(tidy), Path::exists)
    }

    /// Inputs of the control machine.
    pub(super) fn reads(&self) -> &Reads {
        &self.context.engine().options().reads
    }

    /// Like [`Self::find`], but a missing file is an error.
    pub(super) fn need_file(&self, subdirectory: &str, name: &str) -> Result<PathBuf, Error> {
        self.find(subdirectory, name).ok_or_else(|| {
            let searched: Vec<String> = match Path::new(name).is_absolute() {
                true => Vec::new(),
                false => {
                    let directories = self.directories();
                    let named = directories.iter().filter(|directory| !directory.as_os_str().is_empty());
                    named.map(|directory| directory.display().to_string()).collect()
                }
            };
            match searched.is_empty() {
                true => self.error(format!("cannot find the file '{name}': No such file or directory")),
                false => self.error(format!(
                    "cannot find the file '{name}': No such file or directory in {} (nor in '{subdirectory}' there)",
                    searched.join(", ")
                )),
            }
        })
    }

    /// Directories to search, nearest first; the playbook's is always the last.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut directories = self.context.search_paths();
        let playbook = &self.context.engine().options().playbook_dir;
        if !directories.contains(playbook) {
            directories.push(playbook.clone());
        }
        directories
    }

    /// Reads a UTF-8 file.
    pub(super) fn read(&self, path: &Path) -> Result<String, Error> {
        self.read_as(path, "utf-8")
    }

    /// Reads a file in an encoding, given by its Python name.
    pub(super) fn read_as(&self, path: &Path, encoding: &str) -> Result<String, Error> {
        self.reads().note(Read::File(path.to_owned()));
        let mut bytes = Vec::new();
        windlass_bounds::open(path)
            .and_then(|source| source.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| self.error(format!("cannot read '{}': {error}", path.display())))?;
        limits::text(bytes.len()).map_err(|_| {
            self.error(format!("cannot use '{}', which is longer than {LONGEST_TEXT} bytes", path.display()))
        })?;
        let encrypted = windlass_vault::is_encrypted(&bytes);
        let bytes = match encrypted {
            true => windlass_vault::decrypt(&bytes, &self.context.engine().options().secrets)
                .map_err(|error| self.error(format!("cannot decrypt '{}': {error}", path.display())))?,
            false => bytes,
        };
        let text = match encoding.to_lowercase().replace(['-', '_', ' '], "").as_str() {
            "utf8" | "utf8sig" | "u8" | "ascii" | "usascii" => String::from_utf8(bytes)
                .map_err(|_| self.error(format!("cannot use '{}', which is not UTF-8 text", path.display())))?,
            "latin1" | "iso88591" | "l1" | "8859" | "cp819" => bytes.into_iter().map(char::from).collect(),
            _ => {
                return Err(self.error(format!("does not know the encoding '{encoding}'; there are utf-8 and latin-1")));
            }
        };
        if encrypted {
            // Secrets in the file must not appear in the output.
            self.context.engine().revealed().insert(text.trim());
        }
        Ok(text)
    }
}
