//! The structure around a cursor, from indentation alone. A text that is being written is rarely valid YAML.

use std::ops::Range;

use super::flow::Flow;
use super::text::Lines;

/// A line of block YAML.
#[derive(Debug)]
struct Line<'t> {
    /// Columns of the dashes that begin items.
    dashes: Vec<usize>,
    /// Column of the content behind the dashes.
    column: usize,
    /// Range of the key as written, if the content begins with one.
    key: Option<Range<usize>>,
    /// Range of the value, or of the content without a key; without a comment.
    value: Range<usize>,
    text: &'t str,
}

/// A step from the root of a document to the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step<'t> {
    /// Enters the value of a key, which stands at this line and column.
    Key(&'t str, usize, usize),
    /// Enters an item of a list, whose content begins at this line and column.
    Item(usize, usize),
}

/// Position of a cursor within its mapping or list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At<'t> {
    /// In a key or where one may begin, in an item of a list, or in a continued line of a text.
    Word,
    /// In the value of a key.
    Value(&'t str),
}

/// A cursor in a document.
#[derive(Debug)]
pub(super) struct Cursor<'t> {
    /// Steps to the mapping or list of the cursor, outermost first.
    pub(super) path: Vec<Step<'t>>,
    /// Keys of the mapping with their values as written, including the cursor's own.
    pub(super) entries: Vec<(&'t str, &'t str)>,
    pub(super) at: At<'t>,
    /// Range of the key, value or item in the line.
    pub(super) word: Range<usize>,
    pub(super) line: &'t str,
    /// Whether the cursor's line has a key.
    pub(super) has_key: bool,
    /// Whether the cursor's line begins an item.
    pub(super) is_item: bool,
}

impl<'t> Cursor<'t> {
    /// Finds the structure around an offset in a line; `None` within comments and texts over several lines.
    pub(super) fn new(lines: &Lines<'t>, row: usize, offset: usize) -> Option<Cursor<'t>> {
        let text = lines.line(row);
        let line = Line::new(text);
        // Behind the last character of an empty line, the cursor's column is the indentation.
        let is_empty = text.trim().is_empty();
        let column = if is_empty { offset } else { line.column };
        let comment = text.get(line.value.end..).and_then(|rest| rest.find('#')).map(|at| line.value.end + at);
        if comment.is_some_and(|at| offset > at) {
            return None;
        }
        let (at, word) = match &line.key {
            Some(key) if offset > key.end => {
                let start = line.value.start.min(text.len());
                let name = unquoted(text.get(key.clone())?);
                (At::Value(name), if offset < start { offset..offset } else { start..line.value.end.max(offset) })
            }
            Some(key) => (At::Word, key.clone()),
            None if is_empty => (At::Word, offset..offset),
            None => (At::Word, line.value.start.min(offset)..line.value.end.max(offset)),
        };
        if offset < column {
            return None;
        }
        let path = path(lines, row, &line, column);
        let is_text = |step: &Step<'_>| match step {
            Step::Key(_, row, _) => Line::new(lines.line(*row)).opens_text(),
            Step::Item(..) => false,
        };
        if path.iter().any(is_text) {
            return None;
        }
        if let Some(flow) = Flow::at(text, line.value.start, offset) {
            let mut path = path;
            if let Some(key) = line.key.clone() {
                path.push(Step::Key(unquoted(text.get(key)?), row, line.column));
            }
            path.extend(flow.keys.iter().map(|key| Step::Key(key, row, line.column)));
            let (entries, at, word, has_key) = (flow.entries, flow.at, flow.word, flow.has_key);
            return Some(Cursor { path, entries, at, word, line: text, has_key, is_item: false });
        }
        let entries = entries(lines, row, column);
        let (has_key, is_item) = (line.key.is_some(), !line.dashes.is_empty());
        Some(Cursor { path, entries, at, word, line: text, has_key, is_item })
    }

