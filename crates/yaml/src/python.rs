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
        Value::String(text) => python_quote(text, shown),
        Value::Literal(text) | Value::Vault(text) => python_quote(text, shown),
        Value::Timestamp(text) => python_quote(text, shown),
        Value::Binary(bytes) => {
            shown.push('b');
            python_quote(&bytes.iter().copied().map(char::from).collect::<String>(), shown);
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

/// Appends a text as Python's `repr` quotes it.
pub fn python_quote(text: &str, shown: &mut String) {
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
            _ if is_printable(character) => shown.push(character),
            _ => {
                let code = u32::from(character);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0xff => write!(shown, "\\x{code:02x}"),
                    0x100..=0xffff => write!(shown, "\\u{code:04x}"),
                    _ => write!(shown, "\\U{code:08x}"),
                };
            }
        }
    }
    shown.push(quote);
}

/// Python escapes control, format, private-use and unassigned characters, and every space except the ASCII one.
fn is_printable(character: char) -> bool {
    if character == ' ' {
        return true;
    }
    let code = u32::from(character);
    !(character.is_control()
        || character.is_whitespace()
        || matches!(code, 0xad | 0x600..=0x605 | 0x61c | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e)
        || matches!(code, 0x2060..=0x206f | 0xfeff | 0xfff0..=0xfffb | 0xe000..=0xf8ff | 0xfffe | 0xffff)
        || code >= 0xe0000)
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
