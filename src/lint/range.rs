//! Ranges of findings: the word, key or value at the place of each.

use std::collections::HashMap;
use std::ops::Range;

use windlass_yaml::{Node, Span, Value};

use super::finding::{Finding, Place};
use super::rule::SYNTAX_ERROR;
use super::source::{Kind, SourceFile, place_of};

/// Keys and values of a file by their places.
pub(super) struct Ranges<'f> {
    file: &'f SourceFile,
    /// Text of the key or scalar at a place.
    texts: HashMap<Place, String>,
}

impl<'f> Ranges<'f> {
    /// Lists keys and values.
    pub(super) fn new(file: &'f SourceFile) -> Ranges<'f> {
        let mut ranges = Ranges { file, texts: HashMap::new() };
        ranges.add(&file.node);
        ranges
    }

    fn add(&mut self, node: &Node) {
        // An alias repeats the places of its anchor.
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| self.add(item)),
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if self.text(&key.span, key.to_text()) {
                        self.add(value);
                    }
                }
            }
            _ => drop(self.text(&node.span, node.scalar_text().unwrap_or_default())),
        }
    }

    /// Adds the text at a place. Returns false if the place is unknown or already has a text.
    fn text(&mut self, span: &Span, text: String) -> bool {
        span.is_located() && self.texts.insert(place_of(span), text).is_none()
    }

    /// Range of a finding in bytes. It is never empty unless the file is.
    pub(super) fn of(&self, finding: &Finding) -> Range<usize> {
        let start = self.file.offset(finding.place);
        let text = self.file.text();
        let rest = text.get(start..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        if self.file.error.is_some() && finding.rule == &SYNTAX_ERROR {
            return self.visible(start, line.trim_end().len());
        }
        if let Some(edit) = finding.edit.as_ref().filter(|edit| edit.start == start && edit.end > start) {
            return start..edit.end;
        }
        let length = match self.texts.get(&finding.place) {
            Some(value) => length_of(line, value),
            // A name in an inventory.
            None if self.file.kind == Kind::Text => {
                line.find(|c: char| c.is_whitespace() || "=]#".contains(c)).unwrap_or(line.len())
            }
            None => line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len()),
        };
        self.visible(start, length)
    }

    /// Range with at least one character: the next one, or at the end of a line the last visible one before.
    fn visible(&self, start: usize, length: usize) -> Range<usize> {
        if length > 0 {
            return start..start + length;
        }
        let text = self.file.text();
        let next = text.get(start..).and_then(|rest| rest.chars().next()).filter(|next| !matches!(next, '\n' | '\r'));
        if let Some(next) = next {
            return start..start + next.len_utf8();
        }
        let before = text.get(..start).unwrap_or_default().trim_end();
        before.len() - before.chars().next_back().map_or(0, char::len_utf8)..before.len()
    }
}

/// Length of a key or scalar at the start of a text, up to the end of the line.
fn length_of(line: &str, value: &str) -> usize {
    let first = line.chars().next();
    if let Some(quote @ ('"' | '\'')) = first {
        let mut is_escaped = false;
        for (at, c) in line.char_indices().skip(1) {
            if c == quote && !is_escaped {
                return at + 1;
            }
            is_escaped = quote == '"' && c == '\\' && !is_escaped;
        }
        return line.trim_end().len();
    }
    if !value.is_empty() && line.starts_with(value) {
        return value.len();
    }
    if matches!(first, Some('|' | '>')) {
        return line.trim_end().len();
    }
    // The written form differs from the value, as in `0644` or a text over several lines.
    let first_line = value.lines().next().unwrap_or_default();
    match line.split(" #").next().unwrap_or_default().trim_end() {
        plain if !plain.is_empty() && first_line.starts_with(plain) => plain.len(),
        _ => line.find(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}')).unwrap_or(line.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_follows_quotes_and_values() {
        assert_eq!(length_of("'a b': 1", "a b"), 5);
        assert_eq!(length_of(r#""a \" b" # c"#, "a \" b"), 8);
        assert_eq!(length_of("present # c", "present"), 7);
        assert_eq!(length_of("yes, b: 1}", "true"), 3);
        assert_eq!(length_of("one two", "one two three"), 7);
        assert_eq!(length_of("|", "text\nmore"), 1);
    }
}
