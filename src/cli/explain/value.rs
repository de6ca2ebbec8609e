//! Values as they are shown, and those that are secret.

use serde_json::Value as Json;
use windlass_yaml::{Node, Value as Yaml};

use crate::output::clipped;
pub(super) use crate::vars::secrecy::{MASK, known, secret, written};

/// Maximum length of a value on one line, in characters.
const WIDTH: usize = 100;
/// Maximum number of lines of a longer value.
const LINES: usize = 40;

/// Whether a value contains a template.
pub(super) fn is_template(node: &Node) -> bool {
    match &node.value {
        Yaml::String(text) => ["{{", "{%", "{#"].iter().any(|start| text.contains(start)),
        Yaml::List(items) => items.iter().any(is_template),
        Yaml::Map(map) => map.values().any(is_template),
        _ => false,
    }
}

/// A value as text: on one line if it is short, otherwise as several lines.
pub(super) fn lines(value: &Json) -> Vec<String> {
    let short = value.to_string();
    if short.chars().count() <= WIDTH {
        return vec![short];
    }
    if let Json::String(text) = value
        && text.contains('\n')
    {
        return cut(text.lines().map(str::to_owned).collect());
    }
    match value {
        Json::Array(_) | Json::Object(_) => {
            cut(serde_json::to_string_pretty(value).unwrap_or(short).lines().map(str::to_owned).collect())
        }
        _ => vec![short],
    }
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("... ({more} more lines; `--format json` shows all)"));
    }
    lines
}

/// A value on one line, cut if it is long.
pub(super) fn short(value: &Json) -> String {
    let text = value.to_string();
    clipped(&text, WIDTH)
}
