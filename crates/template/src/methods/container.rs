//! Methods of list, tuple, dict, numbers and bytes.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::Arguments;
use crate::error::Error;
use crate::mark;
use crate::mutable::{MutableDict, MutableList};
use crate::operators::equal;
use crate::python::{number, order, repr};

/// Calls a method of a list or tuple; `None` if it does not exist.
pub(super) fn list(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let items = || -> Result<Vec<Value>, Error> { Ok(value.try_iter()?.collect()) };
    let result = match name {
        "index" => {
            let [wanted] = arguments.bind(["value"], 1)?;
            let wanted = wanted.unwrap_or_default();
            for (index, item) in items()?.iter().enumerate() {
                if equal(item, &wanted)? {
                    return Ok(Some(Value::from(index)));
                }
            }
            return Err(arguments.error(&format!("does not find {} in the list", repr(&wanted))));
        }
        "count" => {
            let [wanted] = arguments.bind(["value"], 1)?;
            let wanted = wanted.unwrap_or_default();
            let mut count = 0;
            for item in items()? {
                count += usize::from(equal(&item, &wanted)?);
            }
            Value::from(count)
        }
        "copy" => MutableList::value(items()?),
        _ => return change_list(value, name, arguments),
    };
    Ok(Some(result))
}

fn change_list(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    if !matches!(name, "append" | "extend" | "insert" | "remove" | "pop" | "clear" | "sort" | "reverse")
        || value.is_tuple()
    {
        return Ok(None);
    }
    let Some(list) = value.downcast_object_ref::<MutableList>() else {
        return Err(arguments.error("cannot change this list: it is not one of the template's own"));
    };
    let none = Value::from(());
    let result = match name {
        "append" => {
            let [item] = arguments.bind(["object"], 1)?;
            list.with(|items| items.push(item.unwrap_or_default()));
            none
        }
        "extend" => {
            let [more] = arguments.bind(["iterable"], 1)?;
            let more: Vec<Value> = more.unwrap_or_default().try_iter()?.collect();
            list.with(|items| items.extend(more));
            none
        }
        "insert" => {
            let [index, item] = arguments.bind(["index", "object"], 2)?;
            let index = arguments.integer_or(index.as_ref(), 0)?;
            list.with(|items| {
                let length = items.len() as i128;
                let index = if index < 0 { index + length } else { index }.clamp(0, length);
                items.insert(usize::try_from(index).unwrap_or_default(), item.unwrap_or_default());
            });
            none
        }
        "remove" => {
            let [wanted] = arguments.bind(["value"], 1)?;
            let wanted = wanted.unwrap_or_default();
            let found = list.with(|items| {
                let position = items.iter().position(|item| equal(item, &wanted).unwrap_or(false));
                position.map(|position| items.remove(position)).is_some()
            });
            if !found {
                return Err(arguments.error(&format!("does not find {} in the list", repr(&wanted))));
            }
            none
        }
        "pop" => {
            let [index] = arguments.bind(["index"], 0)?;
            let index = arguments.integer_or(index.as_ref(), -1)?;
            let popped = list.with(|items| {
                let length = items.len() as i128;
                let index = if index < 0 { index + length } else { index };
                usize::try_from(index).ok().filter(|index| *index < items.len()).map(|index| items.remove(index))
            });
            popped.ok_or_else(|| arguments.error("finds nothing at that place of the list"))?
        }
        "clear" => {
            arguments.none()?;
            list.with(Vec::clear);
            none
        }
        "reverse" => {
            arguments.none()?;
            list.with(|items| items.reverse());
            none
        }
        _ => {
            let [key, reverse] = arguments.bind(["key", "reverse"], 0)?;
            if key.is_some_and(|key| !key.is_none()) {
                return Err(arguments.error("has no argument 'key' here"));
            }
            let reverse = reverse.is_some_and(|reverse| reverse.is_true());
            list.with(|items| order::sort_reversible(items, reverse, |item| item))
                .map_err(|sentence| arguments.error(&sentence))?;
            none
        }
    };
    Ok(Some(result))
}

/// Calls a method of a dict; `None` if it does not exist.
pub(super) fn dict(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let keys = || -> Result<Vec<Value>, Error> { Ok(value.try_iter()?.collect()) };
    let get = |key: &Value| value.as_object().and_then(|object| object.get_value(key)).map(mark::valid);
    let result = match name {
        "keys" => {
            arguments.none()?;
            Value::from(keys()?)
        }
        "values" => {
            arguments.none()?;
            keys()?.iter().filter_map(get).collect()
        }
        "items" => {
            arguments.none()?;
            keys()?
                .into_iter()
                .filter_map(|key| get(&key).map(|value| Value::from(Tuple::from([key, value]))))
                .collect()
        }
        "get" => {
            let [key, default] = arguments.bind(["key", "default"], 1)?;
            get(&key.unwrap_or_default()).or(default).unwrap_or(Value::from(()))
        }
        "copy" => MutableDict::value(keys()?.into_iter().filter_map(|key| get(&key).map(|value| (key, value)))),
        _ => return change_dict(value, name, arguments),
    };
    Ok(Some(result))
}

