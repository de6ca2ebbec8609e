//! Files of a tree that have encrypted content, and what they become.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_vault::{DEFAULT_LABEL, Error as VaultError, Secret, Secrets};
use windlass_yaml::{Node, Options, Source, Value, parse};
use zeroize::Zeroizing;

use super::{encrypted, inline};
use crate::error::{Error, Result};
use crate::settings::Settings;

/// Maximum size of a file that may have encrypted content, in bytes.
const LARGEST: u64 = 64 << 20;
/// Maximum depth of folders.
const DEPTH: usize = 64;

/// Files with their new content, and the encrypted parts that stay as they are, because their password was not given.
#[derive(Default)]
pub(super) struct Rekeyed {
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    pub(super) values: usize,
    /// Vault ids of the parts that stay.
    pub(super) labels: BTreeSet<String>,
    pub(super) left: Vec<String>,
}

/// How the user chose a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    /// The user named the file, so a file with nothing to rekey is an error.
    ByName,
    InFolder,
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
                false => self.file(path, Chosen::ByName, &mut rekeyed)?,
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
                self.file(&path, Chosen::InFolder, rekeyed)?;
            }
        }
        Ok(())
    }

    fn file(&self, path: &Path, chosen: Chosen, rekeyed: &mut Rekeyed) -> Result<()> {
        let is_named = chosen == Chosen::ByName;
        // Changes the target of a link; the link stays.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if rekeyed.files.iter().any(|(known, _)| known == path) {
            return Ok(());
        }
        let place = path.display().to_string();
        let data = match windlass_bounds::read_up_to(path, LARGEST) {
            Ok(data) => data,
            Err(error) if is_named => return Err(Error::new(format!("{place} cannot be read: {error}"))),
            // Large and unreadable files hardly contain variables. The report names them, in case one is vaulted.
            Err(error) => {
                rekeyed.left.push(format!("{place}: left as it is, because it cannot be read: {error}"));
                return Ok(());
            }
        };
        if windlass_vault::is_encrypted(&data) {
            if let Some(new) = self.envelope(&data, &place, rekeyed)? {
                rekeyed.files.push((path.clone(), new.into_bytes()));
            }
            return Ok(());
        }
        match std::str::from_utf8(&data).ok().filter(|text| inline::may_have(text)) {
            Some(text) => self.values(path, text, rekeyed),
            None if is_named && windlass_vault::is_age(&data) => {
                Err(Error::new(format!("{place}: {}", VaultError::OfAge)))
            }
            None if is_named => Err(Error::new(format!("{place}: {}", VaultError::NotEncrypted))),
            None => Ok(()),
        }
    }

    /// Encrypts the values in a YAML file.
    fn values(&self, path: &Path, text: &str, rekeyed: &mut Rekeyed) -> Result<()> {
        let place = path.display();
        // Text with templates, or about vaults, may have what looks like a value.
        let Some(mut values) = lines_of_values(path, text) else {
            rekeyed.left.push(format!("{place}: left as it is, because it is not YAML"));
            return Ok(());
        };
        let before = rekeyed.values;
        let changed = inline::replaced(text, |envelope, line| {
            // The value begins with its tag, in the line above.
            let new = match values.remove(&line.saturating_sub(1)) {
                true => self.envelope(envelope.as_bytes(), &format!("{place}:{line}"), rekeyed)?,
                false => None,
            };
            Ok::<_, Error>(new.unwrap_or_else(|| envelope.to_owned()))
        })?;
        if !values.is_empty() {
            return Err(Error::new(format!(
                "{place} has an encrypted value in a form that cannot be rewritten. Write it as `!vault |`, with the envelope \
                 in the lines that follow"
            )));
        }
        if rekeyed.values > before {
            rekeyed.files.push((path.to_owned(), changed.into_bytes()));
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
        rekeyed.labels.insert(windlass_vault::label(data).unwrap_or_else(|| DEFAULT_LABEL.to_owned()));
        encrypted(&plain, self.new, self.settings).map(Some)
    }
}

/// Lines of a YAML file in which encrypted values begin; `None` if it is not YAML.
fn lines_of_values(path: &Path, text: &str) -> Option<BTreeSet<usize>> {
    fn of(node: &Node, found: &mut BTreeSet<usize>) {
        match &node.value {
            Value::Vault(_) => _ = found.insert(usize::try_from(node.span.line).unwrap_or_default()),
            Value::List(items) => items.iter().for_each(|item| of(item, found)),
            Value::Map(mapping) => mapping.values().for_each(|value| of(value, found)),
            _ => {}
        }
    }
    let source = Source::secret(path.display().to_string(), text);
    let mut found = BTreeSet::new();
    parse(source, &Options::default()).ok()?.documents.iter().for_each(|document| of(document, &mut found));
    Some(found)
}
