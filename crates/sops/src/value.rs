//! Values as sops writes them: `ENC[AES256_GCM,data:...,iv:...,tag:...,type:...]`.

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{AesGcm, aes::Aes256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_yaml::{Key, Node, Span, Value};
use zeroize::Zeroizing;

use crate::DataKey;

/// An encrypted value.
pub(crate) struct Encrypted {
    nonce: [u8; 32],
    /// The ciphertext, with its tag.
    data: Vec<u8>,
    kind: String,
}

impl Encrypted {
    /// Reads a value; `None` if it does not look like an encrypted one.
    pub(crate) fn parse(text: &str) -> Option<Result<Encrypted, &'static str>> {
        let fields = text.strip_prefix("ENC[AES256_GCM,")?.strip_suffix(']')?;
        Some(Self::of_fields(fields).ok_or("is no value that sops has written"))
    }

    fn of_fields(fields: &str) -> Option<Encrypted> {
        let mut fields = fields.split(',');
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix(':');
        let mut bytes = |name: &str| STANDARD.decode(field(name)?).ok();
        let (mut data, nonce, tag) = (bytes("data")?, bytes("iv")?, bytes("tag")?);
        data.extend(tag);
        Some(Encrypted { nonce: nonce.try_into().ok()?, data, kind: field("type")?.to_owned() })
    }

    /// Decrypts the value, which belongs to `context`.
    pub(crate) fn decrypt(&self, key: &DataKey, context: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
        let cipher = AesGcm::<Aes256, U32>::new((&**key).into());
        let payload = Payload { msg: &self.data, aad: context.as_bytes() };
        let plain = cipher.decrypt((&self.nonce).into(), payload);
        plain.map(Zeroizing::new).map_err(|_| "was changed or moved without sops: it cannot be decrypted")
    }

    /// The value in its own type, at the place of `node`.
    pub(crate) fn typed(&self, bytes: &[u8], node: &Node) -> Result<Node, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
        let value = match self.kind.as_str() {
            "str" | "bytes" => return Ok(node.reworded(text)),
            "int" => text.parse().map_or_else(|_| Value::BigInt(text.to_owned()), Value::Int),
            // In JSON, every number is one of these.
            "float" if text.parse::<i64>().is_ok() => Value::Int(text.parse().unwrap_or_default()),
            "float" => Value::Float(text.parse().map_err(|_| "is no number")?),
            "bool" => Value::Bool(matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")),
            "time" => Value::Timestamp(text.into()),
            _ => return Err("has a type that is not supported"),
        };
        Ok(Node::new(value, node.span.clone()))
    }
}

/// A name as it stands in the file. sops reads YAML 1.2, in which `on` is text.
pub(crate) fn name(key: &Key) -> String {
    match key.as_str() {
        Some(text) => text.to_owned(),
        None => written(&key.span).trim_end_matches(':').to_owned(),
    }
}

/// Bytes of an unencrypted value that the MAC covers. In YAML 1.2, `yes` and `1:30` are text.
pub(crate) fn hashed(node: &Node) -> Vec<u8> {
    match &node.value {
        Value::Bool(value) => match written(&node.span) {
            word if ["true", "false"].contains(&word.to_lowercase().as_str()) => {
                if *value { "True" } else { "False" }.into()
            }
            word => word.into(),
        },
        Value::Int(number) => match written(&node.span) {
            word if word.contains(':') => word.into(),
            _ => number.to_string().into(),
        },
        Value::BigInt(text) => text.clone().into(),
        Value::Float(number) => number.to_string().into(),
        Value::Timestamp(text) if text.len() == "2006-01-02".len() => format!("{text}T00:00:00Z").into(),
        Value::Timestamp(text) => text.as_bytes().to_vec(),
        _ => node.as_str().unwrap_or_default().into(),
    }
}

/// The word at a position.
fn written(span: &Span) -> String {
    let line = span.source.line(span.line).unwrap_or_default();
    let column = usize::try_from(span.column).unwrap_or_default().saturating_sub(1);
    line.chars().skip(column).take_while(|it| !it.is_whitespace() && !",]}".contains(*it)).collect()
}
