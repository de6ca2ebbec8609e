//! Encodes text in Python's common encodings.

/// Reason why a text cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// The encoding does not exist or is not supported.
    #[error(
        "the encoding '{0}' is not known; there are utf-8, utf-8-sig, utf-16, utf-32, ascii, latin-1, iso-8859-15 and windows-1252"
    )]
    Unknown(String),
    /// The encoding lacks a character of the text.
    #[error("the text has characters that '{0}' lacks")]
    Lacking(String),
}

/// Characters for the bytes from 0x80 in Windows-1252; five of them are unassigned.
const WINDOWS_1252: [Option<char>; 32] = [
    Some('€'),
    None,
    Some('‚'),
    Some('ƒ'),
    Some('„'),
    Some('…'),
    Some('†'),
    Some('‡'),
    Some('ˆ'),
    Some('‰'),
    Some('Š'),
    Some('‹'),
    Some('Œ'),
    None,
    Some('Ž'),
    None,
    None,
    Some('‘'),
    Some('’'),
    Some('“'),
    Some('”'),
    Some('•'),
    Some('–'),
    Some('—'),
    Some('˜'),
    Some('™'),
    Some('š'),
    Some('›'),
    Some('œ'),
    None,
    Some('ž'),
    Some('Ÿ'),
];

/// Encodes a text.
pub fn encode(text: &str, encoding: &str) -> Result<Vec<u8>, EncodingError> {
    let narrow = |byte_of: fn(char) -> Option<u8>| {
        let bytes = text.chars().map(byte_of).collect::<Option<Vec<u8>>>();
        bytes.ok_or_else(|| EncodingError::Lacking(encoding.to_owned()))
    };
    let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let widest =
        |bytes: fn(u32) -> [u8; 4]| text.chars().flat_map(|character| bytes(u32::from(character))).collect::<Vec<u8>>();
    match encoding.to_lowercase().replace('_', "-").as_str() {
        "utf-8" | "utf8" | "" => Ok(text.as_bytes().to_vec()),
        "ascii" | "us-ascii" => narrow(|character| u8::try_from(character).ok().filter(u8::is_ascii)),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => narrow(|character| u8::try_from(character).ok()),
        "windows-1252" | "cp1252" | "1252" => narrow(windows_1252),
        "iso-8859-15" | "iso8859-15" | "latin-9" | "latin9" => narrow(iso_8859_15),
        "utf-8-sig" => Ok([&[0xef, 0xbb, 0xbf], text.as_bytes()].concat()),
        "utf-32-le" | "utf-32le" => Ok(widest(u32::to_le_bytes)),
        "utf-32-be" | "utf-32be" => Ok(widest(u32::to_be_bytes)),
        "utf-32" | "utf32" => Ok([&[0xff, 0xfe, 0, 0], widest(u32::to_le_bytes).as_slice()].concat()),
        "utf-16-le" | "utf-16le" => Ok(wide(u16::to_le_bytes)),
        "utf-16-be" | "utf-16be" => Ok(wide(u16::to_be_bytes)),
        "utf-16" | "utf16" => Ok([&[0xff, 0xfe], wide(u16::to_le_bytes).as_slice()].concat()),
        _ => Err(EncodingError::Unknown(encoding.to_owned())),
    }
}

/// Latin-1 except for eight characters, one of which is the euro sign.
fn iso_8859_15(character: char) -> Option<u8> {
    const OWN: [(char, u8); 8] =
        [('€', 0xa4), ('Š', 0xa6), ('š', 0xa8), ('Ž', 0xb4), ('ž', 0xb8), ('Œ', 0xbc), ('œ', 0xbd), ('Ÿ', 0xbe)];
    if let Some((_, byte)) = OWN.iter().find(|(own, _)| *own == character) {
        return Some(*byte);
    }
    u8::try_from(character).ok().filter(|byte| OWN.iter().all(|(_, own)| own != byte))
}

fn windows_1252(character: char) -> Option<u8> {
    match u8::try_from(character) {
        Ok(byte @ (..0x80 | 0xa0..)) => Some(byte),
        _ => WINDOWS_1252.iter().zip(0x80..).find(|(known, _)| **known == Some(character)).map(|(_, byte)| byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_1252_encodes_euro_but_not_greek() {
        assert_eq!(encode("5 €", "windows-1252").ok(), Some(vec![b'5', b' ', 0x80]));
        assert_eq!(encode("é", "cp1252").ok(), Some(vec![0xe9]));
        assert_eq!(encode("½€", "iso-8859-15").ok(), None);
        assert_eq!(encode("€ é", "latin9").ok(), Some(vec![0xa4, b' ', 0xe9]));
        assert_eq!(encode("a", "utf-32").ok(), Some(vec![0xff, 0xfe, 0, 0, b'a', 0, 0, 0]));
        assert!(matches!(encode("α", "windows-1252"), Err(EncodingError::Lacking(_))));
        assert!(matches!(encode("a", "klingon"), Err(EncodingError::Unknown(_))));
    }
}
