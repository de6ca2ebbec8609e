//! Ansible Vault: envelopes of versions 1.1 and 1.2 (AES256). Data of age can be read as well.
//!
//! An envelope is a header line followed by hexadecimal lines. PBKDF2-HMAC-SHA256 derives the keys from the password.
//! The text is encrypted with AES-256 in counter mode and authenticated with HMAC-SHA256.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod age;
mod cipher;
mod envelope;
mod secrets;

pub use age::{Identities, decrypt_age, is_age, usual_file};
pub use envelope::{is_encrypted, label};
pub use secrets::{DEFAULT_LABEL, Observer, Secret, Secrets};

/// Reason why encryption or decryption failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data does not begin with a vault header.
    #[error("The data is not vault-encrypted: it does not begin with `$ANSIBLE_VAULT;`.")]
    NotEncrypted,
    /// The header names an unsupported version or cipher.
    #[error("The vault header `{header}` is not supported; versions 1.1 and 1.2 with AES256 are.")]
    UnsupportedHeader {
        /// Header line as found.
        header: String,
    },
    /// The body is damaged.
    #[error("The vault-encrypted data is damaged: {reason}. Restore it from where it was encrypted.")]
    Damaged {
        /// Description of the damage.
        reason: &'static str,
    },
    /// No password was given.
    #[error(
        "Attempting to decrypt vault-encrypted data, but no vault password was given. \
         Give one with --vault-password-file, --vault-id or --ask-vault-pass."
    )]
    NoSecrets,
    /// None of the passwords decrypts the data.
    #[error("Decryption failed: none of the vault passwords ({}) decrypts the data{}.", tried.join(", "), wanted_text(wanted.as_deref()))]
    WrongPassword {
        /// Labels of the passwords that were tried.
        tried: Vec<String>,
        /// Label in the envelope's header, if it has one.
        wanted: Option<String>,
    },
    /// Only a password with the envelope's label may be tried, and none was given.
    #[error("The data was encrypted with the vault id `{wanted}`, and no password with that id was given.")]
    NoMatchingLabel {
        /// Label in the envelope's header.
        wanted: String,
    },
    /// Data of age cannot be changed with a vault password.
    #[error("The data is encrypted with age, not with a vault password. Change it with the program `age`.")]
    OfAge,
    /// No identity of age was given.
    #[error(
        "The data is encrypted with age, and there is no identity to decrypt it. Name a file of identities by \
         `age_identities` in ansible.cfg, or by SOPS_AGE_KEY_FILE."
    )]
    NoIdentity,
    /// None of the identities of age decrypts the data.
    #[error(
        "The data is encrypted with age, and not for any of the identities. Name the right one by \
         `age_identities` in ansible.cfg, or by SOPS_AGE_KEY_FILE."
    )]
    WrongIdentity,
    /// Identities of age cannot be read.
    #[error("The identities of age in {place} cannot be read: {reason}.")]
    Identities {
        /// File and line, or the environment.
        place: String,
        /// Description of the error.
        reason: String,
    },
    /// Data of age is damaged or of an unsupported kind.
    #[error("The data of age is damaged, or of a kind that is not supported: {reason}.")]
    Age {
        /// Description of the error.
        reason: String,
    },
    /// The operating system provided no random bytes.
    #[error("The operating system gave no random bytes, so nothing can be encrypted: {reason}.")]
    NoRandomness {
        /// Error message of the random number generator.
        reason: String,
    },
}

fn wanted_text(wanted: Option<&str>) -> String {
    wanted.map(|label| format!(", which was encrypted with the vault id `{label}`")).unwrap_or_default()
}

/// Decrypts a file of variables that is a vault or of age; `None` if it is neither. Other files of age stay as they
/// are, because a project may copy them to hosts.
pub fn decrypt_variables(data: &[u8], secrets: &Secrets) -> Result<Option<Vec<u8>>, Error> {
    if is_age(data) {
        let text = decrypt_age(data, secrets.identities())?;
        secrets.decrypted(&text);
        return Ok(Some(text.to_vec()));
    }
    is_encrypted(data).then(|| decrypt(data, secrets)).transpose()
}

/// Decrypts an envelope with the first password that fits. Passwords with the envelope's label are tried first.
pub fn decrypt(data: &[u8], secrets: &Secrets) -> Result<Vec<u8>, Error> {
    decrypt_with_secret(data, secrets).map(|(text, _)| text)
}

/// Decrypts an envelope and returns the password that fitted as well.
pub fn decrypt_with_secret<'s>(data: &[u8], secrets: &'s Secrets) -> Result<(Vec<u8>, &'s Secret), Error> {
    if is_age(data) {
        return Err(Error::OfAge);
    }
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

/// Encrypts with a given salt, so that the same text always yields the same envelope (`vault_encrypt_salt`).
pub fn encrypt_with_salt(plain: &[u8], secret: &Secret, salt: &[u8]) -> String {
    envelope::format(&cipher::encrypt(plain, secret.password(), salt), secret.label())
}
