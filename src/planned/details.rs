//! Describes the change of one result: attributes, contents and commands.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::document::{Attribute, Difference, Part, Status};
use crate::outcome::Unknown;
use crate::output::{Change, ResultEvent, Shown, changes, clipped, command, first_line};

/// Maximum length of a difference in lines and bytes; the rest is cut.
const LINES: usize = 500;
const BYTES: usize = 64 << 10;
/// Maximum length of a command or attribute, in characters.
const TEXT: usize = 4096;

/// Describes a result. `arguments` are the task's, for a change that nothing else describes.
pub(super) fn part(event: &ResultEvent<Shown>, status: Status, arguments: impl Fn() -> String) -> Part {
    let mut part = Part {
        item: event.item.clone(),
        status,
        reason: None,
        command: None,
        arguments: None,
        attributes: Vec::new(),
        differences: Vec::new(),
    };
    match status {
        Status::Unchanged | Status::NotRun | Status::Skipped => return part,
        Status::Failed => part.reason = Some(clipped(&failure(event), TEXT)),
        Status::Unknown => part.reason = event.result.unknown().map(|why| reason(&why, event)),
        Status::Change => {}
    }
    if event.no_log || status == Status::Failed {
        return part;
    }
    let json = event.result.json();
    part.command = command(json).map(|text| clipped(&text, TEXT));
    if event.diff && status == Status::Change {
        differences(event, &mut part);
    }
    let is_bare = part.command.is_none() && part.attributes.is_empty() && part.differences.is_empty();
    let arguments = || clipped(arguments().trim_start_matches("_raw_params="), TEXT);
    part.arguments = is_bare.then(arguments).filter(|text| !text.is_empty());
    part
}

/// Message of a failure. Under `no_log`, the report may still name an undefined variable.
fn failure(event: &ResultEvent<Shown>) -> String {
    let report = event.report.as_deref().filter(|_| event.no_log).and_then(|report| report.lines().next());
    let named = report.and_then(|line| line.strip_prefix("Task failed: "));
    named.map_or_else(|| first_line(event.result.json()), |name| format!("{name} (no_log hides the rest)"))
}

fn reason(why: &Unknown, event: &ResultEvent<Shown>) -> String {
    match why {
        Unknown::NotRun => "check mode does not run it".to_owned(),
        Unknown::Depends { part, on } => format!("{part} depends on {on}"),
        Unknown::Fails(message) => {
            let now = "it fails on the host as it is, but earlier tasks would change the host";
            if event.no_log { now.to_owned() } else { format!("{now}: {}", clipped(message, TEXT)) }
        }
    }
}

fn differences(event: &ResultEvent<Shown>, part: &mut Part) {
    for change in changes(event) {
        match change {
            Change::Attribute { name, from, to } => {
                part.attributes.push(Attribute { name, from: short(from), to: short(to) });
            }
            Change::Content { path, text } => part.differences.extend(difference(path, &text)),
        }
    }
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clipped(&text, TEXT)),
        other => other,
    }
}

fn difference(path: String, text: &str) -> Option<Difference> {
    let whole = text.trim_end();
    if whole.is_empty() {
        return None;
    }
    let mut kept = String::new();
    let mut omitted = 0;
    for (index, line) in whole.lines().enumerate() {
        if index >= LINES || omitted > 0 || kept.len() + line.len() > BYTES {
            omitted += 1;
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    Some(Difference { path, text: kept, omitted, sha256: hex::encode(Sha256::digest(whole)) })
}
