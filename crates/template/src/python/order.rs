//! Python's ordering, equality and hashing of values.

use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::{number, type_name};

/// Compares as `left < right` does: numbers with numbers, text with text, lists item by item. Other types have no
/// order, and the error says so.
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

/// Sorts as `sorted()` does: stably, with an error for values without an order.
pub(crate) fn sort<T: Clone>(items: &mut [T], key: impl Fn(&T) -> &Value) -> Result<(), String> {
    sort_reversible(items, false, key)
}

/// Like [`sort`], in descending order if `reverse` is set, as Python's argument of that name.
pub(crate) fn sort_reversible<T: Clone>(
    items: &mut [T],
    reverse: bool,
    key: impl Fn(&T) -> &Value,
) -> Result<(), String> {
    sort_by(items, |left, right| {
        let ordering = compare(key(left), key(right))?;
        Ok(if reverse { ordering.reverse() } else { ordering })
    })
}

/// Sorts stably by an order that may fail or be inconsistent, as for versions and NaN; `slice::sort_by` may panic then.
pub(crate) fn sort_by<T: Clone>(
    items: &mut [T],
    mut compare: impl FnMut(&T, &T) -> Result<Ordering, String>,
) -> Result<(), String> {
    let mut runs: Vec<Vec<T>> = items.iter().map(|item| vec![item.clone()]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, &mut compare)?,
                None => left,
            });
        }
        runs = merged;
    }
    items.iter_mut().zip(runs.into_iter().flatten()).for_each(|(place, item)| *place = item);
    Ok(())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering, String>,
) -> Result<Vec<T>, String> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let next = if compare(one, other)? == Ordering::Greater { &mut right } else { &mut left };
        merged.extend(next.next());
    }
    merged.extend(left.chain(right));
    Ok(merged)
}

/// Value to hash instead of this one: in Python, `True` and `1` are the same key.
pub(crate) fn hash_key(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        _ => value.clone(),
    }
}

/// Lowercases text and keeps other values, for Jinja's case-insensitive comparisons.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_order_sorted_without_panic() {
        let mut numbers: Vec<Value> = (0..500)
            .map(|at| if at % 3 == 0 { f64::NAN } else { f64::from(at * 7919 % 500) })
            .map(Value::from)
            .collect();
        sort(&mut numbers, |value| value).unwrap();
        let mut mixed: Vec<Value> =
            (0..500).map(|at| if at % 7 == 0 { Value::from(at) } else { Value::from(format!("{at}")) }).collect();
        assert!(sort(&mut mixed, |value| value).is_err());
        let mut any: Vec<i32> = (0..500).collect();
        sort_by(&mut any, |left, right| Ok(if (left ^ right) & 1 == 0 { Ordering::Less } else { Ordering::Greater }))
            .unwrap();
        assert_eq!(any.len(), 500);
    }

    #[test]
    fn equal_values_keep_their_order() {
        let mut pairs: Vec<(Value, i32)> = (0..100).map(|at| (Value::from(at % 3), at)).collect();
        sort(&mut pairs, |(key, _)| key).unwrap();
        assert!(pairs.windows(2).all(|two| two[0].0 != two[1].0 || two[0].1 < two[1].1));
        assert!(pairs.windows(2).all(|two| compare(&two[0].0, &two[1].0).unwrap() != Ordering::Greater));
    }
}
