//! The template engine of a run.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_vault::Secrets;

use crate::compat::Compat;
use crate::context::Context;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::plugins::Plugins;
use crate::reads::Reads;
use crate::registry::Library;
use crate::scope::Scope;
use crate::settings::Settings;

/// Options of a run's engine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Version of ansible-core to follow.
    pub compat: Compat,
    /// Whether conditions may yield values other than booleans, with every version.
    pub allow_broken_conditionals: bool,
    /// Whether templates yield values rather than text with ansible-core 2.18; since 2.19 they always do.
    pub jinja2_native: bool,
    /// Directory of the playbook.
    pub playbook_dir: PathBuf,
    /// Passwords for vaulted values.
    pub secrets: Secrets,
    /// Collects decrypted texts, so that output can mask them.
    pub revealed: Revealed,
    /// Collects inputs of the control machine.
    pub reads: Reads,
    /// External filters, tests and lookups.
    pub plugins: Option<Arc<dyn Plugins>>,
    /// Settings of the run.
    pub settings: Option<Arc<dyn Settings>>,
    /// Limits on programs that lookups start.
    pub commands: windlass_bounds::child::Limits,
    /// Limits on conditions.
    pub limits: Limits,
    /// Value of `ansible_managed` unless the project defines it.
    pub managed: String,
    /// Whether results of lookups that do more than read are unknown, instead of running them.
    pub passive: bool,
}

/// Every text decrypted during a run. Clones share the set.
#[derive(Clone, Default)]
pub struct Revealed(Arc<Set>);

#[derive(Default)]
struct Set {
    texts: Mutex<HashSet<Arc<str>>>,
    count: AtomicUsize,
}

impl Revealed {
    /// Adds a text, unless it is blank.
    pub fn insert(&self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let mut texts = self.0.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(Arc::from(text));
        self.0.count.store(texts.len(), Ordering::Release);
    }

    /// Number of texts. A masker needs a new copy only when this has grown.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Whether this text was decrypted.
    pub fn contains(&self, text: &str) -> bool {
        self.0.texts.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
    }

    /// All texts.
    pub fn texts(&self) -> Vec<Arc<str>> {
        self.0.texts.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl fmt::Debug for Revealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revealed({} texts)", self.count())
    }
}

/// Options for reading one template file.
#[derive(Clone, Debug)]
pub struct TemplateOptions {
    /// Drops the first newline after a block tag.
    pub trim_blocks: bool,
    /// Drops spaces before a block tag that starts a line.
    pub lstrip_blocks: bool,
    /// Replacement for newlines.
    pub newline_sequence: String,
    /// Keeps the last newline. Otherwise, newlines missing at the end of the rendered text are restored.
    pub keep_trailing_newline: bool,
    /// `{%` and `%}`.
    pub block: (String, String),
    /// `{{` and `}}`.
    pub variable: (String, String),
    /// `{#` and `#}`.
    pub comment: (String, String),
    /// Prefix of a line statement, such as `#`.
    pub line_statement_prefix: Option<String>,
    /// Prefix of a comment that ends with its line, such as `##`.
    pub line_comment_prefix: Option<String>,
    /// Directories to search for included templates before the scope's own.
    pub search_paths: Vec<PathBuf>,
}

impl Default for TemplateOptions {
    fn default() -> Self {
        let pair = |start: &str, end: &str| (start.to_owned(), end.to_owned());
        TemplateOptions {
            trim_blocks: true,
            lstrip_blocks: false,
            newline_sequence: "\n".to_owned(),
            keep_trailing_newline: false,
            block: pair("{%", "%}"),
            variable: pair("{{", "}}"),
            comment: pair("{#", "#}"),
            line_statement_prefix: None,
            line_comment_prefix: None,
            search_paths: Vec::new(),
        }
    }
}

impl TemplateOptions {
    /// Cache key that distinguishes these options from others.
    pub(crate) fn key(&self) -> String {
        format!(
            "{:?}{:?}{}{}{}{:?}{:?}{:?}{:?}",
            self.line_statement_prefix,
            self.line_comment_prefix,
            self.trim_blocks,
            self.lstrip_blocks,
            self.keep_trailing_newline,
            self.newline_sequence,
            self.block,
            self.variable,
            self.comment
        )
    }
}

/// The template engine of one run. Cheap to clone; shared by all hosts and threads.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    library: &'static Library,
    options: Options,
    /// Cache of decrypted texts: deriving a key is slow, and every host needs the same values.
    decrypted: Mutex<HashMap<Arc<str>, Arc<str>>>,
}

impl Engine {
    /// Creates the engine of a run. Its templates may use the filters, tests and lookups of the library.
    pub fn new(library: &'static Library, options: Options) -> Engine {
        Engine(Arc::new(Shared { library, options, decrypted: Mutex::default() }))
    }

    /// Filters, tests and lookups of its templates.
    pub(crate) fn library(&self) -> &'static Library {
        self.0.library
    }

    /// The engine's options.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Texts decrypted so far.
    pub fn revealed(&self) -> &Revealed {
        &self.0.options.revealed
    }

    /// Opens an evaluation context with the variables of one host and task.
    pub fn scope(&self, variables: Arc<dyn Scope>) -> Context {
        Context::new(self.clone(), variables)
    }

    /// Decrypts a vaulted value and adds its text to [`Revealed`].
    pub fn decrypt(&self, ciphertext: &Arc<str>) -> Result<Arc<str>, Error> {
        let lock = || self.0.decrypted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = lock().get(ciphertext) {
            return Ok(text.clone());
        }
        let vault = |message: String| Error::new(ErrorKind::Vault, message);
        let plain = windlass_vault::decrypt(ciphertext.as_bytes(), &self.0.options.secrets)
            .map_err(|error| vault(error.to_string()).of_ciphertext(ciphertext))?;
        let text: Arc<str> = String::from_utf8(plain)
            .map_err(|_| vault("The vaulted value is not text: it is not UTF-8.".to_owned()))?
            .into();
        self.0.options.revealed.insert(&text);
        lock().insert(ciphertext.clone(), text.clone());
        Ok(text)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("compat", &self.0.options.compat).finish_non_exhaustive()
    }
}
