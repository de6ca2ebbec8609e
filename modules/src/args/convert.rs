//! Conversion of values to option types, with Ansible's error messages.

use serde_json::Value;

use super::paths::expand_path;
use crate::foreign::{python_repr, python_text};
use crate::{Host, Kind, Map};

/// Converts a value to this type, or returns the reason for failure. The items of a list stay unchanged.
pub(super) fn convert(kind: &Kind, value: &Value, host: &Host) -> Result<Value, String> {
    match kind {
        Kind::Path => Ok(expand_path(&text_of(value), host).into()),
        _ => convert_unexpanded(kind, value),
    }
}

/// Like [`convert`], without the host, so that paths stay as written.
pub(super) fn convert_unexpanded(kind: &Kind, value: &Value) -> Result<Value, String> {
    let not_a = |wanted: &str| format!("<class '{}'> cannot be converted to a {wanted}", kind_of(value));
    Ok(match kind {
        Kind::Raw => value.clone(),
        Kind::Str | Kind::Path => text_of(value).into(),
        Kind::Bool => match truth(value) {
            Some(truth) => truth.into(),
            None if value.is_array() || value.is_object() => return Err(not_a("bool")),
            None => {
                return Err(format!(
                    "The value '{}' is not a valid boolean. Valid booleans include: 'y', 'yes', 'on', '1', 'true', 't', 1, 1.0, True, \
                     'n', 'no', 'off', '0', 'false', 'f', 0, 0.0, False",
                    text_of(value)
                ));
            }
        },
        Kind::Int => {
            integer(value).ok_or_else(|| format!("\"{}\" cannot be converted to an int", python_repr(value)))?.into()
        }
        Kind::Float => match value {
            Value::Number(_) => value.clone(),
            Value::String(text) => text.trim().parse::<f64>().map_err(|_| not_a("float"))?.into(),
            _ => return Err(not_a("float")),
        },
        Kind::Bytes => bytes(value).ok_or_else(|| not_a("Byte value"))?.into(),
        Kind::Json => match value {
            Value::String(text) => text.trim().into(),
            other => other.to_string().into(),
        },
        Kind::List(inner) => Value::Array(match value {
            Value::Array(items) => items.clone(),
            Value::String(text)
                if !matches!(inner, Kind::Dict | Kind::Raw) || !text.trim_start().starts_with(['[', '{']) =>
            {
                text.split(',').map(|part| Value::from(part.trim())).collect()
            }
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) => items,
                Ok(other) => vec![other],
                Err(error) => return Err(format!("it looks like JSON but is not valid: {error}")),
            },
            // A mapping in place of a list of mappings becomes a list of one.
            Value::Object(_) if !matches!(inner, Kind::Dict | Kind::Raw) => return Err(not_a("list")),
            Value::Number(_) | Value::Bool(_) | Value::Object(_) => vec![value.clone()],
            Value::Null => Vec::new(),
        }),
        Kind::Dict => match value {
            Value::Object(map) => map.clone().into(),
            Value::String(text) => dictionary(text)?.into(),
            _ => return Err(not_a("dict")),
        },
    })
}

fn dictionary(text: &str) -> Result<Map, String> {
    if text.trim_start().starts_with('{') {
        return match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(map),
            _ => Err("unable to evaluate string as dictionary".to_owned()),
        };
    }
    if !text.contains('=') {
        return Err("dictionary requested, could not parse JSON or key=value".to_owned());
    }
    let words = shell_words::split(&text.replace(',', " ")).unwrap_or_default();
    let pairs = words.iter().map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value))));
    let map: Option<Map> = pairs.collect();
    map.filter(|map| !map.is_empty())
        .ok_or_else(|| "unable to evaluate string in the \"key=value\" format as dictionary".to_owned())
}

/// A value as text, in Ansible's notation.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => python_text(other),
    }
}

/// The name of a value's type in Python.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Whether a value means yes for a boolean option.
pub(crate) fn is_true(value: &Value) -> bool {
    truth(value) == Some(true)
}

pub(super) fn truth(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(value) => return Some(*value),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => return Some(true),
            Some(0.0) => return Some(false),
            _ => return None,
        },
        Value::String(text) => text.trim().to_ascii_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "y" | "yes" | "on" | "1" | "true" | "t" => Some(true),
        "n" | "no" | "off" | "0" | "false" | "f" => Some(false),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Parses a size in bytes such as `10M`.
pub(crate) fn bytes(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Number(_) => return integer(value),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let number: f64 = digits.parse().ok()?;
    let unit = text.get(digits.len()..)?.trim().to_ascii_uppercase();
    let factor = match unit.chars().next() {
        None | Some('B') => 1u64,
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some('T') => 1 << 40,
        Some('P') => 1 << 50,
        Some('E') => 1 << 60,
        Some(_) => return None,
    };
    Some((number * factor as f64) as i64)
}
