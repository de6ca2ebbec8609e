//! Lines of files that hostile hosts may have lengthened: each is bounded, and one that is too long is skipped without
//! being kept.

use std::io::{self, BufRead};

/// Reads lines one after the other.
pub(crate) struct Lines<R> {
    reader: R,
    most: usize,
    line: Vec<u8>,
    number: usize,
}

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// The last line, whose end is missing.
    Cut(&'a [u8]),
    /// A line longer than the limit.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    /// Lines of `most` bytes at most.
    pub(crate) fn new(reader: R, most: usize) -> Lines<R> {
        Lines { reader, most, line: Vec::new(), number: 0 }
    }

    /// Number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Read<'_>>> {
        self.line.clear();
        let (mut has_any, mut is_long, mut has_end) = (false, false, false);
        while !has_end {
            let bytes = match self.reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                break;
            }
            has_any = true;
            let end = memchr::memchr(b'\n', bytes);
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            is_long |= self.line.len() + part.len() > self.most;
            if !is_long {
                self.line.extend_from_slice(part);
            }
            has_end = end.is_some();
            let read = part.len() + usize::from(has_end);
            self.reader.consume(read);
        }
        self.number += usize::from(has_any);
        Ok(match (has_any, is_long, has_end) {
            (false, ..) => None,
            (_, true, _) => Some(Read::TooLong),
            (_, _, true) => Some(Read::Whole(&self.line)),
            (_, _, false) => Some(Read::Cut(&self.line)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_skipped_and_those_behind_it_are_read() {
        let text = format!("one\n\n{}\nfour\nfi", "x".repeat(100));
        // Buffers shorter than the lines.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, text.as_bytes()), 4);
        assert_eq!(lines.next().unwrap(), Some(Read::Whole(b"one")));
        assert_eq!(lines.next().unwrap(), Some(Read::Whole(b"")));
        assert_eq!(lines.next().unwrap(), Some(Read::TooLong));
        assert_eq!(lines.number(), 3);
        assert_eq!(lines.next().unwrap(), Some(Read::Whole(b"four")));
        assert_eq!(lines.next().unwrap(), Some(Read::Cut(b"fi")));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.number(), 5);
    }
}
