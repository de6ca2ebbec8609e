//! Jinja's tests.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{State, Value};

use crate::filters::call::{Arguments, Verdict};
use crate::plugins::PluginKind;
use crate::python::container::{is_dict, is_list};
use crate::python::number::{as_float, to_int};
use crate::python::order;
use crate::registry::is_built_in;

pub(super) fn boolean(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().kind() == ValueKind::Bool)
}

pub(super) fn callable(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    // Functions and macros are the only values of this kind.
    Ok(args.value().kind() == ValueKind::Plain && !crate::is_omit(args.value()))
}

pub(super) fn defined(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(!crate::is_undefined(args.value()))
}

pub(super) fn undefined(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(crate::is_undefined(args.value()))
}

/// Whether the value, which must be a number, has this remainder when divided.
fn leaves(args: &Arguments, divisor: &Value, remainder: i128) -> Verdict {
    let exact =
        |value: &Value| (value.is_integer() || value.kind() == ValueKind::Bool).then(|| to_int(value)).flatten();
    match (exact(args.value()), exact(divisor)) {
        (Some(_), Some(0)) => Err(args.failed("a number cannot be divided by 0")),
        (Some(number), Some(divisor)) => Ok(number.rem_euclid(divisor) == remainder),
        _ => match (as_float(args.value()), as_float(divisor)) {
            (None, _) => Err(args.unsuitable("a number")),
            (_, None) => Err(args.wrong("num", "a number", divisor)),
            (_, Some(0.0)) => Err(args.failed("a number cannot be divided by 0")),
            (Some(number), Some(divisor)) => Ok(number.rem_euclid(divisor) == remainder as f64),
        },
    }
}

pub(super) fn divisibleby(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    leaves(args, args.need("num")?, 0)
}

pub(super) fn even(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    leaves(args, &Value::from(2), 0)
}

pub(super) fn odd(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    leaves(args, &Value::from(2), 1)
}

pub(super) fn eq(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value() == args.need("other")?)
}

pub(super) fn ne(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value() != args.need("other")?)
}

fn compared(args: &Arguments) -> Result<Ordering, minijinja::Error> {
    order::compare(args.value(), args.need("other")?).map_err(|reason| args.failed(reason))
}

pub(super) fn ge(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(compared(args)?.is_ge())
}

pub(super) fn gt(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(compared(args)?.is_gt())
}

pub(super) fn le(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(compared(args)?.is_le())
}

pub(super) fn lt(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(compared(args)?.is_lt())
}

/// Strings are never marked as HTML here.
pub(super) fn escaped(_: &mut State<'_, '_>, _: &Arguments) -> Verdict {
    Ok(false)
}

pub(super) fn is_false(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().kind() == ValueKind::Bool && !args.value().is_true())
}

pub(super) fn is_true(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().kind() == ValueKind::Bool && args.value().is_true())
}

pub(super) fn filter_exists(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(is_built_in(state, PluginKind::Filter, &args.text()))
}

pub(super) fn test_exists(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(is_built_in(state, PluginKind::Test, &args.text()))
}

pub(super) fn float(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().kind() == ValueKind::Number && !args.value().is_integer())
}

pub(super) fn integer(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().kind() == ValueKind::Number && args.value().is_integer())
}

pub(super) fn number(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(matches!(args.value().kind(), ValueKind::Number | ValueKind::Bool))
}

pub(super) fn is_in(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let container = args.need("seq")?;
    contains(container, args.value()).ok_or_else(|| args.wrong("seq", "text, a list or a dictionary", container))
}

/// `value in container`; `None` if the container cannot contain anything.
pub(super) fn contains(container: &Value, value: &Value) -> Option<bool> {
    if let Some(text) = container.as_str() {
        return value.as_str().map(|part| text.contains(part));
    }
    if is_dict(container) {
        return Some(container.try_iter().ok()?.any(|key| key == *value));
    }
    is_list(container).then(|| container.try_iter().is_ok_and(|mut items| items.any(|item| item == *value)))
}

pub(super) fn iterable(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().as_str().is_some() || is_list(args.value()) || is_dict(args.value()))
}

pub(super) fn sequence(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    iterable(state, args)
}

fn cased(text: &str) -> bool {
    text.chars().any(|character| character.is_lowercase() || character.is_uppercase())
}

pub(super) fn lower(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let text = args.text();
    Ok(cased(&text) && !text.chars().any(char::is_uppercase))
}

pub(super) fn upper(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let text = args.text();
    Ok(cased(&text) && !text.chars().any(char::is_lowercase))
}

pub(super) fn mapping(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(is_dict(args.value()))
}

pub(super) fn none(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().is_none())
}

/// Python's `is`. For values in templates, that means the same type and an equal value.
pub(super) fn sameas(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let other = args.need("other")?;
    Ok(crate::type_name(args.value()) == crate::type_name(other) && args.value() == other)
}

pub(super) fn string(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.value().as_str().is_some())
}