    /// The whole word, without quotes.
    pub(super) fn word(&self) -> &'t str {
        unquoted(self.line.get(self.word.clone()).unwrap_or_default())
    }

    /// The key whose value or list of values the cursor is in.
    pub(super) fn key(&self) -> Option<&'t str> {
        match (&self.at, self.path.as_slice()) {
            (At::Value(key), _) => Some(key),
            (At::Word, [.., Step::Key(key, ..), Step::Item(..)] | [.., Step::Key(key, ..)]) if !self.has_key => {
                Some(key)
            }
            _ => None,
        }
    }
}

impl<'t> Line<'t> {
    fn new(text: &'t str) -> Line<'t> {
        let mut dashes = Vec::new();
        let mut column = text.len() - text.trim_start_matches(' ').len();
        while let Some(rest) = text.get(column..).and_then(|rest| rest.strip_prefix('-')) {
            let trimmed = rest.trim_start_matches(' ');
            if trimmed.len() == rest.len() && !rest.is_empty() {
                break;
            }
            dashes.push(column);
            column = text.len() - trimmed.len();
        }
        let content = text.get(column..).unwrap_or_default();
        let key = key_length(content).map(|length| column..column + length);
        let start = key.as_ref().map_or(column, |key| {
            let rest = text.get(key.end + 1..).unwrap_or_default();
            text.len() - rest.trim_start_matches(' ').len()
        });
        let value = without_comment(text.get(start..).unwrap_or_default());
        Line { dashes, column, key, value: start..start + value.len(), text }
    }

    /// Whether nothing but a comment is in the line.
    fn is_blank(&self) -> bool {
        self.dashes.is_empty() && self.key.is_none() && self.value.is_empty()
    }

    fn value(&self) -> &'t str {
        self.text.get(self.value.clone()).unwrap_or_default()
    }

    /// Whether the value is a block scalar, which continues on the next lines.
    fn opens_text(&self) -> bool {
        self.key.is_some() && self.value().starts_with(['|', '>'])
    }
}

/// Steps to a column in a line, outermost first.
fn path<'t>(lines: &Lines<'t>, row: usize, line: &Line<'t>, column: usize) -> Vec<Step<'t>> {
    let mut steps = Vec::new();
    let mut limit = column;
    // A list may be as far to the left as its key.
    let mut in_item = false;
    for dash in line.dashes.iter().rev() {
        steps.push(Step::Item(row, limit));
        (limit, in_item) = (*dash, true);
    }
    for row in (0..row).rev() {
        if limit == 0 && !in_item {
            break;
        }
        let above = Line::new(lines.line(row));
        if above.is_blank() {
            continue;
        }
        let is_parent = above.column < limit || (in_item && above.column == limit);
        if let Some(key) = above.key.clone().filter(|_| is_parent) {
            steps.push(Step::Key(unquoted(above.text.get(key).unwrap_or_default()), row, above.column));
            (limit, in_item) = (above.column, false);
        }
        let mut content = above.column;
        for dash in above.dashes.iter().rev() {
            if *dash < limit && content >= limit {
                steps.push(Step::Item(row, content));
                (limit, in_item) = (*dash, true);
            }
            content = *dash;
        }
    }
    steps.reverse();
    steps
}

/// Keys of the mapping at a column around a line, with their values as written.
pub(super) fn entries<'t>(lines: &Lines<'t>, row: usize, column: usize) -> Vec<(&'t str, &'t str)> {
    let mut found = Vec::new();
    let mut first = row;
    // The mapping begins behind a dash, or where something stands further to the left.
    loop {
        let line = Line::new(lines.line(first));
        let begins = !line.dashes.is_empty() && line.column == column;
        let left = line.dashes.first().copied().unwrap_or(line.column);
        if begins || first == 0 {
            break;
        }
        if !line.is_blank() && left < column && first != row {
            first += 1;
            break;
        }
        first -= 1;
    }
    for number in first..lines.count() {
        let line = Line::new(lines.line(number));
        let left = line.dashes.first().copied().unwrap_or(line.column);
        if number > row.max(first) && !line.is_blank() && left < column {
            break;
        }
        if let Some(key) = line.key.clone().filter(|_| line.column == column) {
            found.push((unquoted(line.text.get(key).unwrap_or_default()), line.value()));
        }
    }
    found
}

