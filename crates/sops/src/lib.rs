//! Files of variables that `sops` has encrypted for recipients of age (<https://getsops.io/docs/>), in YAML or JSON.
//!
//! sops encrypts each value and leaves names readable. A data key, which the file contains encrypted for each
//! recipient, encrypts the values with AES-256-GCM; the names above a value are authenticated with it. The MAC, a code
//! over all values, shows whether values were removed or reordered.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod rules;
mod value;

use std::sync::Arc;

use sha2::{Digest as _, Sha512};
use windlass_vault::{Secrets, decrypt_age};
use windlass_yaml::{Mapping, Node, Source, Span};
use zeroize::Zeroizing;

use rules::Rules;
use value::Encrypted;

/// Name of the mapping with sops' metadata: keys, MAC and rules.
const METADATA: &str = "sops";
/// Begins a MAC that covers encrypted values only: SHA-256 of `sops`.
const ONLY_ENCRYPTED: &str = "8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69";

/// The key for a file's data.
type DataKey = Zeroizing<[u8; 32]>;

/// Reason why a document cannot be decrypted.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The position of the value concerned.
    pub span: Span,
    /// Description of the error.
    pub message: String,
}

impl Error {
    fn new(span: &Span, message: impl Into<String>) -> Self {
        Self { span: span.clone(), message: message.into() }
    }
}

/// Whether sops has encrypted a document.
pub fn is_encrypted(document: &Node) -> bool {
    document.get(METADATA).is_some_and(|it| it.get("mac").is_some() && it.get("version").is_some())
}

/// Decrypts the values of a document; `None` if sops has not encrypted it.
pub fn decrypt(document: &Node, secrets: &Secrets) -> Result<Option<Node>, Error> {
    let (Some(metadata), Some(mapping)) = (document.get(METADATA), document.as_map()) else { return Ok(None) };
    if !is_encrypted(document) {
        return Ok(None);
    }
    let only_encrypted = metadata.get("mac_only_encrypted").and_then(Node::as_bool) == Some(true);
    let source = &document.span.source;
    let source = Source::secret(&*source.name, &*source.text);
    let mut walk = Walk {
        source,
        key: data_key(metadata, secrets)?,
        secrets,
        only_encrypted,
        rules: Rules::of(metadata)?,
        hash: Sha512::new(),
        path: Vec::new(),
    };
    if only_encrypted {
        walk.hash.update(hex::decode(ONLY_ENCRYPTED).unwrap_or_default());
    }
    let mut values = (**mapping).clone();
    values.remove(METADATA);
    let plain = walk.node(&Node::map(values, document.span.clone()))?;
    walk.check(metadata)?;
    Ok(Some(plain))
}

/// Decrypts the data key, which the file contains once for each recipient.
fn data_key(metadata: &Node, secrets: &Secrets) -> Result<DataKey, Error> {
    if metadata.get("key_groups").is_some() {
        return Err(Error::new(
            &metadata.span,
            "sops has split the key of this file over groups, which is not supported",
        ));
    }
    let recipients = metadata.get("age").and_then(Node::as_list).unwrap_or_default();
    let mut failure = None;
    for recipient in recipients {
        let Some(encrypted) = recipient.get("enc").and_then(Node::as_str) else { continue };
        match decrypt_age(encrypted.trim_start().as_bytes(), secrets.identities()) {
            Ok(key) => {
                let key = <[u8; 32]>::try_from(key.as_slice());
                return key
                    .map(Zeroizing::new)
                    .map_err(|_| Error::new(&recipient.span, "the key of this file does not have 32 bytes"));
            }
            Err(error) => failure = Some(error),
        }
    }
    let Some(reason) = failure else {
        return Err(Error::new(
            &metadata.span,
            "sops has encrypted this file for no recipient of age; other keys are not supported",
        ));
    };
    let names: Vec<&str> = recipients.iter().filter_map(|it| it.get("recipient")?.as_str()).collect();
    let message = format!("sops has encrypted this file for {}: {reason}", names.join(", "));
    Err(Error::new(&metadata.span, message))
}

struct Walk<'a> {
    key: DataKey,
    secrets: &'a Secrets,
    /// The file, as the source of secret values.
    source: Arc<Source>,
    only_encrypted: bool,
    /// The names whose values are encrypted; `None` if comments choose them.
    rules: Option<Rules>,
    hash: Sha512,
    /// Names above the present value. Items of a list have the path of the list.
    path: Vec<String>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node) -> Result<Node, Error> {
        if let Some(mapping) = node.as_map() {
            let mut plain = Mapping::new();
            for (key, node) in mapping.iter() {
                self.path.push(value::name(key));
                plain.insert(key.clone(), self.node(node)?);
                self.path.pop();
            }
            return Ok(Node::map(plain, node.span.clone()));
        }
        if let Some(items) = node.as_list() {
            let items = items.iter().map(|item| self.node(item)).collect::<Result<Vec<_>, _>>()?;
            return Ok(Node::list(items, node.span.clone()));
        }
        match node.as_str().and_then(Encrypted::parse) {
            Some(encrypted) => {
                let refused = |reason: &str| Error::new(&node.span, format!("{} {reason}", self.path.join(".")));
                let names = self.path.iter().map(|name| format!("{name}:")).collect::<String>();
                let bytes = encrypted.and_then(|it| Ok((it.decrypt(&self.key, &names)?, it)));
                let (bytes, encrypted) = bytes.map_err(refused)?;
                let span = Span::new(Arc::clone(&self.source), node.span.line, node.span.column);
                let node = Node::new(node.value.clone(), span);
                let (plain, covered) = encrypted.typed(&bytes, &node).map_err(refused)?;
                self.hash.update(covered);
                self.secrets.decrypted(&bytes);
                Ok(plain)
            }
            None => {
                let is_empty = node.is_null() || node.as_str() == Some("");
                if !is_empty && self.rules.as_ref().is_some_and(|rules| rules.apply_to(&self.path)) {
                    let name = self.path.join(".");
                    let message = format!("{name} is not encrypted, although the rules of sops in this file demand it");
                    return Err(Error::new(&node.span, message));
                }
                if !self.only_encrypted {
                    self.hash.update(value::hashed(node));
                }
                Ok(node.clone())
            }
        }
    }

    /// Compares the hash of all values with the MAC.
    fn check(self, metadata: &Node) -> Result<(), Error> {
        let (mac, modified) = (metadata.get("mac"), metadata.get("lastmodified").and_then(Node::scalar_text));
        let expected = mac.and_then(Node::as_str).and_then(Encrypted::parse).and_then(Result::ok);
        let expected = expected.and_then(|mac| mac.decrypt(&self.key, &modified.unwrap_or_default()).ok());
        if expected.is_some_and(|it| *it == hex::encode_upper(self.hash.finalize()).as_bytes()) {
            return Ok(());
        }
        let message = "this file was changed without sops: its MAC differs. Change it with `sops`, or restore it";
        Err(Error::new(&metadata.span, message))
    }
}

#[cfg(test)]
mod tests;
