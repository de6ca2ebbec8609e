//! Estimates the memory that a JSON message needs, before any value is built from it.
//!
//! Two bytes of JSON (`[]`) become some eighty bytes of values, so the length of a message does not bound its cost.

use memchr::memchr2;

use crate::Error;

/// Deepest nesting of lists and mappings in a message.
pub const MAX_DEPTH: usize = 120;
/// Largest accepted memory estimate for one message, in bytes.
pub const MAX_WEIGHT: usize = 256 << 20;

/// Bytes for an empty list or mapping and its slot in the surrounding one.
const CONTAINER: usize = 96;
/// Bytes for a member of a mapping, in addition to its key and value.
const MEMBER: usize = 48;
/// Bytes for a scalar, in addition to its text.
const SCALAR: usize = 32;

/// Estimates the memory for the values of a JSON text, in bytes; fails beyond the limits. The text may be invalid JSON.
pub fn weigh(json: &[u8]) -> Result<usize, Error> {
    let (mut rest, mut depth, mut weight) = (json, 0_usize, 0_usize);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => {
                rest = after_string(after);
                weight += SCALAR + (after.len() - rest.len());
            }
            b'[' | b'{' => {
                depth += 1;
                weight += CONTAINER;
                if depth > MAX_DEPTH {
                    return Err(Error::TooDeep { limit: MAX_DEPTH });
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b':' => weight += MEMBER,
            b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                let end = after.iter().position(|byte| !is_word(*byte)).unwrap_or(after.len());
                rest = after.get(end..).unwrap_or_default();
                weight += SCALAR;
            }
        }
        if weight > MAX_WEIGHT {
            return Err(Error::TooHeavy { limit: MAX_WEIGHT });
        }
    }
    Ok(weight)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The JSON text after the closing quote of a string that begins before `text`.
pub fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(position) = memchr2(b'"', b'\\', text) {
        let is_end = text.get(position) == Some(&b'"');
        text = text.get(position + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_cost_only_their_length() {
        let text = format!("{{\"a\": \"{}\\\"[\"}}", "[".repeat(1000));
        assert_eq!(weigh(text.as_bytes()).unwrap(), CONTAINER + MEMBER + (SCALAR + 2) + (SCALAR + 1004));
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused() {
        assert!(weigh("[".repeat(MAX_DEPTH).as_bytes()).is_ok());
        assert!(matches!(weigh("[".repeat(MAX_DEPTH + 1).as_bytes()), Err(Error::TooDeep { .. })));
    }

    #[test]
    fn millions_of_empty_lists_refused_long_text_accepted() {
        assert!(matches!(weigh("[],".repeat(3_000_000).as_bytes()), Err(Error::TooHeavy { .. })));
        let text = format!("\"{}\"", "x".repeat(100 << 20));
        assert!(weigh(text.as_bytes()).is_ok());
    }

    #[test]
    fn find_result_of_100000_files_accepted() {
        let file = r#"{"path":"/usr/share/doc/some/package/file.txt","mode":"0644","isdir":false,"size":1234,"uid":0,"gid":0,"mtime":1700000000.5,"pw_name":"root"},"#;
        assert!(weigh(file.repeat(100_000).as_bytes()).is_ok());
    }
}
