//! Differences of files for `--diff`.

use std::path::Path;

use crate::Diff;

/// Larger contents are not shown by default; the controller may set another limit.
pub const MAX_DIFF: u64 = 104_448;

/// The difference between two contents, or a notice that one of them is binary or too large to show.
pub fn of_contents(name: &str, before: Option<&[u8]>, after_name: &str, after: Option<&[u8]>, limit: u64) -> Diff {
    let mut notices = Vec::new();
    for (content, larger, binary) in [(before, "dst_larger", "dst_binary"), (after, "src_larger", "src_binary")] {
        let Some(content) = content else { continue };
        if content.len() as u64 > limit {
            notices.push((larger, limit));
        } else if content.contains(&0) {
            notices.push((binary, 1));
        }
    }
    if !notices.is_empty() {
        return Diff { notices, ..Diff::default() };
    }
    let text = |content: Option<&[u8]>| String::from_utf8_lossy(content.unwrap_or_default()).into_owned();
    let mut diff = Diff::of(name, text(before), text(after));
    // A missing file has no name in the header.
    diff.before_header = diff.before_header.filter(|_| before.is_some());
    diff.after_header = Some(after_name.to_owned());
    diff
}

/// Reads the beginning of a file, enough to show it or to detect that it is too large. `None` if it does not exist or a
/// link of another user leads to it.
pub fn excerpt(path: &Path, limit: u64) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    super::way::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn diff_shows_text_and_notes_binary_and_large() {
        assert_eq!(of_contents("/a", None, "b", Some(b"x\n"), MAX_DIFF).after, "x\n");
        let binary = of_contents("/a", Some(b"\0"), "b", Some(b"x"), MAX_DIFF);
        assert_eq!(binary.to_json(), json!({"dst_binary": 1}));
        let large = of_contents("/a", None, "b", Some(b"12345"), 4);
        assert_eq!(large.to_json(), json!({"src_larger": 4}));
    }
}
