//! Differences as Ansible's callbacks show them.

use serde_json::Value;
use similar::TextDiff;

use super::json::nice_json;

/// The differences of a result as text, or nothing.
pub fn unified(diff: &Value, context: usize) -> String {
    let diffs = match diff {
        Value::Array(items) => items.as_slice(),
        Value::Null => return String::new(),
        one => std::slice::from_ref(one),
    };
    diffs.iter().map(|diff| one(diff, context)).collect()
}

fn one(diff: &Value, context: usize) -> String {
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
    let (before, after) = (side(before), side(after));
    if before == after {
        return text;
    }
    let header = |key: &str, name: &str| match diff.get(key).and_then(Value::as_str) {
        Some(header) => format!("{name}: {header}"),
        None => name.to_owned(),
    };
    let changes = TextDiff::from_lines(&before, &after);
    let shown = changes
        .unified_diff()
        .context_radius(context)
        .missing_newline_hint(true)
        .header(&header("before_header", "before"), &header("after_header", "after"))
        .to_string();
    text.push_str(&shown);
    text.push('\n');
    text
}

fn side(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => nice_json(other) + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_changed_line_is_shown_with_its_headers() {
        let diff = json!({"before": "a\nb\n", "after": "a\nc\n", "before_header": "/etc/x", "after_header": "/etc/x"});
        assert_eq!(unified(&diff, 3), "--- before: /etc/x\n+++ after: /etc/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n");
    }
}
