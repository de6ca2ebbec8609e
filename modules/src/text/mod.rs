//! Texts as Python sees them, and modules that change parts of them.

pub mod blockinfile;
mod edit;
pub mod ini_file;
pub mod known_hosts;
pub mod lineinfile;
pub mod replace;
pub mod ssh_config;

pub(crate) use edit::Text;

/// The lines of a text, split at every line boundary that Python's `str.splitlines` knows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boundary_ends_a_line() {
        assert_eq!(lines("a\nb\r\nc\rd\n"), ["a", "b", "c", "d"]);
        assert_eq!(lines("a\n\nb\u{2028}c"), ["a", "", "b", "c"]);
        assert!(lines("").is_empty());
    }
}
