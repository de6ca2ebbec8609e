//! Modules that edit text files, and Python's rules for text.

pub mod blockinfile;
mod edit;
pub mod ini_file;
pub mod known_hosts;
pub mod lineinfile;
pub mod replace;
pub mod ssh_config;
#[cfg(feature = "all")]
pub mod xml;

pub(crate) use edit::Text;

/// Splits a text at every line boundary of Python's `str.splitlines`.
pub fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let boundary =
            rest.find(['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}']);
        let Some(at) = boundary else {
            lines.push(rest.to_owned());
            break;
        };
        let (line, tail) = rest.split_at(at);
        lines.push(line.to_owned());
        let width = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(1, char::len_utf8) };
        rest = tail.get(width..).unwrap_or_default();
    }
    lines
}

/// Largest file that is read into memory to be edited or searched.
const LARGEST: u64 = 256 << 20;

/// Reads a file whose size allows several copies in memory.
pub(crate) fn read_whole(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    crate::files::way::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let reason = format!("it has more than {LARGEST} bytes, which is too much to be read as a whole");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_at_every_python_boundary() {
        assert_eq!(lines("a\nb\r\nc\rd\n"), ["a", "b", "c", "d"]);
        assert_eq!(lines("a\n\nb\u{2028}c"), ["a", "", "b", "c"]);
        assert!(lines("").is_empty());
    }
}
