//! Types of ansible-core 2.18: every result is text, and text that looks like data becomes data.

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};
use windlass_yaml::PythonLiteral;

use crate::error::{Error, ErrorKind};
use crate::mark::{Mark, check, is_omit, mark};
use crate::origin::first_key;
use crate::plain::plain;
use crate::python::class::Class;
use crate::python::number::big_integer;
use crate::python::{repr, text, time, type_name};

/// Result of a template. Only the value of a lone variable keeps its type.
pub(crate) fn single(value: &Value, variable: bool) -> Result<Value, Error> {
    if let Some(settled) = settled(value)? {
        return Ok(settled);
    }
    Ok(match value.kind() {
        ValueKind::None if !variable => Value::from(""),
        ValueKind::None | ValueKind::Bool | ValueKind::Bytes => value.clone(),
        ValueKind::Number if variable => value.clone(),
        ValueKind::Number => Value::from(text(value)),
        ValueKind::String if value.is_safe() => value.clone(),
        ValueKind::String => {
            let string = value.as_str().unwrap_or_default();
            literal(string).unwrap_or_else(|| value.clone())
        }
        _ if time::is_datetime(value) || time::is_timedelta(value) || Class::is(value) => Value::from(text(value)),
        _ if value.is_tuple() => Value::from(text(&plain(value)?)),
        _ => value.clone(),
    })
}

/// Result of a template with `jinja2_native`: values keep their types, and text that spells a value becomes that value.
pub(crate) fn native(value: &Value) -> Result<Value, Error> {
    if let Some(settled) = settled(value)? {
        return Ok(settled);
    }
    Ok(match value.as_str() {
        Some(text) if value.kind() == ValueKind::String && !value.is_safe() && !text.starts_with([' ', '\t']) => {
            match PythonLiteral::read(text) {
                // Text keeps its quotes.
                Some(PythonLiteral::String(_)) | None => value.clone(),
                Some(literal) => data(literal).unwrap_or_else(|| value.clone()),
            }
        }
        _ => value.clone(),
    })
}

/// Results that do not depend on the type rules: `omit`, and a missing `else`. An undefined value is an error.
fn settled(value: &Value) -> Result<Option<Value>, Error> {
    if is_omit(value) {
        return Ok(Some(value.clone()));
    }
    if matches!(mark(value), Some(Mark::Nothing)) {
        return Ok(Some(Value::from("")));
    }
    check(value)?;
    Ok(None)
}

/// Message for a key or attribute that an object lacks. `path` is its spelling in the template.
pub(crate) fn lacks(object: &Value, key: &Value, path: &str) -> String {
    let class = match object.kind() {
        ValueKind::None => "None".to_owned(),
        _ => format!("{} object", type_name(object)),
    };
    match (key.as_str(), keys_of_hostvars(path)) {
        (Some(host), 1) => format!("\"hostvars['{host}']\" is undefined"),
        (Some(name), 2) => format!("'ansible.vars.hostvars.HostVarsVars object' has no attribute '{name}'"),
        (Some(name), _) => format!("'{class}' has no attribute {}", repr(&Value::from(name))),
        (None, _) => format!("{class} has no element {}", repr(key)),
    }
}

/// Number of keys after `hostvars`.
fn keys_of_hostvars(path: &str) -> usize {
    let mut keys = path.strip_prefix("hostvars").unwrap_or_default();
    let mut count = 0;
    while let Some((_, rest)) = first_key(keys) {
        keys = rest;
        count += 1;
    }
    count
}

/// Message for an unknown filter or test.
pub(crate) fn not_loaded(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reason = match name.rsplit_once('.') {
        None if is_plain => name.to_owned(),
        None => format!("invalid plugin name: ansible.builtin.{name}"),
        Some(("ansible.builtin" | "ansible.legacy", _)) => name.to_owned(),
        Some((collection, _)) => format!("Invalid plugin FQCN ({name}): unable to locate collection {collection}"),
    };
    format!("{NOT_LOADED}{name}\": '{reason}'.")
}

/// Prefixes Python's error name if the filter or test was only looked up at run time, as in `map('name')`.
pub(crate) fn while_running(error: minijinja::Error) -> minijinja::Error {
    let error = Error::from(error);
    match error.message().starts_with(NOT_LOADED) {
        true => Error::syntax(format!("TemplateSyntaxError: {}", error.message())).into(),
        false => error.into(),
    }
}

