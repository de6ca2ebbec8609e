//! The change that a result reports: attributes, contents, and the command that ran.

use serde_json::{Map, Value};
use windlass_template::unified_diff;

use super::ResultEvent;
use super::masked::Shown;

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// One difference between the states before and after a task.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// An attribute, such as the mode of a file; `Null` stands for none.
    Attribute { name: String, from: Value, to: Value },
    /// A content, as a unified diff without its header, or the reason why there is no diff.
    Content { path: String, text: String },
}

/// Differences that the module of a result reported. A module reports some only if `diff` is on.
pub(crate) fn changes(event: &ResultEvent<Shown>) -> Vec<Change> {
    let json = event.result.json();
    let all = match json.get("diff") {
        Some(Value::Array(items)) => items.as_slice(),
        None | Some(Value::Null) => return Vec::new(),
        Some(one) => std::slice::from_ref(one),
    };
    let mut changes = Vec::new();
    for diff in all {
        if let Some(text) = diff.get("prepared").and_then(Value::as_str) {
            changes.push(Change::Content { path: String::new(), text: text.to_owned() });
            continue;
        }
        match (diff.get("before"), diff.get("after")) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => changes.extend(attributes(before, after)),
            (before, after) => {
                let path = path(json, diff, event).trim_end_matches(" (content)").to_owned();
                changes.push(Change::Content { path, text: content(diff, before, after) });
            }
        }
    }
    changes
}

/// Command of a result, as one would type it.
pub(crate) fn command(json: &Value) -> Option<String> {
    let text = match json.get("cmd")? {
        Value::String(text) => text.clone(),
        Value::Array(words) => shell_words::join(words.iter().filter_map(Value::as_str)),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Attributes that differ, in the order of the module's answer.
fn attributes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<Change> {
    let new = after.keys().filter(|name| !before.contains_key(*name));
    let differing = before.keys().chain(new).filter(|name| before.get(*name) != after.get(*name));
    let value = |side: &Map<String, Value>, name: &String| side.get(name).cloned().unwrap_or_default();
    differing
        .map(|name| Change::Attribute { name: name.clone(), from: value(before, name), to: value(after, name) })
        .collect()
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

/// Path of a changed content: the module's own, that in the header of the difference, or that of the arguments.
fn path(json: &Value, diff: &Value, event: &ResultEvent<Shown>) -> String {
    let of = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let found = of(json, "dest").or_else(|| of(json, "path"));
    found
        .or_else(|| of(diff, "before_header"))
        .or_else(|| event.result.target())
        .or_else(|| of(diff, "after_header"))
        .unwrap_or_default()
}
