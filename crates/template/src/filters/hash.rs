//! Encodings and digests.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use md5::Md5;
use minijinja::{State, Value};
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::call::{Arguments, Outcome};
use crate::python::text;

fn encode(args: &Arguments, text: &str, encoding: &str) -> Result<Vec<u8>, minijinja::Error> {
    crate::encode(text, encoding).map_err(|error| args.failed(error.to_string()))
}

fn decode(args: &Arguments, bytes: Vec<u8>, encoding: &str) -> Result<String, minijinja::Error> {
    let plain = encoding.to_lowercase().replace('_', "-");
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks(2).map(|pair| unit([pair[0], pair.get(1).copied().unwrap_or(0)])).collect();
        String::from_utf16_lossy(&units)
    };
    Ok(match plain.as_str() {
        // Bytes that are not UTF-8 must not stop a play, so the replacement character is shown.
        "utf-8" | "utf8" | "" | "ascii" | "us-ascii" => {
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => bytes.into_iter().map(char::from).collect(),
        "utf-16-le" | "utf-16le" => wide(&bytes, u16::from_le_bytes),
        "utf-16-be" | "utf-16be" => wide(&bytes, u16::from_be_bytes),
        "utf-16" | "utf16" => match bytes.as_slice() {
            [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
            [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
            rest => wide(rest, u16::from_le_bytes),
        },
        _ => return Err(args.error(format!("does not know the encoding '{encoding}'"))),
    })
}

pub(super) fn b64encode(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let encoding = args.text_of("encoding").unwrap_or_default();
    let bytes = match args.value().as_bytes() {
        Some(bytes) if args.value().as_str().is_none() => bytes.to_vec(),
        _ => encode(args, &args.text(), &encoding)?,
    };
    let engine = if args.flag("urlsafe", false) { &general_purpose::URL_SAFE } else { &general_purpose::STANDARD };
    Ok(Value::from(engine.encode(bytes)))
}

pub(super) fn b64decode(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let (alphabet, extra) = match args.flag("urlsafe", false) {
        true => (&base64::alphabet::URL_SAFE, "-_="),
        false => (&base64::alphabet::STANDARD, "+/="),
    };
    // Python skips characters outside the alphabet, such as line breaks.
    let kept: String =
        args.string()?.chars().filter(|kept| kept.is_ascii_alphanumeric() || extra.contains(*kept)).collect();
    let bytes = GeneralPurpose::new(alphabet, LENIENT)
        .decode(kept)
        .map_err(|_| args.error("cannot read its value as base64: its length or padding is wrong"))?;
    decode(args, bytes, &args.text_of("encoding").unwrap_or_default()).map(Value::from)
}

/// Hexadecimal digest of bytes, by the algorithm's name.
pub(crate) fn digest(bytes: &[u8], algorithm: &str) -> Option<String> {
    Some(match algorithm {
        "md5" => hex::encode(Md5::digest(bytes)),
        "sha1" => hex::encode(Sha1::digest(bytes)),
        "sha224" => hex::encode(Sha224::digest(bytes)),
        "sha256" => hex::encode(Sha256::digest(bytes)),
        "sha384" => hex::encode(Sha384::digest(bytes)),
        "sha512" => hex::encode(Sha512::digest(bytes)),
        _ => return None,
    })
}

fn digest_of(args: &Arguments, algorithm: &str) -> Outcome {
    let value = args.value();
    let bytes = match value.as_bytes() {
        Some(bytes) if value.as_str().is_none() => bytes.to_vec(),
        _ => text(value).into_bytes(),
    };
    digest(&bytes, algorithm).map(Value::from).ok_or_else(|| {
        args.says_of(
            format!("unsupported hash type {algorithm}"),
            "There are md5, sha1, sha224, sha256, sha384 and sha512.",
        )
    })
}

pub(super) fn hash(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    digest_of(args, &args.text_of("hashtype").unwrap_or_else(|| "sha1".to_owned()))
}

pub(super) fn sha1(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    digest_of(args, "sha1")
}

pub(super) fn md5(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    digest_of(args, "md5")
}

/// Ansible's UUID namespace.
const ANSIBLE_NAMESPACE: uuid::Uuid = uuid::uuid!("361E6D51-FAEC-444A-9079-341386DA8E2E");

pub(super) fn to_uuid(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let namespace = match args.text_of("namespace") {
        None => ANSIBLE_NAMESPACE,
        Some(namespace) => uuid::Uuid::parse_str(&namespace).map_err(|_| {
            args.says(format!("Invalid value '{namespace}' for 'namespace': badly formed hexadecimal UUID string"))
        })?,
    };
    Ok(Value::from(uuid::Uuid::new_v5(&namespace, args.text().as_bytes()).to_string()))
}
