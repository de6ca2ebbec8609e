//! Lists and differences of bundles.

use serde_json::json;

use super::{line, short};
use crate::bundle::{Bundle, Encoding, File, difference};
use crate::error::{Error, Result};
use crate::output::Printer;
use crate::settings::Color;

/// Prints the files of a bundle, and what it leaves out.
pub(super) fn list(bundle: &Bundle, as_json: bool, printer: &Printer) -> Result<()> {
    let manifest = bundle.manifest();
    if as_json {
        return super::super::stdout::print(&String::from_utf8_lossy(bundle.manifest_bytes()));
    }
    let releases: Vec<String> = manifest.releases.iter().map(|(name, releases)| format!("{name} {releases}")).collect();
    line(printer, &format!("{}: {}", manifest.name, releases.join(", ")));
    if let Some(base) = &manifest.base {
        line(printer, &format!("difference to `{}`, manifest {}", base.name, base.manifest));
    }
    let mut rows = vec![["KIND", "NAME", "VERSION", "SIZE", "SHA-256", "PATH"].map(str::to_owned)];
    rows.extend(manifest.files.iter().map(|file| {
        let base = if file.encoding == Encoding::Base { " (in the base)" } else { "" };
        [
            file.kind.to_string(),
            file.name.clone(),
            file.version.clone(),
            size(file.size),
            short(&file.sha256),
            format!("{}{base}", file.path),
        ]
    }));
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        line(printer, cells.join("  ").trim_end());
    }
    let sum: u64 = manifest.files.iter().map(|file| file.size).sum();
    line(printer, &format!("{} files, {}", manifest.files.len(), size(sum)));
    for left in &manifest.left_out {
        line(printer, &format!("left out: {} {}: {}", left.kind, left.name, left.reason));
    }
    Ok(())
}

/// Prints the files that differ between two bundles.
pub(super) fn diff(old: &Bundle, new: &Bundle, as_json: bool, printer: &Printer) -> Result<()> {
    let found = difference(old.manifest(), new.manifest());
    if as_json {
        let changed: Vec<_> = found.changed.iter().map(|(old, new)| json!({"old": old, "new": new})).collect();
        let answer = json!({"added": found.added, "removed": found.removed, "changed": changed});
        let text = serde_json::to_string_pretty(&answer)
            .map_err(|error| Error::new(format!("the differences cannot be written: {error}")))?;
        return super::super::stdout::print(&format!("{text}\n"));
    }
    let shown = |file: &File| format!("{} {} {} ({})", file.kind, file.name, file.version, file.path);
    for file in &found.added {
        printer.line(&format!("+ {}", shown(file)), Color::DiffAdd);
    }
    for file in &found.removed {
        printer.line(&format!("- {}", shown(file)), Color::DiffRemove);
    }
    for (before, after) in &found.changed {
        let hashes = format!("{} -> {}", short(&before.sha256), short(&after.sha256));
        printer.line(&format!("~ {}: {hashes}", shown(after)), Color::Changed);
    }
    let (added, removed, changed) = (found.added.len(), found.removed.len(), found.changed.len());
    line(printer, &format!("{added} added, {removed} removed, {changed} changed"));
    Ok(())
}

/// A size with a binary unit.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}
