//! Reads the journal of a run while it is written.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::reader::{FILE, LINE};
use super::record::Record;
use crate::error::{Error, Result};

/// Maximum number of bytes that one call reads.
const BATCH: u64 = 4 << 20;

/// A journal, and the part of it that was not read yet.
#[derive(Debug)]
pub struct Follower {
    file: File,
    /// A line whose end is missing so far.
    rest: Vec<u8>,
    /// Number of bytes that were read.
    size: u64,
    /// Number of lines that were read.
    lines: usize,
    /// Number of a line that is not a record. A killed run may leave its last line incomplete.
    damaged: Option<usize>,
}

impl Follower {
    /// Starts at the beginning of the journal in a file.
    pub fn open(path: &Path) -> Result<Follower> {
        let file = File::open(path).map_err(|error| Error::new(format!("the journal cannot be read: {error}")))?;
        Ok(Follower { file, rest: Vec::new(), size: 0, lines: 0, damaged: None })
    }

    /// Records written since the last call, within limits. Empty if there are none.
    pub fn more(&mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        loop {
            let count = self.file.by_ref().take(BATCH).read_to_end(&mut self.rest);
            let count = count.map_err(|error| Error::new(format!("the journal cannot be read: {error}")))?;
            self.size += count as u64;
            if self.size > FILE {
                return Err(Error::new(format!("the journal is larger than {FILE} bytes")));
            }
            self.split(&mut records)?;
            // A long line may need several parts before it is complete.
            if count == 0 || !records.is_empty() {
                return Ok(records);
            }
        }
    }

    /// Takes complete lines from the rest.
    fn split(&mut self, records: &mut Vec<Record>) -> Result<()> {
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let after = self.rest.split_off(end);
        let complete = std::mem::replace(&mut self.rest, after);
        for line in complete.split_inclusive(|byte| *byte == b'\n') {
            if let Some(number) = self.damaged {
                return Err(Error::new(format!("line {number} of the journal is not a record")));
            }
            self.lines += 1;
            match Record::read(line) {
                Ok(record) if line.len() <= LINE + 1 => records.push(record),
                _ => self.damaged = Some(self.lines),
            }
        }
        if self.rest.len() > LINE {
            return Err(Error::new(format!("line {} of the journal is longer than {LINE} bytes", self.lines + 1)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_read_once_they_are_complete() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut follower = Follower::open(file.path()).unwrap();
        assert!(follower.more().unwrap().is_empty());
        file.write_all(b"{\"t\":\"play\",\"play\":0,\"name\":\"p\"}\n{\"t\":\"pl").unwrap();
        assert_eq!(follower.more().unwrap().len(), 1);
        assert!(follower.more().unwrap().is_empty());
        file.write_all(b"ay\",\"play\":1,\"name\":\"q\"}\n").unwrap();
        assert!(matches!(follower.more().unwrap().as_slice(), [Record::Play(play)] if play.play == 1));
    }

    #[test]
    fn damaged_line_fails_once_another_follows() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut follower = Follower::open(file.path()).unwrap();
        file.write_all(b"garbage\n").unwrap();
        assert!(follower.more().unwrap().is_empty());
        file.write_all(b"{\"t\":\"end\"}\n").unwrap();
        assert!(follower.more().unwrap_err().message().contains("line 1 "));
    }

    #[test]
    fn endless_line_fails() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; LINE + 2]).unwrap();
        assert!(Follower::open(file.path()).unwrap().more().is_err());
    }
}
