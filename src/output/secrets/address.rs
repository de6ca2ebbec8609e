//! Credentials in URLs: `scheme://user:password@host`, `https://token@host` and `?access_token=...`.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use windlass_modules::is_token;

/// Length of the shortest URL with a credential, `a://b:c@`, in bytes.
const SHORTEST: usize = 8;

/// Parameters of a query whose values are credentials.
const PARAMETERS: &[&[u8]] = &[
    b"access_token",
    b"api_key",
    b"apikey",
    b"auth_token",
    b"client_secret",
    b"passwd",
    b"password",
    b"private_token",
    b"refresh_token",
    b"secret",
    b"sig",
    b"token",
    b"x-amz-signature",
];

/// Ranges of the credentials of URLs in a text.
pub(super) fn passwords(text: &[u8]) -> Vec<Range<usize>> {
    static SEPARATOR: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b"://"));
    let mut found = Vec::new();
    // Most texts are short or have no colon.
    if text.len() < SHORTEST || memchr::memchr(b':', text).is_none() {
        return found;
    }
    for start in SEPARATOR.find_iter(text) {
        let begins = text.get(..start).and_then(<[u8]>::last).is_some_and(u8::is_ascii_alphanumeric);
        let from = start + 3;
        let rest = text.get(from..).unwrap_or_default();
        let is_end =
            |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'<>\\`{}".contains(byte);
        let authority = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len())).unwrap_or_default();
        if !begins {
            continue;
        }
        if let Some(at) = authority.iter().rposition(|byte| *byte == b'@') {
            let colon = authority.iter().take(at).position(|byte| *byte == b':').unwrap_or(at);
            if authority.get(..colon).is_some_and(is_token) {
                found.push(from..from + colon);
            }
            if colon + 1 < at {
                found.push(from + colon + 1..from + at);
            }
        }
        found.extend(of_query(text, from + authority.len()));
    }
    found
}

/// Ranges of the credentials in the query of a URL whose path begins at `from`.
fn of_query(text: &[u8], from: usize) -> Vec<Range<usize>> {
    let rest = text.get(from..).unwrap_or_default();
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'<>\\`{}".contains(byte);
    let url = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len())).unwrap_or_default();
    let Some(mark) = url.iter().position(|byte| *byte == b'?') else { return Vec::new() };
    let mut start = mark + 1;
    let mut found = Vec::new();
    for field in url.get(start..).unwrap_or_default().split(|byte| b"&;#".contains(byte)) {
        if let Some(equals) = field.iter().position(|byte| *byte == b'=')
            && PARAMETERS.contains(&&*field.get(..equals).unwrap_or_default().to_ascii_lowercase())
            && equals + 1 < field.len()
        {
            found.push(from + start + equals + 1..from + start + field.len());
        }
        start += field.len() + 1;
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
    fn tokens_of_a_url_are_found_in_place_of_a_user_and_in_the_query() {
        let token = "ghp_0123456789abcdefABCD";
        for url in [format!("clone https://{token}@host/x"), format!("https://{token}:@host")] {
            assert_eq!(found(&url), [token]);
        }
        // GitHub's way to say that the user is a token.
        assert_eq!(found(&format!("https://{token}:x-oauth-basic@host")), [token, "x-oauth-basic"]);
        assert_eq!(found("https://h/x?a=1&access_token=s3cr&b=2#c, ftp://h?Token=t"), ["s3cr", "t"]);
        assert!(found("ssh://git@host https://user-with-a-very-long-name@host https://h/?tokens=1&token=").is_empty());
    }

    #[test]
    fn password_of_a_url_is_found_between_the_colon_and_the_last_at() {
        assert_eq!(found("see https://me:s3cr@t@host:80/a@b and git://x@h, http://a:b@c"), ["s3cr@t", "b"]);
        assert!(found("http://host/x:y@z http://user:@host http://host:80 a://{{ u }}:{{ p }}@h").is_empty());
    }
}
