//! JSON formatted like Python's `json.dumps`.

use serde_json::Value;

use super::printable::is_dangerous;

/// `json.dumps(value, sort_keys=True)`.
pub fn python_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, None, 0, true, &mut text);
    text
}

/// `json.dumps(value)`: keeps the order of keys.
pub fn python_json_as_is(value: &Value) -> String {
    let mut text = String::new();
    write(value, None, 0, false, &mut text);
    text
}

/// `json.dumps(value, indent=4, sort_keys=True)`.
pub fn nice_json(value: &Value) -> String {
    indented_json(value, Some(4))
}

/// `json.dumps(value, indent=4)`: keeps the order of keys.
pub(crate) fn nice_json_as_is(value: &Value) -> String {
    let mut text = String::new();
    write(value, Some(4), 0, false, &mut text);
    text
}

/// `json.dumps(value, indent=indent, sort_keys=True)`.
pub(super) fn indented_json(value: &Value, indent: Option<usize>) -> String {
    let mut text = String::new();
    write(value, indent, 0, true, &mut text);
    text
}

/// `json.dumps(value, indent=1, sort_keys=True)` without line ends, the format of statistics.
pub(super) fn spaced_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, Some(1), 0, true, &mut text);
    text.replace('\n', "")
}

fn write(value: &Value, indent: Option<usize>, depth: usize, sorted: bool, text: &mut String) {
    match value {
        Value::Array(items) if items.is_empty() => text.push_str("[]"),
        Value::Object(map) if map.is_empty() => text.push_str("{}"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, indent, depth + 1, text);
                write(item, indent, depth + 1, sorted, text);
            }
            close(indent, depth, text);
            text.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            if sorted {
                entries.sort_by_key(|(key, _)| *key);
            }
            text.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                separate(index, indent, depth + 1, text);
                text.push_str(&string(key));
                text.push_str(": ");
                write(item, indent, depth + 1, sorted, text);
            }
            close(indent, depth, text);
            text.push('}');
        }
        Value::String(content) => text.push_str(&string(content)),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => text.push_str(&windlass_yaml::python_float(float)),
            None => text.push_str(&number.to_string()),
        },
        other => text.push_str(&other.to_string()),
    }
}

fn separate(index: usize, indent: Option<usize>, depth: usize, text: &mut String) {
    match (index, indent) {
        (0, None) => {}
        (_, None) => text.push_str(", "),
        (0, Some(width)) => line(width * depth, text),
        (_, Some(width)) => {
            text.push(',');
            line(width * depth, text);
        }
    }
}

fn close(indent: Option<usize>, depth: usize, text: &mut String) {
    if let Some(width) = indent {
        line(width * depth, text);
    }
}

fn line(width: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', width));
}

/// A string with Python's escapes. Non-ASCII characters are kept, except those that control a terminal.
fn string(content: &str) -> String {
    let text = serde_json::to_string(content).unwrap_or_default();
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !text.contains(is_dangerous) {
        return text;
    }
    // Four digits suffice for all of them.
    let escaped = |c: char| if is_dangerous(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_sorted_and_blanks_like_python() {
        assert_eq!(python_json(&json!({"b": [1, 2], "a": {}})), r#"{"a": {}, "b": [1, 2]}"#);
        assert_eq!(nice_json(&json!({"b": [1], "a": null})), "{\n    \"a\": null,\n    \"b\": [\n        1\n    ]\n}");
    }
}
