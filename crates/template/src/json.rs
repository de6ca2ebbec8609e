//! Conversion between values and JSON.

use std::borrow::Cow;

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Number, Value as Json};

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
    match shape(value) {
        Shape::Null => Json::Null,
        Shape::Bool(flag) => Json::Bool(flag),
        Shape::Number(number) => Json::Number(number),
        Shape::Text(text) => Json::String(text.into_owned()),
        Shape::List => Json::Array(items(value).map(|item| to_json(&item)).collect()),
        Shape::Map => Json::Object(
            items(value)
                .map(|key| (key_text(&key).into_owned(), to_json(&value.get_item(&key).unwrap_or_default())))
                .collect(),
        ),
    }
}

/// A value that serialises as [`to_json`] would convert it, but without that copy of the value.
///
/// `edit` receives every text, key and number before it is written, and may replace it by another text.
pub struct Edited<'a> {
    value: &'a Value,
    edit: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Edited<'a> {
    /// Combines a value with its edit.
    pub fn new(value: &'a Value, edit: &'a dyn Fn(&str) -> Option<String>) -> Edited<'a> {
        Edited { value, edit }
    }
}

impl Serialize for Edited<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Edited { value, edit } = *self;
        match shape(value) {
            Shape::Null => serializer.serialize_unit(),
            Shape::Bool(flag) => serializer.serialize_bool(flag),
            Shape::Number(number) => match edit(&number.to_string()) {
                Some(text) => serializer.serialize_str(&text),
                None => number.serialize(serializer),
            },
            Shape::Text(text) => serializer.serialize_str(edit(&text).as_deref().unwrap_or(&text)),
            Shape::List => {
                let mut list = serializer.serialize_seq(value.len())?;
                for item in items(value) {
                    list.serialize_element(&Edited::new(&item, edit))?;
                }
                list.end()
            }
            Shape::Map => {
                let mut map = serializer.serialize_map(value.len())?;
                let mut entry = |key: &Value, field: &Value| {
                    let name = key_text(key);
                    map.serialize_entry(edit(&name).as_deref().unwrap_or(&name), &Edited::new(field, edit))
                };
                // Answers of modules are such mappings; the general way looks every key up.
                if let Some(entries) = value.downcast_object_ref::<IndexMap<Value, Value>>() {
                    entries.iter().try_for_each(|(key, field)| entry(key, field))?;
                } else {
                    items(value).try_for_each(|key| entry(&key, &value.get_item(&key).unwrap_or_default()))?;
                }
                map.end()
            }
        }
    }
}

/// Kind of JSON that a value becomes.
enum Shape<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List,
    Map,
}

fn shape(value: &Value) -> Shape<'_> {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Shape::Null,
        ValueKind::Bool => Shape::Bool(value.is_true()),
        ValueKind::Number => {
            let integer = value.as_i64().filter(|_| value.is_integer()).map(Number::from);
            let unsigned = || u64::try_from(value.clone()).ok().filter(|_| value.is_integer()).map(Number::from);
            let float = || number::as_float(value).and_then(Number::from_f64);
            let number = integer.or_else(unsigned).or_else(float);
            number.map_or_else(|| Shape::Text(text(value).into()), Shape::Number)
        }
        ValueKind::Seq | ValueKind::Iterable => Shape::List,
        ValueKind::Map => Shape::Map,
        ValueKind::Bytes => Shape::Text(String::from_utf8_lossy(value.as_bytes().unwrap_or_default())),
        _ => match value.as_str() {
            Some(text) => Shape::Text(text.into()),
            None if time::is_datetime(value) => Shape::Text(time::iso_format(value).into()),
            None => Shape::Text(text(value).into()),
        },
    }
}

/// Items of a list, or keys of a mapping.
fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

fn key_text(key: &Value) -> Cow<'_, str> {
    match (key.as_str(), key.kind()) {
        (Some(name), _) => name.into(),
        (None, ValueKind::None) => "null".into(),
        (None, ValueKind::Bool) => key.is_true().to_string().into(),
        _ if time::is_datetime(key) => time::iso_format(key).into(),
        _ => text(key).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edited_value_serialises_as_its_conversion() {
        let source = json!({"a": [1, -2, 2.5, true, null, "t\"x"], "b": {"c": {}, "d": []}, "18446744073709551615": 1});
        let value = from_json(&source);
        let same = serde_json::to_string(&Edited::new(&value, &|_| None)).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&same).unwrap(), to_json(&value));
        assert_eq!(to_json(&value), source);
        let edit = |text: &str| text.contains('2').then(|| "x".to_owned());
        let edited: Json = serde_json::to_value(Edited::new(&value, &edit)).unwrap();
        assert_eq!(edited.get("a").unwrap(), &json!([1, "x", "x", true, null, "t\"x"]));
        let numbers: Vec<Value> = vec![f64::NAN.into(), f64::INFINITY.into(), 1e300.into(), u64::MAX.into()];
        let numbers = Value::from(numbers);
        assert_eq!(serde_json::to_value(Edited::new(&numbers, &|_| None)).unwrap(), to_json(&numbers));
    }
}
