//! JSON as `ansible-inventory` writes it.

use std::borrow::Cow;
use std::sync::Arc;

use windlass_yaml::{Key, Node, Value, python_float, python_timestamp};

/// Formats a value like `ansible-inventory`: keys sorted, four columns of indentation, Python's numbers. Ciphertext is
/// kept and marked.
pub fn to_json(node: &Node) -> String {
    let mut json = String::new();
    write_json(node, 0, &mut json);
    json
}

fn write_json<'n>(node: &'n Node, depth: usize, json: &mut String) {
    match &node.value {
        Value::Null => json.push_str("null"),
        Value::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => json.push_str(&value.to_string()),
        Value::BigInt(digits) => json.push_str(digits),
        Value::Float(value) => json.push_str(&json_float(*value)),
        Value::String(text) => write_string(text, json),
        Value::Literal(text) => write_string(text, json),
        Value::Timestamp(text) => write_string(&python_timestamp(text, 'T'), json),
        Value::Binary(bytes) => write_string(&String::from_utf8_lossy(bytes), json),
        Value::Vault(ciphertext) => {
            write_entries(
                [("__ansible_vault".into(), &Node::literal(Arc::clone(ciphertext), node.span.clone()))],
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
            let text = |key: &'n Key| key.as_str().map_or_else(|| Cow::Owned(key.to_text()), Cow::Borrowed);
            let mut entries: Vec<(Cow<'n, str>, &Node)> =
                mapping.iter().map(|(key, value)| (text(key), value)).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            write_entries(entries, depth, json);
        }
    }
}

fn write_entries<'n>(entries: impl IntoIterator<Item = (Cow<'n, str>, &'n Node)>, depth: usize, json: &mut String) {
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
    (0..depth).for_each(|_| json.push_str("    "));
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
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        let (plain, special) = rest.split_at(at);
        json.push_str(plain);
        let mut characters = special.chars();
        match characters.next().unwrap_or_default() {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            control => json.push_str(&format!("\\u{:04x}", u32::from(control))),
        }
        rest = characters.as_str();
    }
    json.push_str(rest);
    json.push('"');
}
