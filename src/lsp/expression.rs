//! Words in templates and conditions.

use std::ops::Range;

use super::outline::Cursor;
use super::text::Lines;
use crate::lint::Kind;

/// Keywords and options whose value is an expression without delimiters.
const CONDITIONS: [&str; 7] = ["when", "changed_when", "failed_when", "until", "that", "var", "break_when"];

/// Role of a word in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Behind `|`.
    Filter,
    /// Behind `is` or `is not`.
    Test,
    /// The first argument of `lookup` or `query`.
    Lookup,
    /// A variable or anything else.
    Name,
}

/// A word of an expression under the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expression<'t> {
    pub(super) word: Word,
    /// The whole word.
    pub(super) text: &'t str,
    /// Offset of its first character in the line.
    pub(super) start: usize,
}

impl<'t> Expression<'t> {
    /// The word at an offset in a line, if it is in a template or a condition.
    pub(super) fn at(kind: Option<Kind>, lines: &Lines<'t>, row: usize, offset: usize) -> Option<Expression<'t>> {
        let line = lines.line(row);
        let is_inside = is_delimited(lines, row, offset);
        if !is_inside {
            if kind == Some(Kind::Template) {
                return None;
            }
            let cursor = Cursor::new(lines, row, offset)?;
            if !cursor.key().is_some_and(|key| CONDITIONS.contains(&key)) {
                return None;
            }
        }
        let range = word_around(line, offset);
        let text = line.get(range.clone())?;
        let before = line.get(..range.start)?;
        // Only a document of variables or tasks has structure; a template file is searched as text.
        Some(Expression { word: role(before, text)?, text, start: range.start })
    }
}

/// Whether an opening delimiter precedes the offset without its closing one, within a few lines.
fn is_delimited(lines: &Lines<'_>, row: usize, offset: usize) -> bool {
    const NEAR: usize = 20;
    for number in (row.saturating_sub(NEAR)..=row).rev() {
        let line = lines.line(number);
        let text = if number == row { line.get(..offset).unwrap_or(line) } else { line };
        let opening = text.rfind("{{").max(text.rfind("{%"));
        let closing = text.rfind("}}").max(text.rfind("%}"));
        if opening.is_some() || closing.is_some() {
            return opening > closing;
        }
    }
    false
}

/// Range of the name around an offset, with the dots of a qualified name.
fn word_around(line: &str, offset: usize) -> Range<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let before = line.get(..offset).unwrap_or_default();
    let start = before.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(offset, |(at, _)| at);
    let rest = line.get(offset..).unwrap_or_default();
    let end = rest.find(|c| !is_part(c)).map_or(line.len(), |at| offset + at);
    start..end
}

/// Role of a word behind this text; `None` in quoted text.
fn role(before: &str, word: &str) -> Option<Word> {
    let trimmed = before.trim_end();
    if trimmed.ends_with('|') {
        return Some(Word::Filter);
    }
    let last = trimmed.rsplit(' ').next().unwrap_or_default();
    let is_behind = |text: &str| text == "is" || text.ends_with(" is");
    if before.ends_with(' ')
        && (last == "is" || (last == "not" && is_behind(trimmed.trim_end_matches("not").trim_end())))
    {
        return Some(Word::Test);
    }
    if let Some(call) = trimmed.strip_suffix(['\'', '"']) {
        let call = call.trim_end().strip_suffix('(').map(str::trim_end).unwrap_or_default();
        return ["lookup", "query", "q"].iter().any(|name| call.ends_with(name)).then_some(Word::Lookup);
    }
    (!word.starts_with(|c: char| c.is_ascii_digit())).then_some(Word::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<(Word, String)> {
        let offset = text.find('^').unwrap();
        let text = text.replace('^', "");
        let lines = Lines::new(&text);
        let (row, column) = lines.place(lines.position(offset));
        Expression::at(Some(Kind::Tasks), &lines, row, column).map(|found| (found.word, found.text.to_owned()))
    }

    #[test]
    fn word_has_role_of_its_neighbours() {
        assert_eq!(at("- debug: {msg: '{{ na^me }}'}"), Some((Word::Name, "name".into())));
        assert_eq!(at("- debug: {msg: '{{ name | def^ault(1) }}'}"), Some((Word::Filter, "default".into())));
        assert_eq!(at("- when: name is not def^ined"), Some((Word::Test, "defined".into())));
        assert_eq!(at("- when:\n    - na^me"), Some((Word::Name, "name".into())));
        assert_eq!(at("- x: \"{{ lookup('fi^le', 'a') }}\""), Some((Word::Lookup, "file".into())));
        assert_eq!(at("- x: na^me"), None);
        assert_eq!(at("- x: '{{ a }} na^me'"), None);
    }
}
