//! Python literals, as values in INI inventories: `1`, `True`, `[1, 'a']`, `{'a': None}`.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, PythonLiteral, Span, Text, Value};

/// Reads a Python literal as `ast.literal_eval` does; `None` if the text is not one. Tuples and sets become lists;
/// strings may be templates.
pub fn python_literal(text: &str, span: &Span) -> Option<Node> {
    let text = text.trim_start_matches([' ', '\t']);
    // Most values are plain words, which need no parser.
    if text.starts_with(char::is_alphabetic) && !could_be_literal(text) {
        return None;
    }
    node(PythonLiteral::read(text)?, span)
}

fn could_be_literal(text: &str) -> bool {
    ["True", "False", "None", "set"].iter().any(|word| text.starts_with(word))
        || text.bytes().take(3).any(|byte| byte == b'"' || byte == b'\'')
}

#[expect(clippy::disallowed_methods, reason = "an inventory is the project's own text")]
fn node(literal: PythonLiteral, span: &Span) -> Option<Node> {
    let value = match literal {
        PythonLiteral::None => Value::Null,
        PythonLiteral::Ellipsis => Value::Literal("...".into()),
        PythonLiteral::Bool(value) => Value::Bool(value),
        PythonLiteral::Int(value) => Value::Int(value),
        PythonLiteral::BigInt(digits) => Value::BigInt(digits),
        PythonLiteral::Float(value) => Value::Float(value),
        PythonLiteral::String(text) | PythonLiteral::Bytes(text) => Value::String(Text::of_project(text)),
        PythonLiteral::List(items) | PythonLiteral::Tuple(items) | PythonLiteral::Set(items) => {
            Value::List(items.into_iter().map(|item| node(item, span)).collect::<Option<_>>()?)
        }
        PythonLiteral::Dict(entries) => {
            let mut mapping = Mapping::new();
            for (key, value) in entries {
                let key = node(key, span)?.value;
                if matches!(key, Value::List(_)) {
                    return None;
                }
                mapping.insert(Key { value: key, span: span.clone() }, node(value, span)?);
            }
            Value::Map(Arc::new(mapping))
        }
    };
    Some(Node::new(value, span.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<String> {
        python_literal(text, &Span::none()).map(|node| node.to_json().to_string())
    }

    #[test]
    fn python_literal_keeps_its_type() {
        for (text, expected) in [
            ("1", "1"),
            ("-5", "-5"),
            ("+ 5", "5"),
            ("0x1f", "31"),
            ("1_000", "1000"),
            ("1.5", "1.5"),
            (".5", "0.5"),
            ("1e3", "1000.0"),
            ("1_0.5e-1", "1.05"),
            ("True", "true"),
            ("None", "null"),
            ("'a b'", "\"a b\""),
            ("u'a' \"b\"", "\"ab\""),
            (r"'\x41\n\q'", "\"A\\n\\\\q\""),
            (r"r'\n'", "\"\\\\n\""),
            ("[1, 'a', [True],]", "[1,\"a\",[true]]"),
            ("(1)", "1"),
            ("(1,)", "[1]"),
            ("()", "[]"),
            ("1,2", "[1,2]"),
            ("{'a': 1, 'b': {2, 2}}", "{\"a\":1,\"b\":[2]}"),
            ("{1: 2}", "{\"1\":2}"),
            ("5 # five", "5"),
            ("set()", "[]"),
            ("...", "\"...\""),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ] {
            assert_eq!(json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_literal_yields_none() {
        for text in [
            "",
            "yes",
            "true",
            "0644",
            "08",
            "a b",
            "1.2.3.4",
            "--5",
            "1+2",
            "f'x'",
            "[a]",
            "{'a'}b",
            "1a",
            "Truely",
            "~",
            "/etc",
            "{{ x }}",
            "'open",
            "10.0.0.0/8",
            "1__0",
            "-True",
            "settings",
            "http://x",
            "a,b",
            "1 2",
            "[1",
            "{[1]: 2}",
            "1_",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }
}