const NOT_LOADED: &str = "Could not load \"";

/// Adds the template to an error about an unknown filter or test.
pub(crate) fn of_template(error: Error, template: &str) -> Error {
    if *error.kind() != ErrorKind::Syntax || !error.message().starts_with(NOT_LOADED) {
        return error;
    }
    let what = error.message().trim_end_matches('.');
    let sentence = format!("template error while templating string: {what}. String: {template}. {what}");
    error.with_sentence(&sentence)
}

/// Whether an expression ends with a filter whose result always stays text.
pub(crate) fn keeps_text(expression: &str) -> bool {
    let Some(last) = last_filter(expression) else { return false };
    gives_text(last.split('(').next().unwrap_or_default().trim())
}

/// Whether the result of a filter always stays text.
pub(crate) fn gives_text(filter: &str) -> bool {
    matches!(filter, "string" | "to_json" | "to_nice_json" | "to_yaml" | "to_nice_yaml" | "ppretty" | "json")
}

/// The part after the last `|` outside parentheses and quotes.
fn last_filter(expression: &str) -> Option<&str> {
    let (mut found, mut depth, mut quote, mut escaped) = (None, 0i32, None, false);
    for (index, character) in expression.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, '|') if depth == 0 => found = expression.get(index + 1..),
            (None, _) => {}
        }
    }
    found
}

/// Marks text that always stays text, also through variables and loops. Nothing is escaped, so minijinja's safe mark is
/// free.
pub(crate) fn kept(value: Value) -> Value {
    value.as_str().map(|text| Value::from_safe_string(text.to_owned())).unwrap_or(value)
}

/// Reads text that looks like a list, dict or boolean of Python or JSON.
fn literal(text: &str) -> Option<Value> {
    match text {
        "True" => Some(Value::from(true)),
        "False" => Some(Value::from(false)),
        _ if !text.starts_with(['[', '{']) || text.starts_with("{{") => None,
        _ => data(PythonLiteral::read_with_json(text)?),
    }
}

/// Reads text that spells a number, boolean, list, dict or quoted string.
pub(crate) fn spelled(text: &str) -> Option<Value> {
    match text {
        "none" => Some(Value::from(())),
        // Jinja takes it as a name, unlike `true` and `false`.
        "null" => None,
        _ => alone(PythonLiteral::read_with_json(text)?),
    }
}

/// Converts a literal that stands alone; `None` for bytes.
pub(crate) fn alone(literal: PythonLiteral) -> Option<Value> {
    if matches!(literal, PythonLiteral::Bytes(_)) { None } else { data(literal) }
}

/// Converts a literal; `None` if templates have no such value.
fn data(literal: PythonLiteral) -> Option<Value> {
    let all = |items: Vec<PythonLiteral>| items.into_iter().map(data).collect::<Option<Vec<_>>>();
    Some(match literal {
        PythonLiteral::None => Value::from(()),
        PythonLiteral::Bool(value) => Value::from(value),
        PythonLiteral::Int(value) => Value::from(value),
        PythonLiteral::BigInt(digits) => big_integer(&digits),
        PythonLiteral::Float(value) => Value::from(value),
        PythonLiteral::String(text) | PythonLiteral::Bytes(text) => Value::from(text),
        PythonLiteral::List(items) => Value::from(all(items)?),
        PythonLiteral::Tuple(items) => Value::from(Tuple::from(all(items)?)),
        PythonLiteral::Dict(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Some((data(key)?, data(value)?)));
            Value::from_object(entries.collect::<Option<IndexMap<_, _>>>()?)
        }
        PythonLiteral::Set(_) | PythonLiteral::Ellipsis => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_filter_outside_parentheses_decides_text() {
        assert!(keeps_text("d | to_nice_json(indent=(width | int))"));
        assert!(keeps_text("d | to_json"));
        assert!(keeps_text("'|' ~ d | string"));
        assert!(!keeps_text("d | default('|to_json')"));
        assert!(!keeps_text("(d | to_json)"));
        assert!(!keeps_text("d | to_json | from_json"));
    }

    #[test]
    fn null_and_bytes_are_not_spelled_values() {
        assert_eq!(spelled("none"), Some(Value::from(())));
        assert_eq!(spelled("'a' 'b'"), Some(Value::from("ab")));
        for text in ["null", "b'a'", "word"] {
            assert_eq!(spelled(text), None, "{text}");
        }
    }
}
