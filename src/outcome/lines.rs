//! The lines of an output.

use std::ops::Range;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_template::Value;

/// The lines of a text, as a list. Each is copied only when it is read, because an output may have millions.
#[derive(Debug)]
pub(super) struct Lines {
    text: Value,
    lines: Vec<Range<usize>>,
}

impl Lines {
    /// The lines of a text, split where Python's `str.splitlines` splits it; none if the value is not a text.
    pub(super) fn value(text: &Value) -> Value {
        let lines = split(text.as_str().unwrap_or_default());
        Value::from_object(Lines { text: text.clone(), lines })
    }
}

impl Object for Lines {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let line = self.lines.get(key.as_usize()?)?;
        self.text.as_str()?.get(line.clone()).map(Value::from)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.lines.len())
    }
}

fn split(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let boundary =
            rest.find(['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}']);
        let length = boundary.unwrap_or(rest.len());
        lines.push(start..start + length);
        let tail = rest.get(length..).unwrap_or_default();
        let width = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(0, char::len_utf8) };
        start += length + width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_python() {
        let lines = |text: &str| windlass_template::to_json(&Lines::value(&Value::from(text))).to_string();
        assert_eq!(lines("a\r\nb\n\nc"), r#"["a","b","","c"]"#);
        assert_eq!(lines("größe\u{2028}x\u{85}\r"), r#"["größe","x",""]"#);
        assert_eq!((lines("\n"), lines("")), (r#"[""]"#.to_owned(), "[]".to_owned()));
    }
}
