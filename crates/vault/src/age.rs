//! Data encrypted for recipients of age (<https://age-encryption.org/v1>).

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use age::armor::ArmoredReader;
use age::x25519::Identity;
use zeroize::Zeroizing;

use crate::Error;

/// Maximum size of a file of identities, in bytes.
const LARGEST: u64 = 1 << 20;

/// Secret keys of age (X25519). They are read on first use, so a run without data of age needs none.
#[derive(Clone, Default)]
pub struct Identities(Arc<Sources>);

#[derive(Default)]
struct Sources {
    files: Vec<PathBuf>,
    text: Zeroizing<String>,
    loaded: OnceLock<Loaded>,
}

/// The identities that could be read, and the first error.
type Loaded = (Vec<Identity>, Option<Error>);

impl Identities {
    /// Identities in files, and in a text of the same format: one `AGE-SECRET-KEY-1...` a line, and comments.
    pub fn new(files: Vec<PathBuf>, text: Option<String>) -> Self {
        let text = Zeroizing::new(text.unwrap_or_default());
        Self(Arc::new(Sources { files, text, loaded: OnceLock::new() }))
    }

    fn loaded(&self) -> &Loaded {
        self.0.loaded.get_or_init(|| self.0.load())
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identities").field(&self.0.files).finish()
    }
}

impl Sources {
    fn load(&self) -> Loaded {
        let mut loaded = (Vec::new(), None);
        read(&self.text, "the environment", &mut loaded);
        for file in &self.files {
            let place = file.display().to_string();
            match windlass_bounds::read_up_to(file, LARGEST).map(Zeroizing::new) {
                Ok(bytes) => read(&String::from_utf8_lossy(&bytes), &place, &mut loaded),
                Err(error) => {
                    loaded.1.get_or_insert(Error::Identities { place, reason: error.to_string() });
                }
            }
        }
        loaded
    }
}

fn read(text: &str, place: &str, (identities, failure): &mut Loaded) {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (index, line) in lines {
        let refused =
            |reason: &str| Error::Identities { place: format!("{place}:{}", index + 1), reason: reason.to_owned() };
        match line.parse() {
            Ok(identity) => identities.push(identity),
            Err(_) if line.starts_with("AGE-PLUGIN-") => {
                _ = failure.get_or_insert(refused("plugins are not supported"))
            }
            Err(reason) => _ = failure.get_or_insert(refused(reason)),
        }
    }
}

/// Whether data begins like a file of age, as bytes or armored.
pub fn is_age(data: &[u8]) -> bool {
    data.starts_with(b"age-encryption.org/v1\n") || data.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----")
}

/// Decrypts data of age with the first identity that fits.
pub fn decrypt_age(data: &[u8], identities: &Identities) -> Result<Zeroizing<Vec<u8>>, Error> {
    let failed = |error: age::DecryptError| match error {
        age::DecryptError::NoMatchingKeys => Error::WrongIdentity,
        error => Error::Age { reason: error.to_string() },
    };
    let decryptor = age::Decryptor::new_buffered(ArmoredReader::new(data)).map_err(failed)?;
    if decryptor.is_scrypt() {
        return Err(Error::Age { reason: "it is encrypted with a passphrase, not for a recipient".to_owned() });
    }
    let (identities, failure) = identities.loaded();
    if identities.is_empty() {
        return Err(failure.clone().unwrap_or(Error::NoIdentity));
    }
    // The right identity may be the one that could not be read.
    let failed = |error| match (failed(error), failure) {
        (Error::WrongIdentity, Some(failure)) => failure.clone(),
        (error, _) => error,
    };
    let mut reader = decryptor.decrypt(identities.iter().map(|it| it as &dyn age::Identity)).map_err(failed)?;
    let mut plain = Zeroizing::new(Vec::new());
    reader.read_to_end(&mut plain).map_err(|error| Error::Age { reason: error.to_string() })?;
    Ok(plain)
}

/// The file of identities that sops reads by default, below a folder of configuration.
pub fn usual_file(config: &Path) -> PathBuf {
    config.join("sops/age/keys.txt")
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret as _;

    use super::*;

    fn encrypted(text: &str, identity: &Identity) -> Vec<u8> {
        age::encrypt_and_armor(&identity.to_public(), text.as_bytes()).unwrap().into_bytes()
    }

    #[test]
    fn data_decrypted_by_the_identity_that_fits() {
        let (own, other) = (Identity::generate(), Identity::generate());
        let text = |identity: &Identity| format!("# a comment\n\n{}\n", identity.to_string().expose_secret());
        let data = encrypted("secret: x\n", &own);
        assert!(is_age(&data));
        let both = Identities::new(Vec::new(), Some(text(&other) + &text(&own)));
        assert_eq!(**decrypt_age(&data, &both).unwrap(), *b"secret: x\n");
        let wrong = Identities::new(Vec::new(), Some(text(&other)));
        assert_eq!(decrypt_age(&data, &wrong).unwrap_err(), Error::WrongIdentity);
        assert_eq!(decrypt_age(&data, &Identities::default()).unwrap_err(), Error::NoIdentity);
        assert!(!format!("{both:?}").contains("AGE-SECRET-KEY"));
    }

    #[test]
    fn broken_identities_and_data_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.txt");
        std::fs::write(&file, "# key\nAGE-SECRET-KEY-1X\n").unwrap();
        let identities = Identities::new(vec![file.clone()], None);
        let error = decrypt_age(&encrypted("x", &Identity::generate()), &identities).unwrap_err().to_string();
        assert!(error.contains(&format!("{}:2", file.display())) && !error.contains("KEY-1X"), "{error}");
        let own = Identity::generate();
        let text = own.to_string().expose_secret().to_owned();
        let both = Identities::new(vec![file], Some(text));
        assert!(decrypt_age(&encrypted("x", &own), &both).is_ok(), "another one that is broken does not matter");
        for data in [&b"age-encryption.org/v1\n-> x"[..], b"-----BEGIN AGE ENCRYPTED FILE-----\nx"] {
            assert!(matches!(decrypt_age(data, &Identities::default()), Err(Error::Age { .. })));
        }
    }
}
