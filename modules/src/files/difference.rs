//! What `--diff` shows of a file.

use std::path::Path;

use crate::Diff;

/// Larger contents are not shown.
pub const MAX_DIFF: u64 = 104_448;

/// The difference between two contents, or a notice that it is not shown because one of them is binary or large.
pub fn of_contents(name: &str, before: Option<&[u8]>, after_name: &str, after: Option<&[u8]>) -> Diff {
    let mut notices = String::new();
    for (which, content) in [("destination", before), ("source", after)] {
        let Some(content) = content else { continue };
        if content.len() as u64 > MAX_DIFF {
            notices.push_str(&format!("diff skipped: {which} file size is greater than {MAX_DIFF}\n"));
        } else if content.contains(&0) {
            notices.push_str(&format!("diff skipped: {which} file appears to be binary\n"));
        }
    }
    if !notices.is_empty() {
        return Diff { prepared: Some(notices), ..Diff::default() };
    }
    let text = |content: Option<&[u8]>| String::from_utf8_lossy(content.unwrap_or_default()).into_owned();
    let mut diff = Diff::of(name, text(before), text(after));
    // A file that is not there yet has no name on its side.
    diff.before_header = diff.before_header.filter(|_| before.is_some());
    diff.after_header = Some(after_name.to_owned());
    diff
}

/// The beginning of a file, just enough to show it or to tell that it is too large; `None` if there is none.
pub fn excerpt(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_DIFF + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_and_others_noticed() {
        assert_eq!(of_contents("/a", None, "b", Some(b"x\n")).after, "x\n");
        let binary = of_contents("/a", Some(b"\0"), "b", Some(b"x"));
        assert_eq!(binary.prepared.unwrap(), "diff skipped: destination file appears to be binary\n");
        let large = of_contents("/a", None, "b", Some(&vec![b'x'; 104_449]));
        assert!(large.prepared.unwrap().contains("source file size is greater than 104448"));
    }
}