/// Length of the key that a text begins with, without its colon.
pub(super) fn key_length(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote {
        let end = text.get(1..)?.find(quote)? + 2;
        return text.get(end..)?.starts_with(':').then_some(end);
    }
    if text.starts_with(['{', '[', '#', '|', '>', '&', '*', '!', '%']) {
        return None;
    }
    let end = text.find(": ").or_else(|| text.trim_end().strip_suffix(':').map(str::len))?;
    let comment = text.find(" #").unwrap_or(text.len());
    (end > 0 && end < comment).then_some(end)
}

/// A value without the comment behind it.
fn without_comment(text: &str) -> &str {
    if text.starts_with('#') {
        return "";
    }
    let start = match text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        Some(quote) => text.get(1..).and_then(|rest| rest.find(quote)).map_or(text.len(), |at| at + 2),
        None => 0,
    };
    let rest = text.get(start..).unwrap_or_default();
    let end = rest.find(" #").map_or(text.len(), |at| start + at);
    text.get(..end).unwrap_or_default().trim_end()
}

/// A scalar without its quotes.
pub(super) fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote).map(|rest| rest.strip_suffix(quote).unwrap_or(rest));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix<'t>(cursor: &Cursor<'t>, offset: usize) -> &'t str {
        cursor.line.get(cursor.word.start..offset).unwrap()
    }

    /// Path of the cursor `^` as words, its place, and the keys beside it.
    fn at(text: &str) -> Option<(String, String, Vec<String>)> {
        let offset = text.find('^').unwrap();
        let text = text.replace('^', "");
        let lines = Lines::new(&text);
        let (row, column) = lines.place(lines.position(offset));
        let cursor = Cursor::new(&lines, row, column)?;
        let steps = cursor.path.iter().map(|step| match step {
            Step::Key(name, ..) => (*name).to_owned(),
            Step::Item(..) => "-".to_owned(),
        });
        let place = match cursor.at {
            At::Word => format!("word {}", prefix(&cursor, column)),
            At::Value(key) => format!("{key}={}", prefix(&cursor, column)),
        };
        let keys = cursor.entries.iter().map(|(key, _)| (*key).to_owned()).collect();
        Some((steps.collect::<Vec<_>>().join("/"), place, keys))
    }

    #[test]
    fn cursor_knows_path_and_neighbours() {
        let play = "- hosts: all\n  tasks:\n    - name: x\n      copy:\n        src: a\n        de^\n      when: y\n    - other:\n";
        let (path, place, keys) = at(play).unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/tasks/-/copy", "word de"));
        assert_eq!(keys, ["src"]);
        let (path, place, keys) = at("- hosts: all\n  tasks:\n  - name: x\n    ^\n    when: y\n  - a:\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/tasks/-", "word "));
        assert_eq!(keys, ["name", "when"]);
        let (path, place, _) = at("- name: y\n  notify:\n    - re^\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/notify/-", "word re"));
        let (path, place, _) = at("- name: y\n  file: {a: 1}\n- ho^sts: x\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-", "word ho"));
        let (path, place, _) = at("- hosts: we^b # c\n  roles: []\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-", "hosts=we"));
        let (path, place, _) = at("- hosts: ^\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-", "hosts="));
    }

    #[test]
    fn cursor_in_braces_knows_keys() {
        let (path, place, keys) = at("- name: x\n  copy: {src: 'a, b', de^st: /x, mode: \"1\"}\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/copy", "word de"));
        assert_eq!(keys, ["src", "dest", "mode"]);
        let (path, place, keys) = at("- copy: {a: {b: 1, c: x^\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/copy/a", "c=x"));
        assert_eq!(keys, ["b", "c"]);
        let (path, place, keys) = at("roles:\n  - {a: {b: 1}, role: w^eb}\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("roles/-", "role=w"));
        assert_eq!(keys, ["a", "role"]);
        let (path, place, _) = at("- copy: {^\n").unwrap();
        assert_eq!((path.as_str(), place.as_str()), ("-/copy", "word "));
    }

    #[test]
    fn cursor_in_comment_or_text_has_no_structure() {
        assert_eq!(at("- hosts: web # ^x\n"), None);
        assert_eq!(at("- shell: |\n    a: b\n    c^\n"), None);
    }
}
