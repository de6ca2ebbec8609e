//! Positions of the protocol, which count UTF-16 units, and offsets in bytes.

use std::ops::Range;

use lsp_types::Position;

/// A text with the starts of its lines.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Lines<'t> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// Text of a line, counting from 0, without its end.
    pub(super) fn line(&self, number: usize) -> &'t str {
        let start = self.starts.get(number).copied().unwrap_or(self.text.len());
        let end = self.starts.get(number + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// Number of lines.
    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Position of an offset in bytes.
    pub(super) fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or_default();
        Position { line: number(line), character: units(self.text.get(start..offset).unwrap_or_default()) }
    }

    /// Range of the protocol for one in bytes.
    pub(super) fn range(&self, range: &Range<usize>) -> lsp_types::Range {
        lsp_types::Range { start: self.position(range.start), end: self.position(range.end) }
    }

    /// Line of a position, and its offset in bytes within the line. Positions behind the end of a line mean its end.
    pub(super) fn place(&self, position: Position) -> (usize, usize) {
        let row = (position.line as usize).min(self.count() - 1);
        let line = self.line(row);
        let mut left = position.character as usize;
        for (at, c) in line.char_indices() {
            if left < c.len_utf16() {
                return (row, at);
            }
            left -= c.len_utf16();
        }
        (row, line.len())
    }

    /// Range within a line.
    pub(super) fn within(&self, row: usize, range: &Range<usize>) -> lsp_types::Range {
        let start = self.starts.get(row).copied().unwrap_or(self.text.len());
        self.range(&(start + range.start..start + range.end))
    }
}

/// Number of UTF-16 units in a text.
fn units(text: &str) -> u32 {
    number(text.encode_utf16().count())
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf16_units() {
        let text = "a\nx: größe 🚀 y\r\nz";
        let lines = Lines::new(text);
        let offset = text.find('y').unwrap();
        let position = lines.position(offset);
        assert_eq!((position.line, position.character), (1, 12));
        assert_eq!(lines.place(position), (1, offset - 2));
        assert_eq!(lines.place(Position { line: 1, character: 99 }), (1, lines.line(1).len()));
        assert_eq!(lines.place(Position { line: 99, character: 0 }), (2, 0));
        assert_eq!(lines.line(1), "x: größe 🚀 y");
    }
}
