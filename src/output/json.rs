//! JSON formatted like Python's `json.dumps`.

use serde_json::Value;

use super::printable::is_dangerous;

/// Layout of a document.
#[derive(Debug, Clone, Copy)]
struct Style {
    /// Blanks per level; `None` for a single line.
    indent: Option<usize>,
    /// Whether keys are sorted.
    sorted: bool,
    /// Whether blanks between tokens are left out.
    dense: bool,
}

/// `json.dumps(value, sort_keys=True)`.
pub fn python_json(value: &Value) -> String {
    text_of(value, Style { indent: None, sorted: true, dense: false })
}

/// `json.dumps(value)`: keeps the order of keys.
pub fn python_json_as_is(value: &Value) -> String {
    text_of(value, Style { indent: None, sorted: false, dense: false })
}

/// `json.dumps(value, indent=indent, separators=(",", ":"), sort_keys=True)`.
pub(super) fn dense_json(value: &Value, indent: Option<usize>) -> String {
    text_of(value, Style { indent, sorted: true, dense: true })
}

/// `json.dumps(value, indent=4, sort_keys=True)`.
pub fn nice_json(value: &Value) -> String {
    indented_json(value, Some(4))
}

/// `json.dumps(value, indent=4)`: keeps the order of keys.
pub(crate) fn nice_json_as_is(value: &Value) -> String {
    text_of(value, Style { indent: Some(4), sorted: false, dense: false })
}

/// `json.dumps(value, indent=indent, sort_keys=True)`.
pub(super) fn indented_json(value: &Value, indent: Option<usize>) -> String {
    text_of(value, Style { indent, sorted: true, dense: false })
}

/// `json.dumps(value, indent=1, sort_keys=True)` without line ends, the format of statistics.
pub(super) fn spaced_json(value: &Value) -> String {
    indented_json(value, Some(1)).replace('\n', "")
}

fn text_of(value: &Value, style: Style) -> String {
    let mut text = String::new();
    write(value, style, 0, &mut text);
    text
}

fn write(value: &Value, style: Style, depth: usize, text: &mut String) {
    match value {
        Value::Array(items) if items.is_empty() => text.push_str("[]"),
        Value::Object(map) if map.is_empty() => text.push_str("{}"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, style, depth + 1, text);
                write(item, style, depth + 1, text);
            }
            close(style.indent, depth, text);
            text.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            if style.sorted {
                entries.sort_by_key(|(key, _)| *key);
            }
            text.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                separate(index, style, depth + 1, text);
                text.push_str(&string(key));
                text.push_str(if style.dense { ":" } else { ": " });
                write(item, style, depth + 1, text);
            }
            close(style.indent, depth, text);
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

fn separate(index: usize, style: Style, depth: usize, text: &mut String) {
    match (index, style.indent) {
        (0, None) => {}
        (_, None) => text.push_str(if style.dense { "," } else { ", " }),
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

/// JSON with non-ASCII characters escaped, so that readers with any encoding agree.
pub fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character.is_ascii() {
            true => text.push(character),
            false => {
                character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")))
            }
        }
    }
    text
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
        assert_eq!(dense_json(&json!({"b": [1, 2], "a": {}}), None), r#"{"a":{},"b":[1,2]}"#);
        assert_eq!(nice_json(&json!({"b": [1], "a": null})), "{\n    \"a\": null,\n    \"b\": [\n        1\n    ]\n}");
    }
}
