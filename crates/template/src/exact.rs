//! Values as JSON from which they can be read again unchanged. Processes of a run send them to each other so, and the
//! journal keeps them so; [`crate::to_json`] is for programs that expect Ansible's JSON.
//!
//! Whatever JSON has stands for itself. Anything else is an object whose only key begins with a zero byte and names the
//! kind of value. A mapping that has such a key itself is written as a list of pairs, so no data is taken for another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use jiff::SignedDuration;
use jiff::civil;
use jiff::tz::Offset;
use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};
use serde_json::{Map, Value as Json, json};

use crate::json::{from_json, to_json};
use crate::python::time::{DateTime, TimeDelta};

/// First character of the keys that name a kind of value.
const MARK: char = '\0';
/// A mapping with keys that are not plain texts: a list of pairs.
const KEYED: &str = "\0keyed";
/// An integer that needs more than 64 bits, as decimal digits.
const INTEGER: &str = "\0integer";
/// A float that is not finite.
const FLOAT: &str = "\0float";
/// Bytes in base64.
const BYTES: &str = "\0bytes";
/// A text that needs no escapes in HTML, which is the result of a native template up to 2.18.
const SAFE: &str = "\0safe";
const TUPLE: &str = "\0tuple";
/// A day.
const DATE: &str = "\0date";
/// A time of a day, with the seconds of its offset from UTC or null.
const DATETIME: &str = "\0datetime";
/// Whole seconds and nanoseconds.
const TIMEDELTA: &str = "\0timedelta";

/// Maximum nesting of values that count as plain JSON, which readers of JSON limit to 128.
const DEPTH: usize = 100;

/// Whether [`from_json`] restores a value from [`to_json`] unchanged, also if a reader limits nesting.
pub fn is_json(value: &Value) -> bool {
    is_json_within(value, DEPTH)
}

fn is_json_within(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let is_plain_text = |text: &Value| text.as_str().is_some() && !text.is_safe();
    match value.kind() {
        ValueKind::Seq => {
            value.downcast_object_ref::<Tuple>().is_none() && items(value).all(|item| is_json_within(&item, depth))
        }
        ValueKind::Map => match value.downcast_object_ref::<IndexMap<Value, Value>>() {
            Some(map) => map.iter().all(|(key, field)| is_plain_text(key) && is_json_within(field, depth)),
            None => items(value)
                .all(|key| is_plain_text(&key) && is_json_within(&value.get_item(&key).unwrap_or_default(), depth)),
        },
        ValueKind::Number if value.is_integer() => is_short(value),
        ValueKind::Number => f64::try_from(value.clone()).is_ok_and(f64::is_finite),
        ValueKind::String => !value.is_safe(),
        ValueKind::None | ValueKind::Undefined | ValueKind::Bool => true,
        _ => false,
    }
}

/// Whether [`from_exact`] restores a value from [`to_exact`] unchanged. Only objects of this program are not.
pub fn is_exact(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => items(value).all(|item| is_exact(&item)),
        ValueKind::Map => items(value).all(|key| is_exact(&key) && is_exact(&value.get_item(&key).unwrap_or_default())),
        ValueKind::Plain => {
            value.downcast_object_ref::<DateTime>().is_some() || value.downcast_object_ref::<TimeDelta>().is_some()
        }
        ValueKind::Invalid => false,
        _ => true,
    }
}

/// Converts a value to JSON that keeps its kind and the kinds of its keys.
pub fn to_exact(value: &Value) -> Json {
    let list = || Json::Array(items(value).map(|item| to_exact(&item)).collect());
    match value.kind() {
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => marked(TUPLE, list()),
        ValueKind::Seq | ValueKind::Iterable => list(),
        ValueKind::Map => mapping(value),
        ValueKind::Number if value.is_integer() && !is_short(value) => marked(INTEGER, value.to_string().into()),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(float) if !float.is_finite() => marked(FLOAT, float.to_string().into()),
            _ => to_json(value),
        },
        ValueKind::Bytes => marked(BYTES, STANDARD.encode(value.as_bytes().unwrap_or_default()).into()),
        ValueKind::String if value.is_safe() => marked(SAFE, to_json(value)),
        ValueKind::Plain => time(value).unwrap_or_else(|| to_json(value)),
        _ => to_json(value),
    }
}

