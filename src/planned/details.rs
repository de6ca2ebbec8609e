//! Describes the change of one result: attributes, contents and commands.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_template::unified_diff;

use super::document::{Attribute, Difference, Part, Status};
use crate::outcome::Unknown;
use crate::output::{ResultEvent, Shown, first_line};

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// Maximum length of a difference in lines and bytes; the rest is cut.
const LINES: usize = 500;
const BYTES: usize = 64 << 10;
/// Maximum length of a command or attribute, in characters.
const TEXT: usize = 4096;

/// Describes a result. `arguments` are those of the task as written.
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
        Status::Unchanged | Status::Skipped => return part,
        Status::Failed => part.reason = Some(clipped(&first_line(event.result.json()))),
        Status::Unknown => part.reason = event.result.unknown().map(|why| reason(&why, event)),
        Status::Change => {}
    }
    if event.no_log || status == Status::Failed {
        return part;
    }
    let json = event.result.json();
    part.command = command(json);
    if event.diff && status == Status::Change {
        differences(event, &mut part);
    }
    let is_bare = part.command.is_none() && part.attributes.is_empty() && part.differences.is_empty();
    let arguments = || clipped(arguments().trim_start_matches("_raw_params="));
    part.arguments = is_bare.then(arguments).filter(|text| !text.is_empty());
    part
}

fn reason(why: &Unknown, event: &ResultEvent<Shown>) -> String {
    match why {
        Unknown::NotRun if crate::strategy::changes_nothing(&event.task) => {
            "check mode does not run it; it declares to change nothing".to_owned()
        }
        Unknown::NotRun => "check mode does not run it".to_owned(),
        Unknown::Depends { part, on } => format!("{part} depends on {on}"),
    }
}

/// Command of a result, as one would type it.
fn command(json: &Value) -> Option<String> {
    let text = match json.get("cmd")? {
        Value::String(text) => text.clone(),
        Value::Array(words) => shell_words::join(words.iter().filter_map(Value::as_str)),
        _ => return None,
    };
    (!text.is_empty()).then(|| clipped(&text))
}

fn differences(event: &ResultEvent<Shown>, part: &mut Part) {
    let json = event.result.json();
    let all = match json.get("diff") {
        Some(Value::Array(items)) => items.as_slice(),
        None | Some(Value::Null) => return,
        Some(one) => std::slice::from_ref(one),
    };
    for diff in all {
        if let Some(text) = diff.get("prepared").and_then(Value::as_str) {
            part.differences.extend(difference(String::new(), text));
            continue;
        }
        match (diff.get("before"), diff.get("after")) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                part.attributes.extend(attributes(before, after));
            }
            (before, after) => {
                let text = content(diff, before, after);
                let path = path(json, diff, event).trim_end_matches(" (content)").to_owned();
                part.differences.extend(difference(path, &text));
            }
        }
    }
}

/// Attributes that differ, in the order of the module's answer.
fn attributes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<Attribute> {
    let new = after.keys().filter(|name| !before.contains_key(*name));
    let differing = before.keys().chain(new).filter(|name| before.get(*name) != after.get(*name));
    let value = |side: &Map<String, Value>, name: &String| match side.get(name) {
        Some(Value::String(text)) => Value::String(clipped(text)),
        Some(value) => value.clone(),
        None => Value::Null,
    };
    differing.map(|name| Attribute { name: name.clone(), from: value(before, name), to: value(after, name) }).collect()
}

/// Unified diff without its header, or why there is none.
fn content(diff: &Value, before: Option<&Value>, after: Option<&Value>) -> String {
    let is_binary = ["dst_binary", "src_binary"].iter().any(|key| diff.get(key).is_some());
    if is_binary {
        return "the content is binary".to_owned();
    }
    if ["dst_larger", "src_larger"].iter().any(|key| diff.get(key).is_some()) {
        return "the content is too large to compare".to_owned();
    }
    let (before, after) = (side(before), side(after));
    let text = unified_diff(&before, &after, CONTEXT, ("before", "after"));
    // The header holds names of temporary files.
    text.lines().skip(2).map(|line| format!("{line}\n")).collect()
}

fn side(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => serde_json::to_string_pretty(other).map(|text| text + "\n").unwrap_or_default(),
    }
}

/// Path of a changed content: the module's own, that in the header of the difference, or that of the task as written.
fn path(json: &Value, diff: &Value, event: &ResultEvent<Shown>) -> String {
    let of = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let found = of(json, "dest").or_else(|| of(json, "path"));
    let written = || ["dest", "path"].iter().find_map(|name| event.task.args.get(name)?.scalar_text());
    found
        .or_else(|| of(diff, "before_header"))
        .or_else(written)
        .or_else(|| of(diff, "after_header"))
        .unwrap_or_default()
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

fn clipped(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
