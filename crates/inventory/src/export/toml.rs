//! Writes TOML like `ansible-inventory --toml`.

use windlass_yaml::{Key, Mapping, Node, Span, Value, python_float, python_timestamp};

use crate::Error;

/// A list of tables is written inline if none of its lines would exceed this length.
const LINE: usize = 100;
const INDENT: &str = "    ";

/// Formats a mapping as a TOML document: plain values first, then tables. Other keys become text, or an error with
/// `only_text_keys`.
pub fn to_toml(node: &Node, only_text_keys: bool) -> Result<String, Error> {
    if let Some(key) = if only_text_keys { other_key(node) } else { None } {
        let message = format!(
            "The source inventory contains a non-string key ({}, at {}) which cannot be represented in TOML.",
            key.to_text(),
            key.span
        );
        let hint = "Write it in quotes; what reads it must then expect a text.";
        return Err(Error::at(&Span::synthetic(""), message).with_hint(hint));
    }
    let mut toml = String::new();
    if let Some(mapping) = node.as_map() {
        table(mapping, "", false, &mut toml)?;
    }
    Ok(toml)
}

/// Finds a key, at any depth, that is not text.
fn other_key(node: &Node) -> Option<&Key> {
    if let Some(items) = node.as_list() {
        return items.iter().find_map(other_key);
    }
    let mapping = node.as_map()?;
    mapping.iter().find_map(|(key, node)| if key.as_str().is_none() { Some(key) } else { other_key(node) })
}

fn table(entries: &Mapping, name: &str, is_item: bool, toml: &mut String) -> Result<(), Error> {
    let mut literals = Vec::new();
    let mut tables: Vec<(String, &Mapping, bool)> = Vec::new();
    for (key, value) in entries.iter() {
        let key = key_text(&key.to_text());
        match &value.value {
            Value::Map(mapping) => tables.push((key, mapping, false)),
            Value::List(items) if !items.is_empty() && !fits_inline(items)? => {
                tables.extend(items.iter().filter_map(Node::as_map).map(|mapping| (key.clone(), &**mapping, true)));
            }
            _ => literals.push((key, value)),
        }
    }
    let mut has_begun = is_item || (!name.is_empty() && (!literals.is_empty() || tables.is_empty()));
    if is_item {
        toml.push_str(&format!("[[{name}]]\n"));
    } else if has_begun {
        toml.push_str(&format!("[{name}]\n"));
    }
    for (key, value) in literals {
        has_begun = true;
        toml.push_str(&format!("{key} = {}\n", literal(value, 0)?));
    }
    for (key, mapping, is_item) in tables {
        if has_begun {
            toml.push('\n');
        }
        has_begun = true;
        let name = if name.is_empty() { key } else { format!("{name}.{key}") };
        table(mapping, &name, is_item, toml)?;
    }
    Ok(())
}

/// Whether a list can be written inline: it is not a list of tables, or each of its tables fits on a line.
fn fits_inline(items: &[Node]) -> Result<bool, Error> {
    if !items.iter().all(|item| item.as_map().is_some()) {
        return Ok(true);
    }
    for item in items {
        let shown = literal(item, 0)?;
        if shown.contains('\n') || INDENT.len() + shown.chars().count() + 1 > LINE {
            return Ok(false);
        }
    }
    Ok(true)
}

fn literal(node: &Node, depth: usize) -> Result<String, Error> {
    Ok(match &node.value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::BigInt(digits) => digits.clone(),
        Value::Float(value) => python_float(*value),
        Value::String(text) => quoted(text),
        Value::Literal(text) => quoted(text),
        Value::Timestamp(text) => python_timestamp(text, ' '),
        Value::List(items) if items.is_empty() => "[]".to_owned(),
        Value::List(items) => {
            let mut list = String::from("[\n");
            for item in items.iter() {
                list += &format!("{}{},\n", INDENT.repeat(depth + 1), literal(item, depth + 1)?);
            }
            list + &INDENT.repeat(depth) + "]"
        }
        Value::Map(mapping) if mapping.is_empty() => "{}".to_owned(),
        Value::Map(mapping) => {
            let mut entries = Vec::new();
            for (key, value) in mapping.iter() {
                entries.push(format!("{} = {}", key_text(&key.to_text()), literal(value, 0)?));
            }
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Null | Value::Vault(_) | Value::Binary(_) => {
            return Err(Error::at(&node.span, format!("TOML has no word for {}.", node.kind()))
                .with_hint("Show the inventory as JSON or with --yaml."));
        }
    })
}

fn key_text(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_bare { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\t' | ' '..='~' | '\u{80}'.. => quoted.push(character),
            _ => quoted.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_string_key_error_starts_with_its_message() {
        let source = windlass_yaml::Source::new("hosts.yml", "all:\n  7.2: x\n");
        let node = windlass_yaml::load_one(source, &windlass_yaml::Options::default()).unwrap();
        let error = to_toml(&node, true).unwrap_err().to_string();
        assert!(error.starts_with("The source inventory contains a non-string key (7.2, at hosts.yml:2:3)"), "{error}");
    }
}
