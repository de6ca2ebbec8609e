//! Index of known_hosts lines by host name.
//!
//! Every connection looks up its host, and a file may have a line for each of thousands of hosts. After the first read,
//! only the lines appended since are parsed.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::known_hosts::{HostName, names_of};

static READ: LazyLock<Mutex<HashMap<PathBuf, Index>>> = LazyLock::new(Mutex::default);

/// Content of a file at its last read, and its lines by host.
#[derive(Debug, Default)]
struct Index {
    text: Vec<u8>,
    lines: usize,
    /// Lines with plain names only, by name.
    plain: HashMap<String, Vec<Line>>,
    /// Lines with patterns or hashed names, which are matched one by one.
    others: Vec<Line>,
}

/// A line's number, counting from 1, and its range in the text.
#[derive(Debug, Clone)]
struct Line {
    number: usize,
    place: Range<usize>,
}

/// Lines of `file` that may concern a host, in order. `text` is the file's whole content.
pub(crate) fn about(file: &Path, text: Vec<u8>, host: &HostName) -> Vec<(usize, String)> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let index = read.entry(file.to_owned()).or_default();
    index.update(text);
    index.about(host)
}

impl Index {
    fn update(&mut self, text: Vec<u8>) {
        // A text without a final line break may have been continued on its last line.
        let has_grown = text.starts_with(&self.text) && self.text.last().is_none_or(|&last| last == b'\n');
        if !has_grown {
            *self = Index::default();
        }
        let mut start = self.text.len();
        self.text = text;
        while let Some(rest) = self.text.get(start..).filter(|rest| !rest.is_empty()) {
            let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            self.lines += 1;
            let line = Line { number: self.lines, place: start..start + length };
            start += length + 1;
            self.enter(line);
        }
    }

    fn enter(&mut self, line: Line) {
        let text = self.text_of(&line);
        let Some((_, names)) = names_of(&mut text.split_whitespace()) else { return };
        let is_plain = |name: &str| name.is_ascii() && !name.starts_with(['!', '|']) && !name.contains(['*', '?']);
        if !names.split(',').all(is_plain) {
            return self.others.push(line);
        }
        for name in names.split(',') {
            self.plain.entry(name.to_ascii_lowercase()).or_default().push(line.clone());
        }
    }

    fn text_of(&self, line: &Line) -> String {
        String::from_utf8_lossy(self.text.get(line.place.clone()).unwrap_or_default()).into_owned()
    }

    fn about(&self, host: &HostName) -> Vec<(usize, String)> {
        let plain = std::iter::once(&host.name).chain(&host.fallback);
        let plain = plain.filter_map(|name| self.plain.get(&name.to_ascii_lowercase())).flatten();
        let mut lines: Vec<&Line> = plain.chain(&self.others).collect();
        lines.sort_by_key(|line| line.number);
        lines.dedup_by_key(|line| line.number);
        lines.into_iter().map(|line| (line.number, self.text_of(line))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grown_or_changed_file_reindexed() {
        let about = |index: &Index, host: &str, port: u16| {
            let lines = index.about(&HostName::new(host, port, None));
            lines.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        let mut index = Index::default();
        index.update(b"# nothing\nweb,DB key\n*.example.com key\n\n|1|salt|hash key\nmai".to_vec());
        assert_eq!(about(&index, "db", 22), [2, 3, 5]);
        assert_eq!(about(&index, "mail", 22), [3, 5]);
        // The last line grows.
        index.update(b"# nothing\nweb,DB key\n*.example.com key\n\n|1|salt|hash key\nmail key\n".to_vec());
        assert_eq!(about(&index, "mail", 22), [3, 5, 6]);
        assert!(about(&index, "mai", 22) == [3, 5]);
        // Lines are appended.
        let mut text = index.text.clone();
        text.extend_from_slice(b"@revoked web key\r\n[web]:2222 key\n@other web key\n");
        index.update(text);
        assert_eq!(about(&index, "Web", 22), [2, 3, 5, 7]);
        assert_eq!(about(&index, "web", 2222), [2, 3, 5, 7, 8]);
        assert_eq!(index.about(&HostName::new("web", 2222, None)).last().unwrap().1, "[web]:2222 key");
        // A line is removed.
        index.update(b"mail key\n".to_vec());
        assert_eq!((about(&index, "web", 22), about(&index, "mail", 22)), (vec![], vec![1]));
    }
}
