//! Formats values as Python does.

use std::fmt::Write;

use crate::{Node, Value};

/// Formats a value as Python's `str` does: top-level text as it is, text within collections quoted.
pub fn python_str(node: &Node) -> String {
    if let Some(text) = node.scalar_text() {
        return text;
    }
    let mut shown = String::new();
    repr(node, &mut shown);
    shown
}

fn repr(node: &Node, shown: &mut String) {
    match &node.value {
        Value::String(text) => quote(text, shown),
        Value::Literal(text) | Value::Vault(text) => quote(text, shown),
        Value::Timestamp(text) => quote(text, shown),
        Value::Binary(bytes) => {
            shown.push('b');
            quote(&bytes.iter().copied().map(char::from).collect::<String>(), shown);
        }
        Value::List(items) => {
            shown.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    shown.push_str(", ");
                }
                repr(item, shown);
            }
            shown.push(']');
        }
        Value::Map(mapping) => {
            shown.push('{');
            for (index, (key, value)) in mapping.iter().enumerate() {
                if index > 0 {
                    shown.push_str(", ");
                }
                repr(&key.as_node(), shown);
                shown.push_str(": ");
                repr(value, shown);
            }
            shown.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => {
            shown.push_str(&node.scalar_text().unwrap_or_default());
        }
    }
}

fn quote(text: &str, shown: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    shown.push(quote);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            '\\' => shown.push_str("\\\\"),
            _ if character == quote => {
                shown.push('\\');
                shown.push(character);
            }
            _ if character.is_control() || matches!(character, '\u{ad}' | '\u{a0}' | '\u{2028}' | '\u{2029}') => {
                let code = u32::from(character);
                // Writing to a string cannot fail.
                let _ = if code < 0x100 { write!(shown, "\\x{code:02x}") } else { write!(shown, "\\u{code:04x}") };
            }
            _ => shown.push(character),
        }
    }
    shown.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Source, load_one};

    #[test]
    fn values_formatted_like_python() {
        let node =
            load_one(Source::new("t", "a: [it's, 'say \"x\"', ~, yes, 1.0]\nb: {c: \"\\n\"}\n"), &Options::default());
        assert_eq!(python_str(&node.unwrap()), r#"{'a': ["it's", 'say "x"', None, True, 1.0], 'b': {'c': '\n'}}"#);
        assert_eq!(python_str(&Node::literal("plain", crate::Span::none())), "plain");
    }
}
