//! Passwords and their labels.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::Identities;

/// Label of a password that was given without one.
pub const DEFAULT_LABEL: &str = "default";

/// A password with its label.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    label: String,
    /// Zeroed on drop.
    password: Zeroizing<Vec<u8>>,
}

impl Secret {
    /// Pairs a password with a label.
    pub fn new(label: impl Into<String>, password: impl Into<Vec<u8>>) -> Self {
        Self { label: label.into(), password: Zeroizing::new(password.into()) }
    }

    /// Takes the content of a password file, or the output of a password program, as a password. Surrounding white
    /// space is dropped.
    pub fn from_file_content(label: impl Into<String>, content: &[u8]) -> Self {
        Self::new(label, content.trim_ascii())
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether the password is empty; such a password is never valid.
    pub fn is_empty(&self) -> bool {
        self.password.is_empty()
    }

    /// The password, for masking it in output.
    pub fn password(&self) -> &[u8] {
        &self.password
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("label", &self.label).finish_non_exhaustive()
    }
}

/// Receives every decrypted text.
pub type Observer = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The passwords of a run, in the order they were given.
#[derive(Clone, Default)]
pub struct Secrets {
    secrets: Vec<Secret>,
    match_labels: bool,
    identities: Identities,
    observer: Option<Observer>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Creates an empty set of passwords.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a password.
    pub fn push(&mut self, secret: Secret) {
        self.secrets.push(secret);
    }

    /// Whether only passwords of the envelope's own label are tried (Ansible's `vault_id_match`).
    pub fn set_match_labels(&mut self, match_labels: bool) {
        self.match_labels = match_labels;
    }

    /// Sets the identities that decrypt data of age.
    pub fn set_identities(&mut self, identities: Identities) {
        self.identities = identities;
    }

    /// The identities that decrypt data of age.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Passes every text that these passwords, or a copy of them, decrypt to an observer. It can then be masked before
    /// anything prints it.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// An empty set with the same observer.
    pub fn emptied(&self) -> Secrets {
        Secrets { observer: self.observer.clone(), ..Secrets::default() }
    }

    /// Passes a text to the observer that was decrypted with one of these secrets.
    pub fn decrypted(&self, text: &[u8]) {
        if let Some(observer) = &self.observer {
            observer(text);
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// All passwords in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Secret> {
        self.secrets.iter()
    }

    /// The first password with a label.
    pub fn get(&self, label: &str) -> Option<&Secret> {
        self.secrets.iter().find(|secret| secret.label == label)
    }

    /// The passwords to try for an envelope, matching labels first.
    pub(crate) fn in_order_for(&self, label: Option<&str>) -> Vec<&Secret> {
        let label = label.unwrap_or(DEFAULT_LABEL);
        let (mut first, others): (Vec<_>, Vec<_>) = self.secrets.iter().partition(|secret| label == secret.label);
        if !self.match_labels {
            first.extend(others);
        }
        first
    }
}

impl<'s> IntoIterator for &'s Secrets {
    type Item = &'s Secret;
    type IntoIter = std::slice::Iter<'s, Secret>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Secret> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secret>>(secrets: I) -> Self {
        Self { secrets: secrets.into_iter().collect(), ..Self::default() }
    }
}