fn mapping(value: &Value) -> Json {
    let of = |key: &Value| to_exact(&value.get_item(key).unwrap_or_default());
    let is_plain = |key: Value| key.as_str().is_some_and(|name| !name.starts_with(MARK)) && !key.is_safe();
    if items(value).all(is_plain) {
        let entry = |key: Value| (key.as_str().unwrap_or_default().to_owned(), of(&key));
        return Json::Object(items(value).map(entry).collect());
    }
    marked(KEYED, items(value).map(|key| Json::Array(vec![to_exact(&key), of(&key)])).collect())
}

fn time(value: &Value) -> Option<Json> {
    if let Some(DateTime { civil, offset, day }) = value.downcast_object_ref::<DateTime>() {
        return Some(match day {
            true => marked(DATE, civil.date().to_string().into()),
            false => marked(DATETIME, json!([civil.to_string(), offset.map(Offset::seconds)])),
        });
    }
    let TimeDelta(span) = value.downcast_object_ref::<TimeDelta>()?;
    Some(marked(TIMEDELTA, json!([span.as_secs(), span.subsec_nanos()])))
}

fn marked(kind: &str, content: Json) -> Json {
    Json::Object(Map::from_iter([(kind.to_owned(), content)]))
}

/// Reads what [`to_exact`] wrote. An object of an unknown kind is the mapping that it looks like.
pub fn from_exact(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::from(items.iter().map(from_exact).collect::<Vec<_>>()),
        Json::Object(entries) => {
            let first = entries.iter().next().filter(|(kind, _)| entries.len() == 1 && kind.starts_with(MARK));
            first.and_then(|(kind, content)| of_kind(kind, content)).unwrap_or_else(|| {
                let entries = entries.iter().map(|(key, value)| (Value::from(key.as_str()), from_exact(value)));
                Value::from_object(entries.collect::<IndexMap<_, _>>())
            })
        }
        other => from_json(other),
    }
}

fn of_kind(kind: &str, content: &Json) -> Option<Value> {
    Some(match kind {
        KEYED => {
            let pair = |pair: &Json| match pair.as_array()?.as_slice() {
                [key, value] => Some((from_exact(key), from_exact(value))),
                _ => None,
            };
            Value::from_object(content.as_array()?.iter().map(pair).collect::<Option<IndexMap<_, _>>>()?)
        }
        INTEGER => {
            let digits = content.as_str()?;
            digits.parse::<i128>().map(Value::from).or_else(|_| digits.parse::<u128>().map(Value::from)).ok()?
        }
        FLOAT => Value::from(content.as_str()?.parse::<f64>().ok()?),
        BYTES => Value::from_bytes(STANDARD.decode(content.as_str()?).ok()?),
        SAFE => Value::from_safe_string(content.as_str()?.to_owned()),
        TUPLE => Value::from(Tuple::from(content.as_array()?.iter().map(from_exact).collect::<Vec<_>>())),
        DATE => {
            let civil = content.as_str()?.parse::<civil::Date>().ok()?.at(0, 0, 0, 0);
            Value::from_object(DateTime { civil, offset: None, day: true })
        }
        DATETIME => {
            let civil = content.get(0)?.as_str()?.parse().ok()?;
            let offset = match content.get(1)? {
                Json::Null => None,
                seconds => Some(Offset::from_seconds(i32::try_from(seconds.as_i64()?).ok()?).ok()?),
            };
            Value::from_object(DateTime { civil, offset, day: false })
        }
        TIMEDELTA => {
            let nanos = i32::try_from(content.get(1)?.as_i64()?).ok().filter(|nanos| nanos.abs() < 1_000_000_000)?;
            Value::from_object(TimeDelta(SignedDuration::new(content.get(0)?.as_i64()?, nanos)))
        }
        _ => return None,
    })
}

