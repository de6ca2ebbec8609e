//! Passwords in URLs: `scheme://user:password@host`.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;

/// Ranges of the passwords of URLs in a text.
pub(super) fn passwords(text: &[u8]) -> Vec<Range<usize>> {
    static SEPARATOR: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b"://"));
    let mut found = Vec::new();
    for start in SEPARATOR.find_iter(text) {
        let begins = text.get(..start).and_then(<[u8]>::last).is_some_and(u8::is_ascii_alphanumeric);
        let from = start + 3;
        let rest = text.get(from..).unwrap_or_default();
        let is_end =
            |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'<>\\`{}".contains(byte);
        let authority = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len())).unwrap_or_default();
        let Some(at) = authority.iter().rposition(|byte| *byte == b'@').filter(|_| begins) else { continue };
        let Some(colon) = authority.iter().take(at).position(|byte| *byte == b':') else { continue };
        if colon + 1 < at {
            found.push(from + colon + 1..from + at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        passwords(text.as_bytes()).into_iter().filter_map(|range| text.get(range)).collect()
    }

    #[test]
    fn password_of_a_url_is_found_between_the_colon_and_the_last_at() {
        assert_eq!(found("see https://me:s3cr@t@host:80/a@b and git://x@h, http://a:b@c"), ["s3cr@t", "b"]);
        assert!(found("http://host/x:y@z http://user:@host http://host:80 a://{{ u }}:{{ p }}@h").is_empty());
    }
}
