//! Header and hexadecimal body around the ciphertext.

use crate::{DEFAULT_LABEL, Error};

const MAGIC: &[u8] = b"$ANSIBLE_VAULT";
const WIDTH: usize = 80;

/// Salt, authentication code and ciphertext.
pub(crate) struct Body {
    pub(crate) salt: Vec<u8>,
    pub(crate) mac: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
}

pub(crate) struct Envelope {
    pub(crate) label: Option<String>,
    pub(crate) body: Body,
}

/// Whether data begins with a vault header.
pub fn is_encrypted(data: &[u8]) -> bool {
    data.strip_prefix(MAGIC).is_some_and(|rest| rest.starts_with(b";"))
}

/// Label in an envelope's header, if it has one.
pub fn label(data: &[u8]) -> Option<String> {
    header(data).ok()?.0
}

/// Label in the header, and the data after the header line.
fn header(data: &[u8]) -> Result<(Option<String>, &[u8]), Error> {
    let data = data.trim_ascii_start();
    if !is_encrypted(data) {
        return Err(Error::NotEncrypted);
    }
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (line, body) = data.split_at(end);
    let line = String::from_utf8_lossy(line).trim().to_owned();
    let fields: Vec<&str> = line.split(';').map(str::trim).collect();
    let label = match fields.as_slice() {
        [_, "1.1", "AES256"] => None,
        [_, "1.2", "AES256", label] => Some((*label).to_owned()),
        _ => return Err(Error::UnsupportedHeader { header: line }),
    };
    Ok((label, body))
}

pub(crate) fn parse(data: &[u8]) -> Result<Envelope, Error> {
    let (label, lines) = header(data)?;
    let digits: Vec<u8> = lines.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let damaged = |reason| Error::Damaged { reason };
    let inner = unhexlified(&digits)?;
    let mut parts = inner.split(|byte| *byte == b'\n');
    let mut part = || {
        let digits = parts.next().ok_or_else(|| damaged("a part is missing"))?;
        unhexlified(digits)
    };
    let body = Body { salt: part()?, mac: part()?, ciphertext: part()? };
    Ok(Envelope { label, body })
}

/// Decodes hexadecimal digits.
fn unhexlified(digits: &[u8]) -> Result<Vec<u8>, Error> {
    hex::decode(digits).map_err(|error| Error::Damaged {
        reason: match error {
            hex::FromHexError::OddLength => "Vault format unhexlify error: Odd-length string",
            _ => "Vault format unhexlify error: Non-hexadecimal digit found",
        },
    })
}

pub(crate) fn format(body: &Body, label: &str) -> String {
    let inner = format!("{}\n{}\n{}", hex::encode(&body.salt), hex::encode(&body.mac), hex::encode(&body.ciphertext));
    let mut text = if label == DEFAULT_LABEL || label.is_empty() {
        "$ANSIBLE_VAULT;1.1;AES256\n".to_owned()
    } else {
        format!("$ANSIBLE_VAULT;1.2;AES256;{label}\n")
    };
    for (index, digit) in hex::encode(inner).chars().enumerate() {
        if index > 0 && index % WIDTH == 0 {
            text.push('\n');
        }
        text.push(digit);
    }
    text.push('\n');
    text
}
