//! General names, such as host names and addresses, in text form and in DER.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    der::{Element, pairs},
    encode, names,
};
use crate::Failure;

/// A general name with its type prefix, such as `DNS:`.
pub(super) fn shown(name: &Element<'_>) -> Option<String> {
    Some(match name.tag {
        0x81 => format!("email:{}", name.text()),
        0x82 => format!("DNS:{}", name.text()),
        0x86 => format!("URI:{}", name.text()),
        0x87 => format!("IP:{}", address_of(name.body)?),
        0x88 => format!("RID:{}", name.oid()),
        0xa4 => {
            let (directory, _) = Element::first(name.body)?;
            let parts = names::attributes(&directory)?;
            let shown = parts.iter().rev().map(|(oid, value)| {
                let (_, short) = names::of_attribute(oid);
                format!("{short}={}", escaped(value))
            });
            format!("dirName:{}", shown.collect::<Vec<_>>().join(","))
        }
        0xa0 => {
            let parts = name.parts()?;
            let value = parts.get(1).and_then(|value| Element::first(value.body)).map(|(value, _)| value.whole);
            let digits = hex::encode(value.unwrap_or_default());
            format!("otherName:{};{}", parts.first()?.oid(), pairs(&digits))
        }
        _ => return None,
    })
}
/// Encodes a name with its type prefix; `what` names its purpose in errors.
pub(super) fn parse(name: &str, what: &str) -> Result<Vec<u8>, Failure> {
    let refuse = |why: &str| Failure::new(format!("Cannot parse {what} \"{name}\"{why}"));
    let Some((kind, value)) = name.split_once(':') else { return Err(refuse(" (forgot \"DNS:\" prefix?)")) };
    let ascii = |tag: u8| match value.is_ascii() {
        true => Ok(encode::element(tag, value.as_bytes())),
        false => Err(refuse(": write the name of the host with xn-- instead of letters that are not ASCII")),
    };
    match kind {
        "email" => ascii(0x81),
        "DNS" => ascii(0x82),
        "URI" => ascii(0x86),
        "IP" => encode::address(value)
            .map(|bytes| encode::element(0x87, &bytes))
            .ok_or_else(|| refuse(": it is neither an address nor a network")),
        "RID" => encode::oid_body(value)
            .map(|body| encode::element(0x88, &body))
            .ok_or_else(|| refuse(": it is not an object identifier")),
        "dirName" => {
            let mut parts = distinguished_name(value).map_err(|why| refuse(&format!(": {why}")))?;
            parts.reverse();
            Ok(encode::element(0xa4, &names::encode(&parts).map_err(|why| refuse(&format!(": {why}")))?))
        }
        "otherName" => other_name(value).ok_or_else(|| {
            refuse(
                ", must be in the format \"otherName:<OID>;UTF8:<text>\" or \"otherName:<OID>;<bytes of its encoding, as 0c:02:68:69>\"",
            )
        }),
        _ => Err(refuse(" (its kind is none of DNS, IP, email, URI, RID, dirName, otherName)")),
    }
}

/// The encodings of several names.
pub(super) fn parse_all(all: &[&str], what: &str) -> Result<Vec<Vec<u8>>, Failure> {
    all.iter().map(|name| parse(name, what)).collect()
}

fn other_name(text: &str) -> Option<Vec<u8>> {
    let (oid, value) = text.split_once(';')?;
    let value = match value.strip_prefix("UTF8:") {
        Some(text) => encode::element(0x0c, text.as_bytes()),
        None => {
            let byte = |digits: &str| u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() <= 2);
            value.split(':').map(byte).collect::<Option<Vec<u8>>>()?
        }
    };
    Some(encode::of_parts(0xa0, [encode::oid(oid)?, encode::element(0xa0, &value)]))
}

/// Parses a name such as `CN=example.org, O = Example` or `/CN=example.org/O=Example` to identifiers and texts.
fn distinguished_name(text: &str) -> Result<Vec<(String, String)>, String> {
    let text = text.trim_start();
    let (separator, mut rest) = match text.strip_prefix('/') {
        Some(rest) => ('/', rest),
        None => (',', text),
    };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (oid, value) = attribute(rest)?;
        let (value, behind) = unescaped(value, separator)?;
        parts.push((oid, value));
        rest = match behind.strip_prefix(separator) {
            Some("") => return Err("unexpected end of string".to_owned()),
            Some(behind) => behind,
            None => behind,
        };
    }
    Ok(parts)
}

