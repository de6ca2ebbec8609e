//! Host names and addresses, with ranges and ports.

use std::net::Ipv6Addr;

use crate::range;

/// Expands a host pattern of an inventory into names, and returns its port.
pub(crate) fn expand(pattern: &str) -> Result<(Vec<String>, Option<u32>), range::Wrong> {
    let (host, port) = parse(pattern).unwrap_or((pattern, None));
    Ok((range::expand(host)?, port))
}

/// Splits `host:port`; `None` if the text is not a host name or address, with or without ranges.
pub fn parse(text: &str) -> Option<(&str, Option<u32>)> {
    let (host, port) =
        split_port(text).map_or((text, None), |(host, port)| (host, Some(port).filter(|port| *port > 0)));
    (is_name(host) || is_ipv6(host)).then_some((host, port))
}

/// Whether a text is an IPv4 or IPv6 address.
pub(crate) fn is_ip(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

/// Splits `[host]:port`, or `host:port` if the host has no colon outside brackets.
fn split_port(text: &str) -> Option<(&str, u32)> {
    let (host, digits) = text.rsplit_once(':')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port = digits.parse().ok()?;
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'))
        && !inner.is_empty()
        // `[1:3]` alone is a range, and `[a:b][c:d]` are two ranges.
        && (is_ipv6(inner) || is_name(inner))
    {
        return Some((inner, port));
    }
    let mut depth = 0u8;
    for byte in host.bytes() {
        match byte {
            b'[' if depth == 0 => depth = 1,
            b']' if depth == 1 => depth = 0,
            b':' | b'[' | b']' if depth == 0 => return None,
            _ => {}
        }
    }
    (depth == 0).then_some((host, port))
}

/// Part of a name: a character or a whole range.
enum Piece {
    Character(char),
    Range,
}

/// Whether a text consists of labels separated by dots. Labels have letters, digits, `_`, `-` and ranges; IPv4
/// addresses qualify too.
fn is_name(text: &str) -> bool {
    let Some(pieces) = pieces(text) else { return false };
    pieces.split(|piece| matches!(piece, Piece::Character('.'))).all(|label| {
        let fits = |piece: &Piece| match piece {
            Piece::Range => true,
            Piece::Character(character) => character.is_alphanumeric() || matches!(character, '_' | '-'),
        };
        let starts = !matches!(label.first(), None | Some(Piece::Character('-')));
        let ends = !matches!(label.last(), None | Some(Piece::Character('-' | '_')));
        starts && ends && label.iter().all(fits)
    })
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if character == '[' {
            let (range, tail) = rest.get(1..)?.split_once(']')?;
            if !is_range(range, |part| is_number(part) || is_letter(part)) {
                return None;
            }
            pieces.push(Piece::Range);
            rest = tail;
        } else {
            pieces.push(Piece::Character(character));
            rest = rest.get(character.len_utf8()..)?;
        }
    }
    Some(pieces)
}

fn is_range(text: &str, bound: impl Fn(&str) -> bool) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [begin, end] => bound(begin) && bound(end) && is_number(begin) == is_number(end),
        [begin, end, step] => bound(begin) && bound(end) && is_number(begin) == is_number(end) && is_number(step),
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [byte] if byte.is_ascii_alphabetic())
}

/// Whether a text is an IPv6 address, in which parts may be hexadecimal ranges.
fn is_ipv6(text: &str) -> bool {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('[') {
        let Some((range, tail)) = tail.split_once(']') else { return false };
        let hexadecimal = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts: Vec<&str> = range.split(':').collect();
        if !matches!(parts.as_slice(), [begin, end, ..] if hexadecimal(begin) && hexadecimal(end)) || parts.len() > 3 {
            return false;
        }
        plain += head;
        plain.push('0');
        rest = tail;
    }
    plain += rest;
    plain.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_split_off_names_and_bracketed_addresses() {
        assert_eq!(parse("web1"), Some(("web1", None)));
        assert_eq!(parse("web1.example.com:2222"), Some(("web1.example.com", Some(2222))));
        assert_eq!(parse("web[1:3]:22"), Some(("web[1:3]", Some(22))));
        assert_eq!(parse("web[1:3]"), Some(("web[1:3]", None)));
        assert_eq!(parse("[2001:db8::1]:22"), Some(("2001:db8::1", Some(22))));
        assert_eq!(parse("2001:db8::1"), Some(("2001:db8::1", None)));
        assert_eq!(parse("192.0.2.[1:9]:22"), Some(("192.0.2.[1:9]", Some(22))));
        assert_eq!(parse("fe80::[1:9]"), Some(("fe80::[1:9]", None)));
    }

    #[test]
    fn invalid_host_refused() {
        for text in ["", "a:b", "web:db:!x", "-a", "a-", "a..b", "we*", "a b", "web[0]", "web[1:", "!a"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
