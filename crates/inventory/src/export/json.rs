//! JSON as `ansible-inventory` writes it.

use std::sync::Arc;

use windlass_yaml::{Node, Value, python_float, python_timestamp};

/// A value as `ansible-inventory` writes JSON: keys sorted, four columns of indentation, Python's numbers. Ciphertext
/// stays ciphertext, marked as such.
pub fn to_json(node: &Node) -> String {
    let mut json = String::new();
    write_json(node, 0, &mut json);
    json
}

fn write_json(node: &Node, depth: usize, json: &mut String) {
    match &node.value {
        Value::Null => json.push_str("null"),
        Value::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => json.push_str(&value.to_string()),
        Value::BigInt(digits) => json.push_str(digits),
        Value::Float(value) => json.push_str(&json_float(*value)),
        Value::String(text) | Value::Literal(text) => write_string(text, json),
        Value::Timestamp(text) => write_string(&python_timestamp(text, 'T'), json),
        Value::Binary(bytes) => write_string(&String::from_utf8_lossy(bytes), json),
        Value::Vault(ciphertext) => {
            write_entries(
                [("__ansible_vault".to_owned(), &Node::string(Arc::clone(ciphertext), node.span.clone()))],
                depth,
                json,
            );
        }
        Value::List(items) if items.is_empty() => json.push_str("[]"),
        Value::List(items) => {
            json.push('[');
            for (index, item) in items.iter().enumerate() {
                new_line(index, depth + 1, json);
                write_json(item, depth + 1, json);
            }
            new_line(0, depth, json);
            json.push(']');
        }
        Value::Map(mapping) if mapping.is_empty() => json.push_str("{}"),
        Value::Map(mapping) => {
            let mut entries: Vec<(String, &Node)> = mapping.iter().map(|(key, value)| (key.to_text(), value)).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            write_entries(entries, depth, json);
        }
    }
}

fn write_entries<'n>(entries: impl IntoIterator<Item = (String, &'n Node)>, depth: usize, json: &mut String) {
    json.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        new_line(index, depth + 1, json);
        write_string(&key, json);
        json.push_str(": ");
        write_json(value, depth + 1, json);
    }
    new_line(0, depth, json);
    json.push('}');
}

fn new_line(index: usize, depth: usize, json: &mut String) {
    json.push_str(if index > 0 { ",\n" } else { "\n" });
    json.push_str(&"    ".repeat(depth));
}

fn json_float(value: f64) -> String {
    match python_float(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        number => number.to_owned(),
    }
}

fn write_string(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            ' '.. => json.push(character),
            _ => json.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    json.push('"');
}
