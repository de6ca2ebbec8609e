//! Attributes, subscripts, slices and iteration.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::arithmetic::integer;
use crate::error::Error;
use crate::limits;
use crate::mark::{self, check, mark};
use crate::methods;
use crate::python::{number, repr, text, type_name};
use crate::suggest::closest;

/// `object.name`: the value of that key.
pub(super) fn attribute(object: &Value, name: &Value, path: Option<&str>) -> Value {
    let name = name.as_str().unwrap_or_default();
    if mark(object).is_some() {
        return object.clone();
    }
    if let Some(handle) = object.as_object()
        && let Some(value) = handle.get_value_by_str(name)
    {
        return mark::valid(value);
    }
    if let Some(value) = methods::attribute(object, name) {
        return value;
    }
    missing(object, &Value::from(name), path)
}

/// `object[key]`.
pub(super) fn item(object: &Value, key: &Value, path: Option<&str>) -> Result<Value, Error> {
    if mark(object).is_some() {
        return Ok(object.clone());
    }
    check(key)?;
    if let Some(string) = object.as_str() {
        let found = integer(key).and_then(|index| {
            let length = string.chars().count();
            string.chars().nth(offset(index, length)?)
        });
        return Ok(found.map_or_else(|| missing(object, key, path), Value::from));
    }
    let found = match object.kind() {
        ValueKind::Seq | ValueKind::Iterable => match integer(key) {
            Some(index) => match object.len() {
                Some(length) => offset(index, length).and_then(|index| match object.kind() {
                    ValueKind::Seq => object.get_item_by_index(index).ok(),
                    _ => object.try_iter().ok()?.nth(index),
                }),
                None => object.try_iter()?.nth(usize::try_from(index).unwrap_or(usize::MAX)),
            },
            None => None,
        },
        ValueKind::Map => object.as_object().and_then(|handle| match key.as_str() {
            Some(name) => handle.get_value_by_str(name),
            None => handle.get_value(key),
        }),
        _ => object.as_object().and_then(|handle| handle.get_value(key)),
    };
    Ok(found.map(mark::valid).filter(|value| !value.is_undefined()).unwrap_or_else(|| missing(object, key, path)))
}

fn offset(index: i128, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i128 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// Creates the undefined value for a missing key.
fn missing(object: &Value, key: &Value, path: Option<&str>) -> Value {
    if object.is_undefined() {
        return mark::undefined(path.map_or_else(|| text(key), str::to_owned));
    }
    let shown = repr(key);
    let name = path.map_or_else(|| text(key), str::to_owned);
    let message = match path {
        Some(path) => {
            format!("'{path}' is undefined: object of type '{}' has no attribute {shown}.", type_name(object))
        }
        None => format!("An object of type '{}' has no attribute {shown}.", type_name(object)),
    };
    let hint = match (object.kind(), key.as_str()) {
        (ValueKind::Map, Some(wanted)) => object.try_iter().ok().and_then(|keys| {
            let keys: Vec<Value> = keys.collect();
            closest(wanted, keys.iter().filter_map(Value::as_str))
        }),
        _ => None,
    };
    mark::missing_of(object, key, name, message, hint)
}

/// `object[start:stop:step]`.
pub(super) fn slice(object: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    if mark(object).is_some() {
        return Ok(object.clone());
    }
    let bound = |value: &Value| -> Result<Option<i128>, Error> {
        check(value)?;
        match integer(value) {
            Some(index) => Ok(Some(index)),
            None if value.is_none() => Ok(None),
            None => Err(Error::filter(format!(
                "The bounds of a slice are integers, not values of type '{}'.",
                type_name(value)
            ))),
        }
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::filter("The step of a slice cannot be zero."));
    }
    if let Some(string) = object.as_str() {
        let characters: Vec<char> = string.chars().collect();
        let sliced: String =
            indices(start, stop, step, characters.len()).filter_map(|index| characters.get(index)).collect();
        return Ok(Value::from(sliced));
    }
    if !matches!(object.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(Error::filter(format!("A value of type '{}' cannot be sliced.", type_name(object))));
    }
    let items: Vec<Value> = object.try_iter()?.collect();
    let sliced: Vec<Value> =
        indices(start, stop, step, items.len()).filter_map(|index| items.get(index).cloned()).collect();
    Ok(if object.is_tuple() { Value::from(Tuple::from(sliced)) } else { Value::from(sliced) })
}

/// Indices of a slice, as from Python's `slice.indices`.
fn indices(start: Option<i128>, stop: Option<i128>, step: i128, length: usize) -> impl Iterator<Item = usize> {
    let length = length as i128;
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: Option<i128>, default: i128| match bound {
        None => default,
        Some(bound) if bound < 0 => (bound + length).max(low),
        Some(bound) => bound.min(high),
    };
    let (first, end) =
        if step > 0 { (clamp(start, low), clamp(stop, high)) } else { (clamp(start, high), clamp(stop, low)) };
    let mut current = first;
    std::iter::from_fn(move || {
        let more = if step > 0 { current < end } else { current > end };
        let index = usize::try_from(current).ok().filter(|_| more)?;
        current += step;
        Some(index)
    })
}

/// Items that a `for` loop iterates over.
pub(super) fn iterate(object: &Value) -> Result<Value, Error> {
    limits::time()?;
    check(object)?;
    match object.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::String => Ok(object.clone()),
        ValueKind::Bytes => Ok(Value::from(
            object
                .as_bytes()
                .unwrap_or_default()
                .iter()
                .map(|byte| number::integer(i128::from(*byte)))
                .collect::<Vec<_>>(),
        )),
        _ if object.try_iter().is_ok() && !object.is_none() => Ok(object.clone()),
        _ => Err(Error::filter(format!("A value of type '{}' cannot be iterated over.", type_name(object)))),
    }
}
