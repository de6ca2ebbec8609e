//! Compares requested values with existing ones.

use serde_json::Value;

/// Strictness of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Ignore,
    /// Nothing else may exist.
    Strict,
    /// More may exist.
    Subset,
}

/// Shape of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Value,
    /// A list in which order matters.
    List,
    Set,
    /// A set of mappings, each of which may have additional keys.
    Maps,
    Map,
}

/// Whether the existing value satisfies the requested one.
pub(super) fn matches(wanted: &Value, there: &Value, strictness: Strictness, shape: Shape) -> bool {
    if strictness == Strictness::Ignore {
        return true;
    }
    if wanted.is_null() || there.is_null() {
        let subset = strictness == Strictness::Subset && wanted.is_null();
        return wanted == there || (shape != Shape::Value && (subset || (is_empty(wanted) && is_empty(there))));
    }
    let strict = strictness == Strictness::Strict;
    match shape {
        Shape::Value => same(wanted, there),
        Shape::List if strict => wanted == there,
        Shape::List => {
            let mut rest = items(there).into_iter();
            items(wanted).into_iter().all(|item| rest.any(|other| same(&item, &other)))
        }
        Shape::Map if strict => wanted == there,
        Shape::Map => has_all(wanted, there),
        Shape::Set => {
            let (wanted, there) = (items(wanted), items(there));
            wanted.iter().all(|item| there.contains(item))
                && (!strict || there.iter().all(|item| wanted.contains(item)))
        }
        Shape::Maps => {
            let (wanted, there) = (items(wanted), items(there));
            let found = wanted.iter().all(|item| there.iter().any(|other| has_all(item, other)));
            found && (!strict || there.iter().all(|other| wanted.iter().any(|item| has_all(item, other))))
        }
    }
}

/// Compares numbers by value, not by notation.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn has_all(wanted: &Value, there: &Value) -> bool {
    let (Some(wanted), Some(there)) = (wanted.as_object(), there.as_object()) else { return wanted == there };
    wanted.iter().all(|(key, value)| there.get(key).is_some_and(|other| same(value, other)))
}

/// The members of a list, or the entries of a mapping as a set.
pub(super) fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(map) => map.keys().map(|key| Value::from(key.as_str())).collect(),
        _ => Vec::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        value => value.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Shape::*, Strictness::*, *};

    #[test]
    fn values_compared_by_strictness_and_shape() {
        assert!(matches(&json!(1), &json!(1.0), Strict, Shape::Value));
        assert!(!matches(&json!(null), &json!(""), Strict, Shape::Value));
        assert!(matches(&json!(["a", "c"]), &json!(["a", "b", "c"]), Subset, List));
        assert!(!matches(&json!(["c", "a"]), &json!(["a", "b", "c"]), Subset, List));
        assert!(matches(&json!(["c", "a"]), &json!(["a", "c"]), Strict, Set));
        assert!(!matches(&json!(["a"]), &json!(["a", "c"]), Strict, Set));
        assert!(matches(&json!(["a"]), &json!({"a": {}, "c": {}}), Subset, Set));
        assert!(matches(&json!([{"a": 1}]), &json!([{"a": 1, "b": 2}]), Strict, Maps));
        assert!(!matches(&json!([{"a": 1}]), &json!([{"a": 1}, {"a": 2}]), Strict, Maps));
        assert!(matches(&json!({}), &json!(null), Strict, Map));
        assert!(!matches(&json!({"a": 1}), &json!(null), Subset, Map));
        assert!(matches(&json!({"a": 1}), &json!({"a": 2}), Ignore, Map));
    }
}
