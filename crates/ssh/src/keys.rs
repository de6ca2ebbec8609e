//! Private key files, read and unlocked once for all connections of a run.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::AssociatedOid;
use rsa::signature::{self, RandomizedSigner as _, SignatureEncoding as _, Signer as _};
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_encoding::Encode as _;
use sha2::Digest;
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::{Algorithm, Certificate, HashAlg, PrivateKey, PublicKey, Signature};

use crate::settings::PassphraseSource;

/// Key files of a run. Unlocking one takes a tenth of a second or a person's answer, so it happens once, not once per
/// host.
#[derive(Debug, Default)]
pub(crate) struct KeyStore {
    unlocked: Mutex<HashMap<PathBuf, Unlocked>>,
}

/// Slot of one key. The first connection unlocks it; the others wait.
type Unlocked = Arc<Mutex<Option<Arc<PrivateKey>>>>;

/// The parts of a key file that need no unlocking.
#[derive(Debug, Clone)]
pub(crate) struct KeyFile {
    pub(crate) path: PathBuf,
    pub(crate) public: PublicKey,
    /// Certificate beside the file (`KEY-cert.pub`).
    pub(crate) certificate: Option<Certificate>,
}

impl KeyFile {
    /// Reads the public half of a private key file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = windlass_bounds::read_text(path)
            .map_err(|error| format!("the key {} cannot be read: {error}", path.display()))?;
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let public = match PrivateKey::from_openssh(&text) {
            // In this format, the public half of an encrypted key is readable too.
            Ok(key) => key.public_key().clone(),
            // In the other formats, only the private half contains the public one.
            Err(_) => match refuse_exposed(path).and_then(|()| public_half(path, &text)) {
                Ok(key) => key,
                Err(complaint) => russh::keys::load_public_key(beside(".pub")).map_err(|_| complaint)?,
            },
        };
        let certificate =
            read_certificate(&beside("-cert.pub")).filter(|found| found.public_key() == public.key_data());
        Ok(Self { path: path.to_owned(), public, certificate })
    }
}

fn public_half(path: &Path, text: &str) -> Result<PublicKey, String> {
    let key = russh::keys::decode_secret_key(text, None)
        .map_err(|error| format!("the key {} cannot be used: {error}", path.display()))?;
    Ok(key.public_key().clone())
}

/// Refuses the private half of a key that other users may read, as ssh does. Its public half still names a key of the
/// agent.
fn refuse_exposed(path: &Path) -> Result<(), String> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let mode = metadata.mode() & 0o777;
    if metadata.uid() != rustix::process::getuid().as_raw() || mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "the key {path} is not used: its mode {mode:04o} lets other users read it; run `chmod 600 {path}`",
        path = path.display()
    ))
}

/// Reads a certificate file; `None` if it is missing or unusable.
pub(crate) fn read_certificate(path: &Path) -> Option<Certificate> {
    Certificate::from_openssh(windlass_bounds::read_text(path).ok()?.trim()).ok()
}

impl KeyStore {
    /// Unlocks the private key. Blocks while the passphrase is prompted for; other connections that need the key wait
    /// too.
    fn unlock(&self, path: &Path, passphrase: Option<&PassphraseSource>) -> Result<Arc<PrivateKey>, String> {
        let slot = {
            let mut unlocked = self.unlocked.lock().unwrap_or_else(PoisonError::into_inner);
            unlocked.entry(path.to_owned()).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*slot {
            return Ok(key.clone());
        }
        refuse_exposed(path)?;
        let text = windlass_bounds::read_text(path)
            .map_err(|error| format!("the key {} cannot be read: {error}", path.display()))?;
        let key = match russh::keys::decode_secret_key(&text, None) {
            Ok(key) if !key.is_encrypted() => key,
            Ok(_) | Err(russh::keys::Error::KeyIsEncrypted) => {
                let secret = passphrase.and_then(|ask| ask(path)).ok_or_else(|| {
                    format!(
                        "the key {} is encrypted and no passphrase is given; add it to an ssh-agent",
                        path.display()
                    )
                })?;
                russh::keys::decode_secret_key(&text, Some(secret.expose()))
                    .map_err(|_| format!("the passphrase of the key {} is wrong", path.display()))?
            }
            Err(error) => return Err(format!("the key {} cannot be used: {error}", path.display())),
        };
        let key = Arc::new(key);
        *slot = Some(key.clone());
        Ok(key)
    }
}

/// Signs with a key file. The file is unlocked only when the server asks for a signature.
pub(crate) struct FileSigner {
    pub(crate) keys: Arc<KeyStore>,
    pub(crate) path: PathBuf,
    pub(crate) passphrase: Option<PassphraseSource>,
}

/// Reason why a key could not sign.
#[derive(Debug)]
pub(crate) struct SignError(pub(crate) String);

impl From<russh::SendError> for SignError {
    fn from(_: russh::SendError) -> Self {
        Self("the server closed the connection during the authentication".into())
    }
}

impl russh::Signer for FileSigner {
    type Error = SignError;

    async fn auth_sign(
        &mut self,
        _key: &AgentIdentity,
        hash: Option<HashAlg>,
        mut to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        let (keys, path, passphrase) = (self.keys.clone(), self.path.clone(), self.passphrase.clone());
        let key = tokio::task::spawn_blocking(move || keys.unlock(&path, passphrase.as_ref()))
            .await
            .map_err(|error| SignError(format!("the key could not be unlocked: {error}")))?
            .map_err(SignError)?;
        let signature: Signature = match key.key_data() {
            KeypairData::Rsa(pair) => sign_with_rsa(pair, hash, &to_sign),
            pair => pair.try_sign(&to_sign),
        }
        .map_err(|error| SignError(format!("the key {} could not sign: {error}", self.path.display())))?;
        signature
            .encode_prefixed(&mut to_sign)
            .map_err(|error| SignError(format!("a signature could not be encoded: {error}")))?;
        Ok(to_sign)
    }
}
/// Signs with a random blinding factor, because hosts see how long a signature takes (RUSTSEC-2023-0071).
fn sign_with_rsa(pair: &RsaKeypair, hash: Option<HashAlg>, data: &[u8]) -> Result<Signature, signature::Error> {
    let signed = match hash {
        Some(HashAlg::Sha512) => blinded::<sha2::Sha512>(pair, data)?,
        Some(HashAlg::Sha256) => blinded::<sha2::Sha256>(pair, data)?,
        _ => blinded::<sha1::Sha1>(pair, data)?,
    };
    Ok(Signature::new(Algorithm::Rsa { hash }, signed)?)
}

fn blinded<D: AssociatedOid + Digest>(pair: &RsaKeypair, data: &[u8]) -> Result<Vec<u8>, signature::Error> {
    let key = SigningKey::<D>::try_from(pair)?;
    Ok(key.try_sign_with_rng(&mut getrandom::SysRng, data)?.to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rsa::signature::Verifier as _;

    use super::*;

    #[test]
    fn blinded_signatures_verify_and_are_those_without_blinding() {
        let key = PrivateKey::random(&mut rsa::rand_core::UnwrapErr(getrandom::SysRng), Algorithm::Rsa { hash: None });
        let key = key.unwrap();
        let KeypairData::Rsa(pair) = key.key_data() else { unreachable!("an RSA key was asked for") };
        for hash in [HashAlg::Sha512, HashAlg::Sha256] {
            let signature = sign_with_rsa(pair, Some(hash), b"a session").unwrap();
            key.public_key().key_data().verify(b"a session", &signature).unwrap();
            assert_eq!(signature, (pair, Some(hash)).try_sign(b"a session").unwrap());
        }
    }
}
