//! Corrects files in place, without touching anything but the reported ranges.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::finding::{Edit, Finding};
use super::source::SourceFile;
use crate::error::{Error, Result};

/// Applies the edits of findings to a text. Of overlapping edits, the first one counts; the others are found again by
/// the next run.
pub(super) fn edited(text: &str, findings: &[&Finding]) -> String {
    let mut edits: Vec<&Edit> = findings.iter().filter_map(|finding| finding.edit.as_ref()).collect();
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut new = String::with_capacity(text.len());
    let mut end = 0;
    for edit in edits {
        if edit.start < end {
            continue;
        }
        new.push_str(text.get(end..edit.start).unwrap_or_default());
        new.push_str(&edit.text);
        end = edit.end;
    }
    new + text.get(end..).unwrap_or_default()
}

/// Replaces a file by its corrected text, with the same mode. Returns whether it did: a link stays as it is, because
/// its target may be outside of the project, and is corrected under its own name otherwise.
pub(super) fn write(file: &SourceFile, text: &str) -> Result<bool> {
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be written: {error}", file.path.display()));
    let metadata = fs::symlink_metadata(&file.path).map_err(fail)?;
    if metadata.is_symlink() {
        return Ok(false);
    }
    crate::replace::replace(&file.path, text, metadata.permissions().mode() & 0o7777).map_err(fail)?;
    fs::set_permissions(&file.path, metadata.permissions()).map_err(fail)?;
    Ok(true)
}