fn change_dict(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    if !matches!(name, "update" | "pop" | "popitem" | "setdefault" | "clear" | "__setitem__" | "__delitem__") {
        return Ok(None);
    }
    let Some(dict) = value.downcast_object_ref::<MutableDict>() else {
        return Err(arguments.error("cannot change this dict: it is not one of the template's own"));
    };
    let none = Value::from(());
    let result = match name {
        "update" => {
            let mut entries = Vec::new();
            if let [other, ..] = arguments.positional.as_slice() {
                entries = pairs(other, arguments)?;
            }
            entries.extend(arguments.named.iter().map(|(name, value)| (Value::from(name.as_str()), value.clone())));
            dict.with(|map| map.extend(entries));
            none
        }
        "pop" => {
            let [key, default] = arguments.bind(["key", "default"], 1)?;
            let key = key.unwrap_or_default();
            match dict.with(|map| map.shift_remove(&key)).or(default) {
                Some(value) => value,
                None => return Err(arguments.error(&format!("does not find the key {}", repr(&key)))),
            }
        }
        "popitem" => {
            arguments.none()?;
            match dict.with(indexmap::IndexMap::pop) {
                Some((key, value)) => Value::from(Tuple::from([key, value])),
                None => return Err(arguments.error("finds nothing in the dict")),
            }
        }
        "setdefault" => {
            let [key, default] = arguments.bind(["key", "default"], 1)?;
            dict.with(|map| map.entry(key.unwrap_or_default()).or_insert_with(|| default.unwrap_or(none)).clone())
        }
        "clear" => {
            arguments.none()?;
            dict.with(indexmap::IndexMap::clear);
            none
        }
        "__setitem__" => {
            let [key, value] = arguments.bind(["key", "value"], 2)?;
            dict.with(|map| map.insert(key.unwrap_or_default(), value.unwrap_or_default()));
            none
        }
        _ => {
            let [key] = arguments.bind(["key"], 1)?;
            dict.with(|map| map.shift_remove(&key.unwrap_or_default()));
            none
        }
    };
    Ok(Some(result))
}

/// Entries of a dict, or of a list of pairs.
fn pairs(value: &Value, arguments: &Arguments<'_>) -> Result<Vec<(Value, Value)>, Error> {
    let mut entries = Vec::new();
    if value.kind() == ValueKind::Map {
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            entries.push((key, item));
        }
        return Ok(entries);
    }
    for pair in value.try_iter()? {
        let items: Vec<Value> = pair.try_iter()?.collect();
        let [key, value] = items.as_slice() else {
            return Err(arguments.error("takes a dict or a list of pairs"));
        };
        entries.push((key.clone(), value.clone()));
    }
    Ok(entries)
}

/// Calls a method of a number; `None` if it does not exist.
pub(super) fn number(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let integer = i128::try_from(value.clone()).ok();
    let operand = || -> Result<i128, Error> {
        let [other] = arguments.bind(["other"], 1)?;
        arguments.integer_or(other.as_ref(), 0)
    };
    Ok(match (name, integer) {
        ("is_integer", _) => Some(Value::from(number::as_float(value).is_some_and(|number| number.fract() == 0.0))),
        ("bit_length", Some(integer)) => Some(Value::from(128 - integer.unsigned_abs().leading_zeros())),
        ("__and__", Some(integer)) => Some(number::integer(integer & operand()?)),
        ("__or__", Some(integer)) => Some(number::integer(integer | operand()?)),
        ("__xor__", Some(integer)) => Some(number::integer(integer ^ operand()?)),
        ("__lshift__", Some(integer)) => {
            let places = u32::try_from(operand()?).unwrap_or(u32::MAX);
            let shifted = integer.checked_mul(2_i128.checked_pow(places).unwrap_or(0));
            Some(shifted.map(number::integer).ok_or_else(|| arguments.error("shifts too far"))?)
        }
        ("__rshift__", Some(integer)) => {
            let places = u32::try_from(operand()?).unwrap_or(u32::MAX);
            Some(number::integer(integer.checked_shr(places).unwrap_or(if integer < 0 { -1 } else { 0 })))
        }
        _ => None,
    })
}

/// Calls a method of bytes; `None` if it does not exist.
pub(super) fn bytes(value: &Value, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let content = value.as_bytes().unwrap_or_default();
    match name {
        "decode" => match std::str::from_utf8(content) {
            Ok(text) => Ok(Some(Value::from(text))),
            Err(_) => Err(arguments.error("can only decode UTF-8")),
        },
        "hex" => Ok(Some(Value::from(hex::encode(content)))),
        _ => Ok(None),
    }
}
