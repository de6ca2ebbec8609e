//! Reading the project's files, decrypted where needed, and the variables that are known before any host is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use windlass_template::{Context, Scope, Variable};
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Mapping, Node, Options, Source, Span};

use crate::error::{Error, Result};

/// Largest file of the project that may be encrypted, in bytes. Copied files that are not are never read whole.
const LARGEST_CONTENT: u64 = 1 << 30;

/// The project's files: each is read and parsed once in a run.
#[derive(Debug)]
pub struct Files {
    secrets: Secrets,
    duplicate_keys: DuplicateKeys,
    parsed: Mutex<HashMap<PathBuf, Node>>,
    warnings: Mutex<Vec<String>>,
    /// Files that were read, for the journal.
    read: Mutex<FilesRead>,
}

/// Files that were read, each with the SHA-256 of its bytes.
#[derive(Debug, Default)]
struct FilesRead {
    all: HashMap<PathBuf, String>,
    /// Those that are new, or had other bytes than before.
    new: Vec<(PathBuf, String)>,
}

impl FilesRead {
    fn note(&mut self, path: &Path, hash: String) {
        if self.all.get(path) != Some(&hash) {
            self.all.insert(path.to_owned(), hash.clone());
            self.new.push((path.to_owned(), hash));
        }
    }
}

impl Files {
    /// Reads with these vault secrets.
    pub fn new(secrets: Secrets, duplicate_keys: DuplicateKeys) -> Files {
        Files { secrets, duplicate_keys, parsed: Mutex::default(), warnings: Mutex::default(), read: Mutex::default() }
    }

    /// The vault secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A file as YAML; an empty one is `null`.
    pub fn yaml(&self, path: &Path) -> Result<Node> {
        if let Some(node) = self.parsed.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(node.clone());
        }
        let node = self.parse(path)?;
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), node.clone());
        Ok(node)
    }

    fn parse(&self, path: &Path) -> Result<Node> {
        let (bytes, encrypted) = self.bytes(path)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::new(format!(
                "{} is not UTF-8: byte {} cannot be read",
                path.display(),
                error.utf8_error().valid_up_to()
            ))
            .as_parse()
        })?;
        let name = path.display().to_string();
        let source = if encrypted { Source::secret(name, text) } else { Source::new(name, text) };
        let options = Options { duplicate_keys: self.duplicate_keys, ..Options::default() };
        let loaded = windlass_yaml::parse(Arc::clone(&source), &options)?;
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.extend(loaded.warnings.iter().map(ToString::to_string));
        Ok(loaded.into_one(&source)?)
    }

    /// A file's bytes, decrypted if it is a vault, and whether it was one.
    pub fn bytes(&self, path: &Path) -> Result<(Vec<u8>, bool)> {
        // An encrypted file may be large; what is no regular file may have no end.
        let limit = if path.is_file() { LARGEST_CONTENT } else { windlass_bounds::LARGEST_FILE };
        let bytes = windlass_bounds::read_up_to(path, limit)
            .map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())).as_parse())?;
        let hash = hex::encode(Sha256::digest(&bytes));
        self.read.lock().unwrap_or_else(PoisonError::into_inner).note(path, hash);
        if !windlass_vault::is_encrypted(&bytes) {
            return Ok((bytes, false));
        }
        let clear = windlass_vault::decrypt(&bytes, &self.secrets).map_err(|error| match error {
            windlass_vault::Error::NoSecrets => {
                let message = format!("A vault password or secret must be specified to decrypt {}", path.display());
                Error::new(message).hint("give one with --vault-password-file, --vault-id or --ask-vault-pass")
            }
            error => Error::new(format!("{} cannot be decrypted: {error}", path.display())),
        })?;
        Ok((clear, true))
    }

    /// A file that must hold a mapping of variables, or nothing.
    pub fn variables(&self, path: &Path) -> Result<Arc<Mapping>> {
        variables_in(path, &self.yaml(path)?)
    }

    /// The same of a file that may be written anew before it is used, so what is read now is not kept.
    pub fn variables_now(&self, path: &Path) -> Result<Arc<Mapping>> {
        variables_in(path, &self.parse(path)?)
    }

    /// Notes something to be told the user; the same is told once.
    pub fn warn(&self, sentence: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&sentence) {
            warnings.push(sentence);
        }
    }

    /// Files read for the first time since this was last called, or with other bytes; each with their SHA-256.
    pub fn take_read(&self) -> Vec<(PathBuf, String)> {
        std::mem::take(&mut self.read.lock().unwrap_or_else(PoisonError::into_inner).new)
    }

    /// What is to be told the user about files that were read; each is told once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn variables_in(path: &Path, node: &Node) -> Result<Arc<Mapping>> {
    if node.is_null() {
        return Ok(Arc::default());
    }
    let found = node.as_map().cloned();
    found.ok_or_else(|| {
        Error::parse(format!("{} must hold a mapping of variables, not {}", path.display(), node.kind()), &node.span)
    })
}

/// Plain layers of variables, with nothing that a run would add.
#[derive(Debug, Clone, Default)]
pub struct StaticScope {
    /// From the lowest rank to the highest.
    pub layers: Vec<Arc<Mapping>>,
}

impl Scope for StaticScope {
    fn get(&self, name: &str) -> Option<Variable> {
        self.layers.iter().rev().find_map(|layer| layer.get(name)).map(|node| Variable::Text(node.clone()))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.layers.iter().flat_map(|layer| layer.keys()).filter_map(|key| key.as_str()).map(Arc::from).collect()
    }
}

/// What an entry of `vars_files` leads to.
pub enum VarsFile {
    /// A file.
    Found(PathBuf),
    /// Its name is not known yet: it may depend on facts.
    NotKnown,
    /// None of these files is there.
    Missing(Vec<String>),
}

impl VarsFile {
    /// An entry is a file, or a list of which the first that exists is taken.
    pub fn find(entry: &Node, dir: &Path, context: &Context) -> Result<VarsFile> {
        let candidates = entry.as_list().map_or_else(|| vec![entry.clone()], <[Node]>::to_vec);
        let mut tried = Vec::new();
        for candidate in &candidates {
            let name = match context.render_to_string(candidate) {
                Ok(name) => name,
                Err(error) if error.is_undefined() => return Ok(VarsFile::NotKnown),
                Err(error) => return Err(Error::parse(error.report(), &candidate.span)),
            };
            let places = [dir.join("vars").join(&name), dir.join(&name)];
            if let Some(path) = places.into_iter().find(|path| path.is_file()) {
                return Ok(VarsFile::Found(path));
            }
            tried.push(name);
        }
        Ok(VarsFile::Missing(tried))
    }
}

/// The folder a value was written in, or the current one.
pub(super) fn folder_of(span: &Span) -> PathBuf {
    Path::new(&span.source.name).parent().map(Path::to_path_buf).unwrap_or_default()
}
