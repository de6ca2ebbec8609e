//! Corrects files in place, without touching anything but the reported ranges.

use std::fs;

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

/// Writes a corrected file. Its mode stays, because it is not replaced.
pub(super) fn write(file: &SourceFile, text: &str) -> Result<()> {
    fs::write(&file.path, text)
        .map_err(|error| Error::new(format!("{} cannot be written: {error}", file.path.display())))
}
