//! Files of a tree that have encrypted content, and what they become.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_vault::{Error as VaultError, Secret, Secrets};
use windlass_yaml::{Node, Options, Source, Value, parse};
use zeroize::Zeroizing;

use super::{encrypted, inline};
use crate::error::{Error, Result};
use crate::settings::Settings;

/// Maximum depth of folders.
const DEPTH: usize = 64;

/// Files with their new content, and the encrypted parts that stay as they are, because their password was not given.
#[derive(Default)]
pub(super) struct Rekeyed {
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    pub(super) values: usize,
    pub(super) left: Vec<String>,
}

/// Old and new passwords of a rekey.
pub(super) struct Rekey<'a> {
    pub(super) old: &'a Secrets,
    pub(super) new: &'a Secret,
    pub(super) settings: &'a Settings,
}

impl Rekey<'_> {
    /// Encrypts everything below these paths with the new password, without writing any file.
    pub(super) fn all(&self, paths: &[PathBuf]) -> Result<Rekeyed> {
        let mut rekeyed = Rekeyed::default();
        for path in paths {
            match path.is_dir() {
                true => self.folder(path, 0, &mut rekeyed)?,
                false => self.file(path, true, &mut rekeyed)?,
            }
        }
        Ok(rekeyed)
    }

    fn folder(&self, folder: &Path, depth: usize, rekeyed: &mut Rekeyed) -> Result<()> {
        let fail = |error: std::io::Error| Error::new(format!("{} cannot be read: {error}", folder.display()));
        let entries = std::fs::read_dir(folder).map_err(fail)?.collect::<std::io::Result<Vec<_>>>().map_err(fail)?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        for path in paths.into_iter().filter(|path| !path.is_symlink()) {
            if path.is_dir() && !is_hidden(&path) && depth < DEPTH {
                self.folder(&path, depth + 1, rekeyed)?;
            } else if path.is_file() {
                self.file(&path, false, rekeyed)?;
            }
        }
        Ok(())
    }

    fn file(&self, path: &Path, is_named: bool, rekeyed: &mut Rekeyed) -> Result<()> {
        // Changes the target of a link; the link stays.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let data = super::read(path)?;
        if windlass_vault::is_vault(&data) {
            let place = path.display().to_string();
            if let Some(new) = self.envelope(&data, &place, rekeyed)? {
                rekeyed.files.push((path.clone(), new.into_bytes()));
            }
            return Ok(());
        }
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_yaml = ending.is_none_or(|ending| ["yml", "yaml"].contains(&ending.as_str()));
        let text = std::str::from_utf8(&data).ok().filter(|text| is_yaml && inline::may_have(text));
        let Some(text) = text else {
            return match is_named {
                true => Err(Error::new(format!("{}: {}", path.display(), VaultError::NotEncrypted))),
                false => Ok(()),
            };
        };
        let (mut found, before) = (0, rekeyed.values);
        let changed = inline::replaced(text, |envelope, line| {
            found += 1;
            let new = self.envelope(envelope.as_bytes(), &format!("{}:{line}", path.display()), rekeyed)?;
            Ok::<_, Error>(new.unwrap_or_else(|| envelope.to_owned()))
        })?;
        if found < envelopes(path, text)?.len() {
            return Err(Error::new(format!(
                "{} has an encrypted value in a form that cannot be rewritten. Write it as `!vault |`, with the envelope \
                 in the lines that follow",
                path.display()
            )));
        }
        if rekeyed.values > before {
            rekeyed.files.push((path.clone(), changed.into_bytes()));
        }
        Ok(())
    }

    /// An envelope with the new password; `None` if it belongs to a vault id that was not given.
    fn envelope(&self, data: &[u8], place: &str, rekeyed: &mut Rekeyed) -> Result<Option<String>> {
        let plain = match windlass_vault::decrypt_with_secret(data, self.old) {
            Ok((plain, _)) => Zeroizing::new(plain),
            Err(VaultError::NoMatchingLabel { wanted } | VaultError::WrongPassword { wanted: Some(wanted), .. })
                if self.old.get(&wanted).is_none() =>
            {
                rekeyed.left.push(format!("{place}: left as it is, because it has the vault id `{wanted}`"));
                return Ok(None);
            }
            Err(error) => return Err(Error::new(format!("{place}: {error}"))),
        };
        rekeyed.values += 1;
        encrypted(&plain, self.new, self.settings).map(Some)
    }
}

/// Encrypted values of a YAML file. Those of an alias are found twice.
fn envelopes(path: &Path, text: &str) -> Result<BTreeSet<Arc<str>>> {
    fn of(node: &Node, found: &mut BTreeSet<Arc<str>>) {
        match &node.value {
            Value::Vault(envelope) => _ = found.insert(Arc::clone(envelope)),
            Value::List(items) => items.iter().for_each(|item| of(item, found)),
            Value::Map(mapping) => mapping.values().for_each(|value| of(value, found)),
            _ => {}
        }
    }
    let source = Source::secret(path.display().to_string(), text);
    let mut found = BTreeSet::new();
    parse(source, &Options::default())?.documents.iter().for_each(|document| of(document, &mut found));
    Ok(found)
}
