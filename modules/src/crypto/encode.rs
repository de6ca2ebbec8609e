//! A DER encoder for certificates and signing requests.

use std::net::IpAddr;

/// An element with tag and length.
pub(super) fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut whole = vec![tag];
    let length = body.len();
    if length < 0x80 {
        whole.push(length as u8);
    } else {
        let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        whole.push(0x80 | digits.len() as u8);
        whole.extend(digits);
    }
    whole.extend(body);
    whole
}

/// An element that contains other elements.
pub(super) fn of_parts(tag: u8, parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    element(tag, &parts.into_iter().flatten().collect::<Vec<u8>>())
}

/// A SEQUENCE.
pub(super) fn sequence(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    of_parts(0x30, parts)
}

/// A SET of one element.
pub(super) fn set(part: Vec<u8>) -> Vec<u8> {
    element(0x31, &part)
}

/// An unsigned INTEGER from its bytes.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    element(0x02, &magnitude(bytes))
}

/// The body of an unsigned INTEGER: no leading zeros, except one that keeps it positive.
pub(super) fn magnitude(bytes: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if body.first().is_none_or(|first| first & 0x80 != 0) {
        body.insert(0, 0);
    }
    body
}

/// A BIT STRING of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    of_parts(0x03, [vec![0], bytes.to_vec()])
}

/// The body of a BIT STRING with these bits set, without trailing zeros.
pub(super) fn flags(set: &[usize]) -> Vec<u8> {
    let Some(last) = set.iter().max() else { return vec![0] };
    let mut body = vec![0; last / 8 + 2];
    if let Some(unused) = body.first_mut() {
        *unused = (7 - last % 8) as u8;
    }
    for bit in set {
        if let Some(byte) = body.get_mut(bit / 8 + 1) {
            *byte |= 0x80 >> (bit % 8);
        }
    }
    body
}

/// An object identifier from dotted notation.
pub(super) fn oid(text: &str) -> Option<Vec<u8>> {
    Some(element(0x06, &oid_body(text)?))
}

/// The body of an object identifier.
pub(super) fn oid_body(text: &str) -> Option<Vec<u8>> {
    let numbers = text.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    let [first, second, rest @ ..] = numbers.as_slice() else { return None };
    if *first > 2 || *first < 2 && *second > 39 {
        return None;
    }
    let mut body = Vec::new();
    for number in std::iter::once(first.checked_mul(40)?.checked_add(*second)?).chain(rest.iter().copied()) {
        let mut digits = vec![(number & 0x7f) as u8];
        let mut left = number >> 7;
        while left > 0 {
            digits.push(0x80 | (left & 0x7f) as u8);
            left >>= 7;
        }
        body.extend(digits.into_iter().rev());
    }
    Some(body)
}

/// A time; years from 2050 on take four digits.
pub(super) fn time(time: jiff::Timestamp) -> Vec<u8> {
    let text = super::times::shown(time);
    match text.get(..4).and_then(|year| year.parse::<u16>().ok()) {
        Some(1950..2050) => element(0x17, text.get(2..).unwrap_or_default().as_bytes()),
        _ => element(0x18, text.as_bytes()),
    }
}

/// The bytes of an address, or of a network and its mask.
pub(super) fn address(text: &str) -> Option<Vec<u8>> {
    let bytes = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let Some((address, length)) = text.split_once('/') else { return text.parse().ok().map(bytes) };
    let address = bytes(address.parse().ok()?);
    let mask = match length.parse::<usize>() {
        Ok(length) if length <= address.len() * 8 => {
            (0..address.len()).map(|at| !(0xffu32 >> (length.saturating_sub(at * 8)).min(8)) as u8).collect()
        }
        Ok(_) => return None,
        Err(_) => bytes(length.parse().ok()?),
    };
    // The host bits of a network must be zero.
    let clean = address.len() == mask.len() && address.iter().zip(&mask).all(|(byte, mask)| byte & !mask == 0);
    clean.then(|| [address, mask].concat())
}

/// The bytes of a decimal number.
pub(super) fn decimal(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return None;
    }
    // Lowest byte first.
    let mut bytes: Vec<u8> = vec![0];
    for digit in text.chars() {
        let mut carry = digit.to_digit(10)?;
        for byte in &mut bytes {
            let sum = u32::from(*byte) * 10 + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_length_takes_minimal_bytes() {
        assert_eq!(element(4, &[7; 3]), [4, 3, 7, 7, 7]);
        assert_eq!(element(4, &[0; 200]).get(..3).unwrap(), [4, 0x81, 200]);
        assert_eq!(element(4, &[0; 300]).get(..4).unwrap(), [4, 0x82, 1, 44]);
    }

    #[test]
    fn der_integer_stays_positive() {
        assert_eq!(integer(&[0, 0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(decimal("1461501637330902918203684832716283019655932542975").unwrap(), [0xff; 20]);
    }

    #[test]
    fn der_flags_end_at_last_set_bit() {
        assert_eq!(flags(&[0, 2]), [5, 0xa0]);
        assert_eq!(flags(&[8]), [7, 0, 0x80]);
    }

    #[test]
    fn der_identifier_encoded_from_dotted_text() {
        assert_eq!(oid("1.2.840.113549.1.1.11").unwrap(), [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11]);
        assert_eq!(oid("2.999.3").unwrap(), [6, 3, 0x88, 0x37, 3]);
        assert!(oid("1").is_none() && oid("1.x").is_none() && oid("1.40").is_none());
    }

    #[test]
    fn network_encoded_with_mask() {
        assert_eq!(address("10.0.0.0/12").unwrap(), [10, 0, 0, 0, 255, 240, 0, 0]);
        assert_eq!(address("192.0.2.1").unwrap(), [192, 0, 2, 1]);
        assert!(address("10.0.0.1/8").is_none() && address("10.0.0.0/33").is_none());
    }
}
