//! Reading the project's files, decrypted where needed, and the variables that are known before any host is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_template::{Scope, Variable};
use windlass_vault::Secrets;
use windlass_yaml::{DuplicateKeys, Mapping, Node, Options, Source, Span};

use crate::error::{Error, Result};

/// The project's files: each is read and parsed once in a run.
#[derive(Debug)]
pub struct Files {
    secrets: Secrets,
    duplicate_keys: DuplicateKeys,
    parsed: Mutex<HashMap<PathBuf, Node>>,
    warnings: Mutex<Vec<String>>,
}

impl Files {
    /// Reads with these vault secrets.
    pub fn new(secrets: Secrets, duplicate_keys: DuplicateKeys) -> Files {
        Files { secrets, duplicate_keys, parsed: Mutex::default(), warnings: Mutex::default() }
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
        let node = loaded.into_one(&source)?;
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), node.clone());
        Ok(node)
    }

    /// A file's bytes, decrypted if it is a vault, and whether it was one.
    pub fn bytes(&self, path: &Path) -> Result<(Vec<u8>, bool)> {
        let bytes = std::fs::read(path)
            .map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())).as_parse())?;
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
        let node = self.yaml(path)?;
        if node.is_null() {
            return Ok(Arc::default());
        }
        let found = node.as_map().cloned();
        found.ok_or_else(|| {
            Error::parse(
                format!("{} must hold a mapping of variables, not {}", path.display(), node.kind()),
                &node.span,
            )
        })
    }

    /// Notes something to be told the user; the same is told once.
    pub fn warn(&self, sentence: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&sentence) {
            warnings.push(sentence);
        }
    }

    /// What is to be told the user about files that were read; each is told once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Variables that are known while a playbook is loaded: the command line's, the play's, its files' and the blocks' around.
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

/// The folder a value was written in, or the current one.
pub(super) fn folder_of(span: &Span) -> PathBuf {
    Path::new(&span.source.name).parent().map(Path::to_path_buf).unwrap_or_default()
}
