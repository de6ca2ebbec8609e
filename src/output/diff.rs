//! Formats diffs like Ansible's callbacks.

use serde_json::Value;
use windlass_template::unified_diff;

use super::shown::Format;
use crate::settings::Color;

/// Diffs of a result as text; empty if it has none.
pub(super) fn shown(diff: &Value, format: &Format) -> String {
    let diffs = match diff {
        Value::Array(items) => items.as_slice(),
        Value::Null => return String::new(),
        one => std::slice::from_ref(one),
    };
    diffs.iter().map(|diff| one(diff, format)).collect()
}

/// Diffs of a result as text, with JSON for data; empty if it has none.
pub(crate) fn plain(diff: &Value) -> String {
    shown(diff, &Format::plain())
}

/// Colour of a line of a diff.
pub(super) fn color(line: &str) -> Color {
    match line.as_bytes().first() {
        Some(b'+') => Color::DiffAdd,
        Some(b'-') => Color::DiffRemove,
        Some(b'@') => Color::DiffLines,
        _ => Color::Plain,
    }
}

fn one(diff: &Value, format: &Format) -> String {
    let mut text = String::new();
    if let Some(prepared) = diff.get("prepared").and_then(Value::as_str) {
        text.push_str(prepared);
        text.push('\n');
        return text;
    }
    for (key, what) in [
        ("dst_binary", "diff skipped: destination file appears to be binary\n"),
        ("src_binary", "diff skipped: source file appears to be binary\n"),
    ] {
        if diff.get(key).is_some() {
            text.push_str(what);
        }
    }
    for (key, side) in [("dst_larger", "destination"), ("src_larger", "source")] {
        if let Some(limit) = diff.get(key) {
            text.push_str(&format!("diff skipped: {side} file size is greater than {limit}\n"));
        }
    }
    let (Some(before), Some(after)) = (diff.get("before"), diff.get("after")) else { return text };
    let (before, after) = (side(before, format), side(after, format));
    if before == after {
        return text;
    }
    let header = |key: &str, name: &str| match diff.get(key).and_then(Value::as_str) {
        Some(header) => format!("{name}: {header}"),
        None => name.to_owned(),
    };
    let names = (header("before_header", "before"), header("after_header", "after"));
    let shown = unified_diff(&before, &after, format.diff_context, (&names.0, &names.1));
    text.push_str(&shown);
    text.push('\n');
    text
}

fn side(value: &Value, format: &Format) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => format.side(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changed_line_printed_with_headers() {
        let diff = json!({"before": "a\nb\n", "after": "a\nc\n", "before_header": "/etc/x", "after_header": "/etc/x"});
        let text = "--- before: /etc/x\n+++ after: /etc/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n";
        assert_eq!(shown(&diff, &Format::plain()), text);
    }
}
