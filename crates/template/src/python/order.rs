//! Python's ordering, equality and hashing of values.

use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::{number, type_name};

/// `left < right` and its relatives: numbers with numbers, text with text, lists item by item; anything else has no
/// order, and the answer is the sentence that says so.
pub(crate) fn compare(left: &Value, right: &Value) -> Result<Ordering, String> {
    let numeric = |value: &Value| matches!(value.kind(), ValueKind::Bool | ValueKind::Number);
    if numeric(left) && numeric(right) {
        return compare_numbers(left, right);
    }
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return Ok(left.cmp(right));
    }
    let listed = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    if listed(left) && listed(right) && left.is_tuple() == right.is_tuple() {
        let mut left = left.try_iter().into_iter().flatten();
        let mut right = right.try_iter().into_iter().flatten();
        loop {
            match (left.next(), right.next()) {
                (None, None) => return Ok(Ordering::Equal),
                (None, Some(_)) => return Ok(Ordering::Less),
                (Some(_), None) => return Ok(Ordering::Greater),
                (Some(one), Some(other)) if one == other => {}
                (Some(one), Some(other)) => return compare(&one, &other),
            }
        }
    }
    if let Some(ordering) = super::time::compare(left, right) {
        return Ok(ordering);
    }
    Err(format!("a value of type {} and one of type {} have no order", type_name(left), type_name(right)))
}

/// Sorts as `sorted()` does: stable, and an error where two values have no order.
pub(crate) fn sort<T>(items: &mut [T], reverse: bool, key: impl Fn(&T) -> &Value) -> Result<(), String> {
    let mut failure = None;
    items.sort_by(|left, right| {
        let (left, right) = (key(left), key(right));
        let ordering = compare(left, right).unwrap_or_else(|sentence| {
            failure.get_or_insert(sentence);
            Ordering::Equal
        });
        if reverse { ordering.reverse() } else { ordering }
    });
    match failure {
        Some(sentence) => Err(sentence),
        None => Ok(()),
    }
}

/// The value to hash in place of this one: Python calls `True` and `1` the same key.
pub(crate) fn hash_key(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        _ => value.clone(),
    }
}

/// Text in lower case, anything else as it is: how Jinja compares when case does not count.
pub(crate) fn ignore_case(value: &Value) -> Value {
    match value.as_str() {
        Some(text) => Value::from(text.to_lowercase()),
        None => value.clone(),
    }
}

fn compare_numbers(left: &Value, right: &Value) -> Result<Ordering, String> {
    if let (Ok(left), Ok(right)) = (i128::try_from(left.clone()), i128::try_from(right.clone())) {
        return Ok(left.cmp(&right));
    }
    let (Some(left), Some(right)) = (number::as_float(left), number::as_float(right)) else {
        return Ok(left.cmp(right));
    };
    Ok(left.partial_cmp(&right).unwrap_or(Ordering::Equal))
}
