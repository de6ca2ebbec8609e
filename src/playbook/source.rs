//! Reads and decrypts the project's files, and variables that are known before any host.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use windlass_template::{Context, Reads, Scope, Variable};
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Mapping, Node, Options, Source, Span};

use crate::error::{Error, Result};

/// Maximum size of an encrypted file in bytes. Unencrypted files to copy are never read whole.
const LARGEST_CONTENT: u64 = 1 << 30;

/// Files of the project. Each one is read and parsed once per run.
#[derive(Debug)]
pub struct Files {
    secrets: Secrets,
    duplicate_keys: DuplicateKeys,
    parsed: Mutex<HashMap<PathBuf, Node>>,
    warnings: Mutex<Vec<String>>,
    /// Files read so far, for the journal.
    read: Mutex<FilesRead>,
    reads: Reads,
}

/// Files read so far, each with the SHA-256 of its bytes.
#[derive(Debug, Default)]
struct FilesRead {
    all: HashMap<PathBuf, String>,
    /// Files that are new or have changed since the last report.
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
    /// Reader with these vault secrets.
    pub fn new(secrets: Secrets, duplicate_keys: DuplicateKeys) -> Files {
        Files {
            secrets,
            duplicate_keys,
            parsed: Mutex::default(),
            warnings: Mutex::default(),
            read: Mutex::default(),
            reads: Reads::default(),
        }
    }

    /// Other inputs of the control machine, for the journal.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Vault secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Parses a file as YAML; an empty file is `null`.
    pub fn yaml(&self, path: &Path) -> Result<Node> {
        if let Some(node) = self.parsed.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(node.clone());
        }
        let node = self.parse(path)?;
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), node.clone());
        Ok(node)
    }

    fn parse(&self, path: &Path) -> Result<Node> {
        let (mut bytes, mut encrypted) = self.bytes(path)?;
        // Variables of age; other files stay as they are.
        if windlass_vault::is_age(&bytes) {
            let plain = windlass_vault::decrypt_variables(&bytes, &self.secrets);
            let fail = |error| Error::new(format!("{} cannot be decrypted: {error}", path.display()));
            bytes = plain.map_err(fail)?.unwrap_or_default();
            encrypted = true;
        }
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
        let node = loaded.into_one(&source)?;
        let plain = windlass_sops::decrypt(&node, &self.secrets);
        Ok(plain.map_err(|error| Error::parse(error.message, &error.span))?.unwrap_or(node))
    }

    /// Bytes of a file, decrypted if it is a vault, and whether it was one.
    pub fn bytes(&self, path: &Path) -> Result<(Vec<u8>, bool)> {
        // Encrypted files may be large; a device or pipe may never end.
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

    /// Variables in a file, which must contain a mapping or nothing.
    pub fn variables(&self, path: &Path) -> Result<Arc<Mapping>> {
        variables_in(path, &self.yaml(path)?)
    }

    /// Variables in a file that may change before it is used, so the result is not cached.
    pub fn variables_now(&self, path: &Path) -> Result<Arc<Mapping>> {
        variables_in(path, &self.parse(path)?)
    }

    /// Records a warning for the user, unless it is already recorded.
    pub fn warn(&self, sentence: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&sentence) {
            warnings.push(sentence);
        }
    }

    /// Files that are new or have changed since the last call, with their SHA-256.
    pub fn take_read(&self) -> Vec<(PathBuf, String)> {
        std::mem::take(&mut self.read.lock().unwrap_or_else(PoisonError::into_inner).new)
    }

    /// Takes the recorded warnings.
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

/// Layers of variables without anything that a run adds.
#[derive(Debug, Clone, Default)]
pub struct StaticScope {
    /// Layers from the lowest precedence to the highest.
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

/// Result of resolving an entry of `vars_files`.
pub enum VarsFile {
    /// An existing file.
    Found(PathBuf),
    /// The name cannot be rendered yet; it may depend on facts.
    NotKnown,
    /// None of these files exists.
    Missing(Vec<String>),
}

impl VarsFile {
    /// Resolves an entry: a file, or a list of which the first existing file counts.
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

/// Directory of the file that contains a value, or the current one.
pub(crate) fn folder_of(span: &Span) -> PathBuf {
    Path::new(&span.source.name).parent().map(Path::to_path_buf).unwrap_or_default()
}
