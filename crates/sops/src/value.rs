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
        Some(Self::of_fields(fields).ok_or("is not a value that sops has written"))
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

    /// Converts decrypted bytes to the value's type, at the position of `node`. Also returns the bytes that the MAC
    /// covers. The type is not authenticated, so text that does not fit it is refused.
    pub(crate) fn typed(&self, bytes: &[u8], node: &Node) -> Result<(Node, Vec<u8>), &'static str> {
        const UNFIT: &str = "does not fit the type that the file gives it";
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
        let value = match self.kind.as_str() {
            "str" | "bytes" => return Ok((node.reworded(text), bytes.to_vec())),
            "int" => Value::Int(text.parse().map_err(|_| UNFIT)?),
            // In JSON, every number is one of these.
            "float" => match (text.parse(), text.parse::<f64>()) {
                (Ok(whole), _) => Value::Int(whole),
                (_, Ok(number)) if number.is_finite() => Value::Float(number),
                _ => return Err(UNFIT),
            },
            "bool" => match text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Value::Bool(true),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Value::Bool(false),
                _ => return Err(UNFIT),
            },
            "time" if text.parse::<jiff::Timestamp>().is_ok() => Value::Timestamp(text.into()),
            "time" => return Err(UNFIT),
            _ => return Err("has a type that is not supported"),
        };
        let covered = covered(&value);
        Ok((Node::new(value, node.span.clone()), covered))
    }
}

/// A name as it stands in the file. sops reads YAML 1.2, in which `on` is text.
pub(crate) fn name(key: &Key) -> String {
    match key.as_str() {
        Some(text) => text.to_owned(),
        None => written(&key.span).trim_end_matches(':').to_owned(),
    }
}

/// Bytes of a value that the MAC covers.
fn covered(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(number) => number.to_string().into(),
        Value::Float(number) if number.is_infinite() => if *number > 0.0 { "+Inf" } else { "-Inf" }.into(),
        Value::Float(number) => number.to_string().into(),
        Value::Timestamp(text) if text.len() == "2006-01-02".len() => format!("{text}T00:00:00Z").into(),
        Value::Timestamp(text) | Value::Literal(text) => text.as_bytes().to_vec(),
        Value::BigInt(text) => text.clone().into(),
        Value::String(text) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// Bytes that the MAC covers for an unencrypted value. In YAML 1.2, `yes` and `1:30` are text, and `1e-05` is a number.
pub(crate) fn hashed(node: &Node) -> Vec<u8> {
    let word = || written(&node.span);
    match &node.value {
        Value::Bool(_) if !["true", "false"].contains(&word().to_lowercase().as_str()) => word().into(),
        Value::Int(_) if word().contains(':') => word().into(),
        Value::String(text) if text.contains(['e', 'E']) && *word() == **text => match text.parse::<f64>() {
            Ok(number) if text.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it)) => {
                covered(&Value::Float(number))
            }
            _ => covered(&node.value),
        },
        value => covered(value),
    }
}

/// The word at a position.
fn written(span: &Span) -> String {
    let line = span.source.line(span.line).unwrap_or_default();
    let column = usize::try_from(span.column).unwrap_or_default().saturating_sub(1);
    line.chars().skip(column).take_while(|it| !it.is_whitespace() && !",]}".contains(*it)).collect()
}
