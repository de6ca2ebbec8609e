//! Open documents, and the paths in their addresses.

use std::ops::Range;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use lsp_types::Uri;

use crate::lint::Finding;

/// Maximum number of open documents.
pub(super) const MOST_DOCUMENTS: usize = 200;

/// A document as the editor shows it.
pub(super) struct Document {
    pub(super) uri: Uri,
    /// Absolute path; `None` for documents that are not files; these are not checked.
    pub(super) path: Option<PathBuf>,
    /// Version that the editor counts.
    pub(super) version: i32,
    pub(super) text: Arc<str>,
    /// Findings of the last check with their ranges in bytes, and the version that was checked.
    pub(super) findings: Vec<(Finding, Range<usize>)>,
    pub(super) checked: Option<i32>,
    /// Whether the text is larger than checks read. It is not kept.
    pub(super) is_too_large: bool,
}

impl Document {
    pub(super) fn new(uri: Uri, version: i32, text: String) -> Document {
        let path = path_of(&uri);
        let mut document = Document {
            uri,
            path,
            version,
            text: Arc::from(""),
            findings: Vec::new(),
            checked: None,
            is_too_large: false,
        };
        document.change(version, text);
        document
    }

    /// Replaces the text.
    pub(super) fn change(&mut self, version: i32, text: String) {
        self.version = version;
        self.is_too_large = text.len() as u64 > crate::lint::LARGEST;
        self.text = if self.is_too_large { Arc::from("") } else { text.into() };
    }
}

/// Path in an address `file:`; `None` for others and for other machines.
pub(super) fn path_of(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let rest = rest.split(['?', '#']).next()?;
    if !rest.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.bytes();
    while let Some(byte) = left.next() {
        match byte {
            b'%' => {
                let digits = [left.next()?, left.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    (!path.as_os_str().as_bytes().contains(&0)).then(|| crate::paths::absolute(&path))
}

/// Address of a path.
pub(super) fn uri_of(path: &Path) -> Option<Uri> {
    use std::fmt::Write as _;
    let mut text = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").ok()?;
        }
    }
    Uri::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_survives_its_address() {
        let path = Path::new("/a b/größe%/x.yml");
        let uri = uri_of(path).unwrap();
        assert_eq!(uri.as_str(), "file:///a%20b/gr%C3%B6%C3%9Fe%25/x.yml");
        assert_eq!(path_of(&uri).as_deref(), Some(path));
        for other in ["untitled:x", "file://host/x", "file:///a%zz", "file:///a%00b"] {
            assert_eq!(Uri::from_str(other).ok().as_ref().and_then(path_of), None, "{other}");
        }
    }
}