/// Splits off the identifier before the first `=`.
pub(super) fn attribute(text: &str) -> Result<(String, &str), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("cannot start part in \"{text}\""))?;
    let name = name.trim_matches(' ');
    let oid = names::oid(name).ok_or_else(|| format!("Cannot find OID for \"{name}\""))?;
    Ok((oid.to_owned(), value.trim_start_matches(' ')))
}

/// Splits off a value and resolves its escapes.
fn unescaped(text: &str, separator: char) -> Result<(String, &str), String> {
    let nibbles =
        |pair: &str| u8::from_str_radix(pair, 16).map_err(|_| format!("Invalid hex sequence entry \"{pair}\""));
    let bytes_end = text.find(separator).unwrap_or(text.len());
    let (mut bytes, mut rest) = (Vec::new(), text);
    if let Some(digits) = text.get(..bytes_end).and_then(|value| value.strip_prefix('#')) {
        let pairs = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2));
        bytes = pairs.map(nibbles).collect::<Result<_, _>>()?;
        rest = text.get(bytes_end..).unwrap_or_default();
    } else {
        while let Some(character) = rest.chars().next().filter(|character| *character != separator) {
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            let escaped = rest.chars().next();
            match (character, escaped) {
                ('\\', Some(digit)) if digit.is_ascii_hexdigit() => {
                    let pair = rest.get(..2).ok_or("a hex escape sequence is incomplete at the end")?;
                    bytes.push(nibbles(pair)?);
                    rest = rest.get(2..).unwrap_or_default();
                }
                ('\\', Some(escaped)) => {
                    bytes.extend(escaped.to_string().bytes());
                    rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                }
                _ => bytes.extend(character.to_string().bytes()),
            }
        }
    }
    Ok((String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?, rest))
}

/// Escapes a value as in RFC 4514.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        let first_or_last = at == 0 && matches!(character, ' ' | '#') || at == last && character == ' ';
        match character {
            '\0' => text.push_str("\\00"),
            ',' | '+' | '<' | '>' | ';' | '"' | '\\' => text.extend(['\\', character]),
            _ if first_or_last => text.extend(['\\', character]),
            _ => text.push(character),
        }
    }
    text
}

fn address_of(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        return Some(Ipv6Addr::from(bytes).to_string());
    }
    // A network consists of an address and a mask.
    let (address, mask) = bytes.split_at_checked(bytes.len() / 2)?;
    let length: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    matches!(bytes.len(), 8 | 32).then(|| address_of(address)).flatten().map(|shown| format!("{shown}/{length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_names_round_trip() {
        for name in [
            "DNS:*.example.org",
            "IP:192.0.2.1",
            "IP:2001:db8::/32",
            "email:ada@example.org",
            "URI:https://example.org/a?b",
            "RID:1.2.3.4",
            "otherName:1.2.3.4;0c:02:68:69",
            "dirName:CN=a\\, b,O=\\ c",
        ] {
            let encoded = parse(name, "Subject Alternative Name").unwrap();
            assert_eq!(shown(&Element::first(&encoded).unwrap().0).as_deref(), Some(name));
        }
        assert_eq!(parse("otherName:1.2.3;UTF8:hi", "").unwrap(), parse("otherName:1.2.3;c:2:68:69", "").unwrap());
        assert_eq!(parse("dirName:/O=x/CN=y", "").unwrap(), parse("dirName:O = x, CN = y", "").unwrap());
        for name in [
            "example.org",
            "IP:1",
            "RID:x",
            "DNS:b\u{fc}cher.de",
            "dirName:x",
            "dirName:CN=a,",
            "otherName:1.2;z",
            "x:y",
        ] {
            assert!(parse(name, "name").is_err(), "{name}");
        }
    }

    #[test]
    fn name_attributes_escaped() {
        assert_eq!(escaped(" a, \"b\" #"), "\\ a\\, \\\"b\\\" #");
    }
}
