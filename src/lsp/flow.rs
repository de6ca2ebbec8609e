//! Mappings in braces around a cursor, within one line.

use std::ops::Range;

use super::outline::{At, key_length, unquoted};

/// The innermost mapping in braces around a cursor.
pub(super) struct Flow<'t> {
    /// Keys of the mappings around it in the same value, outermost first.
    pub(super) keys: Vec<&'t str>,
    /// Keys of the mapping with their values as written.
    pub(super) entries: Vec<(&'t str, &'t str)>,
    pub(super) at: At<'t>,
    /// Range of the key or value of the cursor in the line.
    pub(super) word: Range<usize>,
    /// Whether the cursor's entry has a key.
    pub(super) has_key: bool,
}

impl<'t> Flow<'t> {
    /// Finds the mapping around an offset, in the value that begins at `start` of a line.
    pub(super) fn at(text: &'t str, start: usize, offset: usize) -> Option<Flow<'t>> {
        if offset <= start || !text.get(start..)?.starts_with('{') {
            return None;
        }
        // Brackets that are open at the cursor, with the start of the current entry of each.
        let mut open: Vec<(char, usize)> = Vec::new();
        for (at, c) in structure(text, start).filter(|(at, _)| *at < offset) {
            match c {
                '{' | '[' => open.push((c, at + 1)),
                ',' => open.last_mut()?.1 = at + 1,
                _ => drop(open.pop()),
            }
        }
        let ((innermost, _), outer) = open.split_last()?;
        if *innermost != '{' {
            return None;
        }
        let keys = outer.iter().filter_map(|(_, from)| Entry::new(text, *from..text.len()).name).collect();
        let mut flow = Flow { keys, entries: Vec::new(), at: At::Word, word: offset..offset, has_key: false };
        for range in ranges(text, start, offset, open.len()) {
            let entry = Entry::new(text, range.clone());
            flow.entries.extend(entry.name.map(|name| (name, text.get(entry.value.clone()).unwrap_or_default())));
            if (range.start..=range.end).contains(&offset) {
                flow.place(&entry, offset);
            }
        }
        Some(flow)
    }

    /// Places the cursor in its entry.
    fn place(&mut self, entry: &Entry<'t>, offset: usize) {
        self.has_key = entry.name.is_some();
        let value = entry.value.start.min(offset)..entry.value.end.max(offset);
        (self.at, self.word) = match entry.name {
            Some(name) if offset > entry.key.end => (At::Value(name), value),
            Some(_) => (At::Word, entry.key.clone()),
            None => (At::Word, value),
        };
    }
}

/// An entry of a mapping.
struct Entry<'t> {
    /// Range of the key as written; empty without one.
    key: Range<usize>,
    /// The key, if it has one.
    name: Option<&'t str>,
    /// Range of the value, or of an entry without a key.
    value: Range<usize>,
}

impl<'t> Entry<'t> {
    fn new(text: &'t str, range: Range<usize>) -> Entry<'t> {
        let inner = text.get(range.clone()).unwrap_or_default();
        let first = range.end - inner.trim_start().len();
        let last = range.start + inner.trim_end().len();
        let key = first..first + key_length(inner.trim()).unwrap_or_default();
        let name = text.get(key.clone()).map(unquoted).filter(|_| !key.is_empty());
        let value = match name {
            Some(_) => range.end - text.get(key.end + 1..range.end).unwrap_or_default().trim_start().len(),
            None => first,
        };
        Entry { key, name, value: value..last.max(value) }
    }
}

/// Ranges of the entries of the mapping at a depth around an offset. Its end may be missing.
fn ranges(text: &str, start: usize, offset: usize, wanted: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0, None);
    for (at, c) in structure(text, start) {
        match c {
            '{' | '[' => {
                depth += 1;
                if depth == wanted && at < offset {
                    found.clear();
                    from = Some(at + 1);
                }
            }
            ',' if depth == wanted => found.extend(from.replace(at + 1).map(|from| from..at)),
            ',' => {}
            _ if depth == wanted && at >= offset => {
                found.extend(from.map(|from| from..at));
                return found;
            }
            _ => depth -= 1,
        }
    }
    found.extend(from.map(|from| from..text.len()));
    found
}

/// Brackets, braces and commas of a value outside of quotes.
fn structure(text: &str, start: usize) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    text.char_indices().skip_while(move |(at, _)| *at < start).filter(move |(_, c)| match quote {
        Some(open) => {
            if open == *c {
                quote = None;
            }
            false
        }
        None if matches!(c, '"' | '\'') => {
            quote = Some(*c);
            false
        }
        None => matches!(c, '{' | '}' | '[' | ']' | ','),
    })
}
