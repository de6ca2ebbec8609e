//! Limit of what the journal keeps of a value that a host or a template has made: its size as JSON.

use std::io;

use serde::Serialize;

use super::record::Withheld;

/// Maximum size of a result as JSON, in bytes. It counts as a whole: texts, keys and structure.
pub(super) const RESULT: usize = 1 << 20;

/// Appends the JSON text of a value, `most` bytes at most.
///
/// # Errors
///
/// Appends nothing and returns the reason if the value is too large or no JSON.
pub(super) fn append(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized), most: usize) -> Result<(), Withheld> {
    let before = text.len();
    let limited = Limited { text, most: before.saturating_add(most) };
    serde_json::to_writer(limited, value).map_err(|_| {
        text.truncate(before);
        Withheld::Size
    })
}

/// JSON text of a value within the limits; `None` beyond them.
pub(super) fn text(value: &(impl Serialize + ?Sized), most: usize) -> Option<String> {
    let mut text = Vec::new();
    append(&mut text, value, most).ok()?;
    String::from_utf8(text).ok()
}

/// A text that does not grow beyond a length.
struct Limited<'a> {
    text: &'a mut Vec<u8>,
    most: usize,
}

impl io::Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_beyond_the_limit_is_not_appended() {
        let mut line = b"{".to_vec();
        assert_eq!(append(&mut line, &json!({"a": ["b"]}), 11), Ok(()));
        assert_eq!(line, b"{{\"a\":[\"b\"]}");
        let long: Vec<String> = vec!["x".to_owned(); 10];
        assert_eq!(append(&mut line, &long, 30), Err(Withheld::Size));
        assert_eq!(line, b"{{\"a\":[\"b\"]}");
    }
}
