//! Lists, tuples and dictionaries: Python's rules for their kind, their items and subscripts, and their construction.

use minijinja::Value;
use minijinja::value::ValueKind;

/// Whether the value is a list, a tuple or another iterable.
pub(crate) fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Whether the value is a dictionary.
pub(crate) fn is_dict(value: &Value) -> bool {
    value.kind() == ValueKind::Map
}

/// `value[key]`; `None` if the item does not exist.
pub(crate) fn step(value: &Value, key: &Value) -> Option<Value> {
    let found = match (key.as_i64(), value.len()) {
        (Some(index), Some(length)) if index < 0 && is_list(value) => {
            let index = usize::try_from(index + i64::try_from(length).ok()?).ok()?;
            value.get_item_by_index(index)
        }
        _ => value.get_item(key),
    };
    found.ok().filter(|found| !found.is_undefined())
}

/// Items of Python's `for`: items, keys or characters.
pub(crate) fn items(value: &Value) -> Option<Vec<Value>> {
    match value.kind() {
        ValueKind::String => {
            Some(value.as_str()?.chars().map(|character| Value::from(character.to_string())).collect())
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => Some(value.try_iter().ok()?.collect()),
        _ => None,
    }
}

/// Keys and values of a dictionary.
pub(crate) fn pairs(value: &Value) -> Option<Vec<(Value, Value)>> {
    if !is_dict(value) {
        return None;
    }
    let keys = value.try_iter().ok()?;
    Some(keys.map(|key| (key.clone(), value.get_item(&key).unwrap_or_default())).collect())
}

/// Creates a list value.
pub(crate) fn list(items: Vec<Value>) -> Value {
    Value::from(items)
}

/// Creates a tuple value.
pub(crate) fn tuple(items: Vec<Value>) -> Value {
    Value::from(minijinja::value::Tuple::new(items))
}

/// Creates a dictionary value; the last of equal keys wins.
pub(crate) fn dict(pairs: impl IntoIterator<Item = (Value, Value)>) -> Value {
    Value::from_pairs(pairs)
}