/// Whether JSON has an integer.
fn is_short(value: &Value) -> bool {
    value.as_i64().is_some() || u64::try_from(value.clone()).is_ok()
}

/// Items of a list, or keys of a mapping.
fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::python::{repr, time as times, type_name};

    /// A value after a way through text.
    fn passed(value: &Value) -> Value {
        from_exact(&serde_json::from_str(&to_exact(value).to_string()).unwrap())
    }

    fn pairs(pairs: Vec<(Value, Value)>) -> Value {
        Value::from_object(IndexMap::<Value, Value>::from_iter(pairs))
    }

    #[test]
    fn values_that_json_lacks_are_read_as_they_were() {
        let day = times::parse_yaml("2001-12-14").unwrap();
        let moment = times::parse_yaml("2001-12-14t21:59:43.10-05:00").unwrap();
        let naive = times::parse_yaml("2001-12-14 21:59:43").unwrap();
        let values = [
            Value::from(1_i128 << 70),
            Value::from(-(1_i128 << 70)),
            Value::from(f64::INFINITY),
            Value::from(f64::NEG_INFINITY),
            Value::from_bytes(vec![0, 255]),
            Value::from_safe_string("<b>".to_owned()),
            Value::from(Tuple::from(vec![Value::from(1), Value::from("a")])),
            times::subtract(&naive, &times::parse_yaml("2001-12-10 00:00:00.5").unwrap()).unwrap(),
            times::subtract(&times::parse_yaml("2001-12-10 00:00:00.5").unwrap(), &naive).unwrap(),
            day.clone(),
            moment,
            naive,
            pairs(vec![(Value::from(1), Value::from("one")), (Value::from("1"), Value::from("text"))]),
            pairs(vec![(day, Value::from(1)), (Value::from(()), Value::from(2)), (Value::from(2.5), Value::from(3))]),
            pairs(vec![(Value::from("\0keyed"), Value::from(Vec::<Value>::new()))]),
            pairs(vec![(Value::from("\0bytes"), Value::from("AA=="))]),
        ];
        for value in &values {
            assert!(is_exact(value) && !is_json(value) || value.kind() == ValueKind::Map, "{value:?}");
            let nested = Value::from(vec![pairs(vec![(Value::from("a"), value.clone())])]);
            for value in [value, &nested] {
                let read = passed(value);
                assert_eq!((repr(&read), type_name(&read)), (repr(value), type_name(value)));
                assert_eq!(&read, value);
                assert_eq!(read.is_safe(), value.is_safe());
            }
        }
        assert!(f64::try_from(passed(&Value::from(f64::NAN))).unwrap().is_nan());
    }

    #[test]
    fn json_stands_for_itself() {
        let source = json!({"a": [1, -2, 2.5, true, null, "x"], "b": {"c": {}}, "d": u64::MAX, "e": "\u{0}keyed"});
        let value = from_json(&source);
        assert!(is_json(&value) && is_exact(&value));
        assert_eq!(to_exact(&value), source);
        assert_eq!(from_exact(&source), value);
    }

    #[test]
    fn object_of_an_unknown_kind_is_a_mapping() {
        for source in [json!({"\u{0}other": 1}), json!({"\u{0}bytes": "?"}), json!({"\u{0}bytes": "AA==", "a": 1})] {
            assert_eq!(from_exact(&source), from_json(&source));
        }
    }

    #[test]
    fn deep_value_is_not_plain_json() {
        let deep = (0..DEPTH).fold(Value::from(1), |value, _| Value::from(vec![value]));
        assert!(!is_json(&deep) && is_exact(&deep));
        assert!(is_json(&deep.get_item_by_index(0).unwrap()));
    }
}
