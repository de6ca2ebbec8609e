//! Limits of what the journal keeps of a value that a host or a template has made: its size as JSON, and its nesting,
//! which readers of JSON limit too.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::record::Withheld;

/// Maximum size of a result as JSON, in bytes. It counts as a whole: texts, keys and structure.
pub(super) const RESULT: usize = 1 << 20;

/// Deepest nesting of a value. Readers accept 127 levels, of which a record has three itself.
const DEPTH: usize = 120;

/// Appends the JSON text of a value, `most` bytes at most.
///
/// # Errors
///
/// Appends nothing and returns the reason if the value is too large, nests too deeply, or is no JSON.
pub(super) fn append(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized), most: usize) -> Result<(), Withheld> {
    let before = text.len();
    let limited = Limited { text, most: before.saturating_add(most) };
    let written = value.serialize(&mut Serializer::with_formatter(limited, Levels::default()));
    written.map_err(|error| {
        text.truncate(before);
        match error.io_error_kind() {
            Some(io::ErrorKind::InvalidData) => Withheld::Depth,
            _ => Withheld::Size,
        }
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

/// Writes compact JSON and counts the levels that are open.
#[derive(Default)]
struct Levels(usize);

impl Levels {
    fn enter(&mut self) -> io::Result<()> {
        self.0 += 1;
        if self.0 > DEPTH { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}

impl Formatter for Levels {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave();
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave();
        writer.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |value, _| json!([value]))
    }

    #[test]
    fn value_beyond_a_limit_is_not_appended() {
        let mut line = b"{".to_vec();
        assert_eq!(append(&mut line, &json!({"a": ["b"]}), 11), Ok(()));
        assert_eq!(line, b"{{\"a\":[\"b\"]}");
        let long: Vec<String> = vec!["x".to_owned(); 10];
        assert_eq!(append(&mut line, &long, 30), Err(Withheld::Size));
        assert_eq!(append(&mut line, &nested(DEPTH + 1), 1000), Err(Withheld::Depth));
        assert_eq!(line, b"{{\"a\":[\"b\"]}");
    }

    #[test]
    fn deepest_value_can_be_read_within_a_record() {
        let value = text(&nested(DEPTH), 1000).unwrap();
        let record = format!("{{\"effect\":{{\"ansible_facts\":{{\"a\":{value}}}}}}}");
        assert!(serde_json::from_str::<Value>(&record).is_ok());
    }
}
