//! SSH signatures of manifests, as `ssh-keygen -Y sign` and `ssh-keygen -Y verify` handle them.

use std::path::{Path, PathBuf};

use ssh_key::{HashAlg, PrivateKey, PublicKey, SshSig};

use super::LARGEST_SIGNATURE;
use super::read::Bundle;
use super::signers;
use crate::error::{Error, Result};

/// Namespace of the signatures, the `-n` of `ssh-keygen -Y`.
pub const NAMESPACE: &str = "windlass-bundle";

/// Keys that a user trusts, and the policy for bundles without a valid signature.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// File with allowed signers, in the format of ssh-keygen.
    pub allowed_signers: Option<PathBuf>,
    /// Identity that the signer must have in that file. Without one, any signer in it is accepted.
    pub identity: Option<String>,
    /// File with a public key.
    pub public_key: Option<PathBuf>,
    /// File with a signature to use instead of the bundle's own.
    pub signature: Option<PathBuf>,
    /// Accept a bundle that has no signature, or none that can be checked because no key is given.
    pub allow_unsigned: bool,
}

/// Outcome of a check that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// A trusted key signed the bundle.
    Valid {
        /// Fingerprint of the key.
        fingerprint: String,
        /// Identity of the signer, if a file of allowed signers has it.
        identity: Option<String>,
    },
    /// The bundle has a signature, but no key is trusted.
    Unchecked,
    /// The bundle has no signature.
    Missing,
}

/// Signs the bytes of a manifest.
pub fn sign(key: &PrivateKey, manifest: &[u8]) -> Result<String> {
    let signed = key.sign(NAMESPACE, HashAlg::Sha512, manifest).and_then(|made| made.to_pem(Default::default()));
    signed.map_err(|error| Error::new(format!("the bundle cannot be signed with this key: {error}")))
}

/// Checks the signature of a bundle. An unsigned bundle is an error unless the policy allows it.
pub fn check(bundle: &Bundle, trust: &Trust) -> Result<Signature> {
    let shown = bundle.path().display();
    let given = match &trust.signature {
        Some(path) => Some(text(path)?),
        None => bundle.signature().map(str::to_owned),
    };
    let Some(given) = given else {
        if trust.allow_unsigned {
            return Ok(Signature::Missing);
        }
        return Err(Error::new(format!("`{shown}` is not signed"))
            .hint("sign it with `windlass bundle sign`, or accept it with --allow-unsigned"));
    };
    let signature: SshSig =
        given.parse().map_err(|error| Error::new(format!("the signature of `{shown}` cannot be read: {error}")))?;
    let fingerprint = PublicKey::from(signature.public_key().clone()).fingerprint(HashAlg::Sha256).to_string();
    let (key, identity) = match (&trust.allowed_signers, &trust.public_key) {
        (None, None) if trust.allow_unsigned => return Ok(Signature::Unchecked),
        (None, None) => {
            return Err(Error::usage(format!("`{shown}` is signed by {fingerprint}, but no key is trusted"))
                .hint("name the trusted keys with --allowed-signers or --public-key"));
        }
        (Some(file), _) => signers::find(&text(file)?, file, signature.public_key(), trust.identity.as_deref())
            .map(|(key, identity)| (key, Some(identity)))?,
        (None, Some(file)) => {
            let read = PublicKey::from_openssh(text(file)?.trim());
            let key = read.map_err(|error| Error::new(format!("`{}` is not a public key: {error}", file.display())))?;
            if key.key_data() != signature.public_key() {
                let message = format!("`{shown}` is signed by {fingerprint}, not by the key in `{}`", file.display());
                return Err(Error::new(message));
            }
            (key, None)
        }
    };
    key.verify(NAMESPACE, bundle.manifest_bytes(), &signature)
        .map_err(|error| Error::new(format!("the signature of `{shown}` by {fingerprint} is wrong: {error}")))?;
    Ok(Signature::Valid { fingerprint, identity })
}

fn text(path: &Path) -> Result<String> {
    let read = windlass_bounds::read_up_to(path, LARGEST_SIGNATURE.max(1 << 20)).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not text"))
    });
    read.map_err(|error| super::store::failed(path, "be read", &error))
}
