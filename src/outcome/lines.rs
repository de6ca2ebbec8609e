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
        windlass_template::data(Lines { text: text.clone(), lines })
    }

    /// Memory in addition to that of the text, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.lines.len() * size_of::<Range<usize>>()
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
    let bytes = text.as_bytes();
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|byte| MAY_END_LINE[usize::from(*byte)]) {
        at += found;
        match boundary(&bytes[at..]) {
            0 => at += 1,
            width => {
                lines.push(start..at);
                at += width;
                start = at;
            }
        }
    }
    if start < bytes.len() {
        lines.push(start..bytes.len());
    }
    lines
}

/// First bytes of line boundaries. Other characters rarely start with them, so the search looks at most bytes only
/// once.
const MAY_END_LINE: [bool; 256] = {
    let mut may = [false; 256];
    let mut index = 0;
    let first = b"\n\r\x0b\x0c\x1c\x1d\x1e\xc2\xe2";
    while index < first.len() {
        may[first[index] as usize] = true;
        index += 1;
    }
    may
};

/// Length of the line boundary that a text starts with; 0 if there is none.
fn boundary(text: &[u8]) -> usize {
    match text {
        [b'\r', b'\n', ..] | [0xc2, 0x85, ..] => 2,
        [b'\n' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1e, ..] => 1,
        // U+2028 and U+2029.
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_python() {
        let lines = |text: &str| windlass_template::to_json(&Lines::value(&Value::from(text))).to_string();
        assert_eq!(lines("a\r\nb\n\nc"), r#"["a","b","","c"]"#);
        assert_eq!(lines("größe\u{2028}x\u{85}\r"), r#"["größe","x",""]"#);
        assert_eq!(lines("â\u{2027}é\u{2029}\x0b\u{1e}z"), "[\"â\u{2027}é\",\"\",\"\",\"z\"]");
        assert_eq!((lines("\n"), lines("")), (r#"[""]"#.to_owned(), "[]".to_owned()));
    }
}
