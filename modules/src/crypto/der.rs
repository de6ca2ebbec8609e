//! A parser of DER that covers certificates.

use serde_json::Value;

/// An element of a DER encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    /// Content without tag and length.
    pub(crate) body: &'a [u8],
    /// Bytes with tag and length.
    pub(crate) whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// Splits off the first element and the remaining bytes.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<(Element<'a>, &'a [u8])> {
        let start = usize::from(*bytes.get(1)?);
        let (header, length) = if start < 0x80 {
            (2, start)
        } else {
            let count = start & 0x7f;
            let digits = bytes.get(2..2 + count).filter(|_| (1..=4).contains(&count))?;
            (2 + count, digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)))
        };
        let whole = bytes.get(..header.checked_add(length)?)?;
        Some((Element { tag: *bytes.first()?, body: whole.get(header..)?, whole }, bytes.get(whole.len()..)?))
    }

    /// The elements inside.
    pub(super) fn parts(&self) -> Option<Vec<Element<'a>>> {
        let mut rest = self.body;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, behind) = Element::first(rest)?;
            parts.push(part);
            rest = behind;
        }
        Some(parts)
    }

    /// An object identifier in dotted notation.
    pub(super) fn oid(&self) -> String {
        let mut numbers: Vec<u64> = Vec::new();
        let mut number = 0u64;
        for byte in self.body {
            number = number << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                if numbers.is_empty() {
                    let top = (number / 40).min(2);
                    numbers.extend([top, number - top * 40]);
                } else {
                    numbers.push(number);
                }
                number = 0;
            }
        }
        numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
    }

    /// A text of any DER string type.
    pub(super) fn text(&self) -> String {
        match self.tag {
            // Two bytes per character.
            0x1e => {
                let units =
                    self.body.chunks(2).map(|pair| pair.iter().fold(0u16, |unit, byte| unit << 8 | u16::from(*byte)));
                char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            _ => String::from_utf8_lossy(self.body).into_owned(),
        }
    }

    /// A number; as decimal text if it exceeds 64 bits.
    pub(super) fn number(&self) -> Value {
        number(self.body)
    }

    /// A time as `YYYYMMDDHHMMSSZ`.
    pub(super) fn time(&self) -> String {
        let text = self.text();
        match (self.tag, text.get(..2).and_then(|year| year.parse::<u8>().ok())) {
            (0x17, Some(year)) => format!("{}{text}", if year < 50 { "20" } else { "19" }),
            _ => text,
        }
    }
}

/// Hexadecimal digits in colon-separated pairs.
pub(super) fn pairs(digits: &str) -> String {
    let pairs: Vec<&str> = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
    pairs.join(":")
}

/// A number from its bytes; as decimal text if it exceeds 64 bits.
pub(super) fn number(bytes: &[u8]) -> Value {
    let bytes = bytes.iter().position(|byte| *byte != 0).and_then(|at| bytes.get(at..)).unwrap_or_default();
    if bytes.len() <= 8 {
        return bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)).into();
    }
    // Digits in base 10^9, lowest first.
    let mut digits: Vec<u64> = vec![0];
    for byte in bytes {
        let mut carry = u64::from(*byte);
        for digit in &mut digits {
            let sum = *digit * 256 + carry;
            *digit = sum % 1_000_000_000;
            carry = sum / 1_000_000_000;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    let mut text = String::new();
    for digit in digits.iter().rev() {
        text += &if text.is_empty() { digit.to_string() } else { format!("{digit:09}") };
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_number_of_any_length_decimal() {
        assert_eq!(number(&[0, 1, 0]), 256);
        assert_eq!(number(&[0xff; 20]), "1461501637330902918203684832716283019655932542975");
        assert_eq!(number(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), "18446744073709551616");
    }

    #[test]
    fn der_identifier_decoded_to_dotted_text() {
        let (oid, rest) = Element::first(&[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11]).unwrap();
        assert_eq!((oid.oid().as_str(), rest), ("1.2.840.113549.1.1.11", &[][..]));
        assert!(Element::first(&[0x30, 0x82, 1]).is_none());
    }
}
