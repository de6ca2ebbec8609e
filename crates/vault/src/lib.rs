//! Ansible Vault: envelopes of versions 1.1 and 1.2 (AES256).
//!
//! An envelope is a header line and hexadecimal lines. Keys come from PBKDF2-HMAC-SHA256 of the password; the text
//! is encrypted with AES-256 in counter mode and authenticated with HMAC-SHA256.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod cipher;
mod envelope;
mod secrets;

pub use envelope::{is_encrypted, label};
pub use secrets::{DEFAULT_LABEL, Observer, Secret, Secrets};

/// Why something could not be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data does not begin with a vault header.
    #[error("The data is not vault-encrypted: it does not begin with `$ANSIBLE_VAULT;`.")]
    NotEncrypted,
    /// The header is not one we know.
    #[error("The vault header `{header}` is not supported; versions 1.1 and 1.2 with AES256 are.")]
    UnsupportedHeader {
        /// The header line.
        header: String,
    },
    /// The body is damaged.
    #[error("The vault-encrypted data is damaged: {reason}. Restore it from where it was encrypted.")]
    Damaged {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no password at all.
    #[error(
        "Attempting to decrypt vault-encrypted data, but no vault password was given. \
         Give one with --vault-password-file, --vault-id or --ask-vault-pass."
    )]
    NoSecrets,
    /// No password fits.
    #[error("Decryption failed: none of the vault passwords ({}) decrypts the data{}.", tried.join(", "), wanted_text(wanted.as_deref()))]
    WrongPassword {
        /// The labels of the passwords that were tried.
        tried: Vec<String>,
        /// The label the data was encrypted with, when the header has one.
        wanted: Option<String>,
    },
    /// Only the password of the same label may be tried, and there is none.
    #[error("The data was encrypted with the vault id `{wanted}`, and no password with that id was given.")]
    NoMatchingLabel {
        /// The label the data was encrypted with.
        wanted: String,
    },
    /// The operating system gave no random bytes.
    #[error("The operating system gave no random bytes, so nothing can be encrypted: {reason}.")]
    NoRandomness {
        /// What it said.
        reason: String,
    },
}

fn wanted_text(wanted: Option<&str>) -> String {
    wanted.map(|label| format!(", which was encrypted with the vault id `{label}`")).unwrap_or_default()
}

/// Decrypts an envelope with the first password that fits; those of the envelope's label are tried first.
pub fn decrypt(data: &[u8], secrets: &Secrets) -> Result<Vec<u8>, Error> {
    decrypt_with_secret(data, secrets).map(|(text, _)| text)
}

/// Decrypts an envelope and tells the password that fitted.
pub fn decrypt_with_secret<'s>(data: &[u8], secrets: &'s Secrets) -> Result<(Vec<u8>, &'s Secret), Error> {
    let envelope = envelope::parse(data)?;
    if secrets.is_empty() {
        return Err(Error::NoSecrets);
    }
    let mut tried = Vec::new();
    for secret in secrets.in_order_for(envelope.label.as_deref()) {
        if let Some(text) = cipher::decrypt(&envelope.body, secret.password())? {
            secrets.decrypted(&text);
            return Ok((text, secret));
        }
        tried.push(secret.label().to_owned());
    }
    match envelope.label {
        Some(wanted) if tried.is_empty() => Err(Error::NoMatchingLabel { wanted }),
        wanted => Err(Error::WrongPassword { tried, wanted }),
    }
}

/// Encrypts with a password. The envelope names the secret's label unless that is `default`.
pub fn encrypt(plain: &[u8], secret: &Secret) -> Result<String, Error> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| Error::NoRandomness { reason: error.to_string() })?;
    Ok(encrypt_with_salt(plain, secret, &salt))
}

/// Encrypts with a password and a salt that is given, so that the same text always gives the same envelope
/// (`vault_encrypt_salt`).
pub fn encrypt_with_salt(plain: &[u8], secret: &Secret, salt: &[u8]) -> String {
    envelope::format(&cipher::encrypt(plain, secret.password(), salt), secret.label())
}
