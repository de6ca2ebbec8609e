//! Conversion between values and JSON.

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::{Map, Number, Value as Json};

use crate::python::{number, text, time};

/// Converts JSON, such as the results of modules, to data.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(integer)) => Value::from(integer),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<_>>()),
        Json::Object(entries) => {
            let map: IndexMap<Value, Value> =
                entries.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value))).collect();
            Value::from_object(map)
        }
    }
}

/// Converts a value to JSON. Keys and bytes become text, dates become ISO 8601, and numbers beyond JSON become text.
pub fn to_json(value: &Value) -> Json {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => {
            let integer = value.as_i64().filter(|_| value.is_integer()).map(Number::from);
            let unsigned = || u64::try_from(value.clone()).ok().filter(|_| value.is_integer()).map(Number::from);
            let float = || number::as_float(value).and_then(Number::from_f64);
            integer.or_else(unsigned).or_else(float).map_or_else(|| Json::String(text(value)), Json::Number)
        }
        ValueKind::Seq | ValueKind::Iterable => {
            Json::Array(value.try_iter().into_iter().flatten().map(|item| to_json(&item)).collect())
        }
        ValueKind::Map => {
            let mut entries = Map::new();
            for key in value.try_iter().into_iter().flatten() {
                let name = match key.kind() {
                    ValueKind::None => "null".to_owned(),
                    ValueKind::Bool => key.is_true().to_string(),
                    _ if time::is_datetime(&key) => time::iso_format(&key),
                    _ => text(&key),
                };
                entries.insert(name, to_json(&value.get_item(&key).unwrap_or_default()));
            }
            Json::Object(entries)
        }
        _ if time::is_datetime(value) => Json::String(time::iso_format(value)),
        ValueKind::Bytes => Json::String(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()),
        _ => Json::String(text(value)),
    }
}
