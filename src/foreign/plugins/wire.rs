//! Values exchanged with Python: JSON, with tagged objects for types that JSON lacks.

use serde_json::{Value as Json, json};
use windlass_template::Value;

use minijinja::value::ValueKind;

/// Encodes a value for Python.
pub(crate) fn packed(value: &Value) -> Json {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Json> = value.try_iter().into_iter().flatten().map(|item| packed(&item)).collect();
            if value.is_tuple() { json!({ "$": "tuple", "v": items }) } else { items.into() }
        }
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            let item = |key: &Value| packed(&value.get_item(key).unwrap_or_default());
            let plain = keys.iter().all(|key| key.as_str().is_some_and(|key| key != "$"));
            if plain {
                let entries = keys.iter().map(|key| (key.as_str().unwrap_or_default().to_owned(), item(key)));
                return Json::Object(entries.collect());
            }
            let pairs: Vec<Json> = keys.iter().map(|key| json!([packed(key), item(key)])).collect();
            json!({ "$": "pairs", "v": pairs })
        }
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) if !number.is_finite() => {
                let word = if number.is_nan() {
                    "nan"
                } else if number > 0.0 {
                    "inf"
                } else {
                    "-inf"
                };
                json!({ "$": "float", "v": word })
            }
            _ => windlass_template::to_json(value),
        },
        _ => windlass_template::to_json(value),
    }
}

/// Decodes a value from Python.
pub(crate) fn unpacked(json: &Json) -> Value {
    match json {
        Json::Array(items) => items.iter().map(unpacked).collect(),
        Json::Object(map) => match (map.get("$").and_then(Json::as_str), map.get("v")) {
            (Some("pairs"), Some(Json::Array(pairs))) => {
                let pair = |pair: &Json| Some((unpacked(pair.get(0)?), unpacked(pair.get(1)?)));
                Value::from_pairs(pairs.iter().filter_map(pair))
            }
            // Templates receive a plugin's tuple as a list.
            (Some("tuple"), Some(Json::Array(items))) => items.iter().map(unpacked).collect(),
            (Some("float"), Some(Json::String(word))) => Value::from(word.parse::<f64>().unwrap_or(f64::NAN)),
            (Some("undefined"), Some(Json::String(name))) => windlass_template::undefined(name.as_str()),
            _ => Value::from_pairs(map.iter().map(|(key, item)| (Value::from(key.as_str()), unpacked(item)))),
        },
        _ => windlass_template::from_json(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_json_type_survive() {
        let map =
            Value::from_pairs([(Value::from(1), Value::from(f64::INFINITY)), (Value::from("$"), Value::from(()))]);
        let there = packed(&map);
        assert_eq!(there, json!({"$": "pairs", "v": [[1, {"$": "float", "v": "inf"}], ["$", null]]}));
        assert_eq!(unpacked(&there), map);
        assert!(windlass_template::is_undefined(&unpacked(&json!({"$": "undefined", "v": "x"}))));
    }
}
