//! Attributes of items in the syntax of Jinja's filters: `a.b.0`.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{is_dict, step};
use crate::{Error, ErrorKind, mark, operators, python};

/// Attribute of a value; undefined if missing.
pub(crate) fn get(value: &Value, attribute: &Value) -> Value {
    get_or(value, attribute, None)
}

/// Attribute of a value, or the default if a step is missing.
pub(crate) fn get_or(value: &Value, attribute: &Value, default: Option<&Value>) -> Value {
    let Some(path) = attribute.as_str() else {
        return step(value, attribute).or_else(|| default.cloned()).unwrap_or_else(|| absent(value, attribute));
    };
    let mut current = value.clone();
    for part in path.split('.') {
        let key = match part.parse::<i64>() {
            Ok(index) if part.bytes().all(|digit| digit.is_ascii_digit()) => Value::from(index),
            _ => Value::from(part),
        };
        current = match step(&current, &key) {
            Some(found) => found,
            None => match default {
                Some(default) => default.clone(),
                None => return absent(&current, &key),
            },
        };
    }
    current
}

/// Creates the undefined value for a missing key.
pub(crate) fn absent(value: &Value, key: &Value) -> Value {
    match key.as_str() {
        Some(name) => operators::attribute(value, name),
        None => {
            let (shown, of) = (python::text(key), python::type_name(value));
            let message = format!("An object of type '{of}' has no item {shown}.");
            mark::missing_of(value, key, shown, message, None)
        }
    }
}

/// Error of using an undefined value.
pub(crate) fn missing(value: &Value) -> minijinja::Error {
    match mark::mark(value) {
        Some(mark) => mark.error().into(),
        None => Error::new(ErrorKind::Undefined { name: String::new() }, "A value that is needed is undefined.").into(),
    }
}

/// Jinja's `attr`: like a dot, but never a key of a dictionary.
pub(super) fn attr(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let name = args.need("name")?;
    let found = if is_dict(args.value()) { None } else { step(args.value(), name) };
    Ok(found.unwrap_or_else(|| absent(args.value(), name)))
}
