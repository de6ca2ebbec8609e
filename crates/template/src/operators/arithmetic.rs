//! `+ - * / // % **` for numbers, texts and lists.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::unsupported;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::python::{number, percent, time};

enum Pair {
    Integers(i128, i128),
    Floats(f64, f64),
}

fn numbers(left: &Value, right: &Value) -> Option<Pair> {
    let numeric = |value: &Value| matches!(value.kind(), ValueKind::Bool | ValueKind::Number);
    if !numeric(left) || !numeric(right) {
        return None;
    }
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(Pair::Integers(left, right)),
        _ => Some(Pair::Floats(number::as_float(left)?, number::as_float(right)?)),
    }
}

/// The value as an integer. As in Python, booleans are numbers.
pub(super) fn integer(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn too_large() -> Error {
    Error::filter("The result of the calculation is too large.")
}

fn by_zero() -> Error {
    Error::new(ErrorKind::Division, "Division by zero is not possible.")
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

pub(super) fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    match numbers(left, right) {
        Some(Pair::Integers(left, right)) => {
            return left.checked_add(right).map(number::integer).ok_or_else(too_large);
        }
        Some(Pair::Floats(left, right)) => return Ok(Value::from(left + right)),
        None => {}
    }
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        limits::text(left.len() + right.len())?;
        return Ok(Value::from([left, right].concat()));
    }
    if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
        limits::list(left.len().unwrap_or_default() + right.len().unwrap_or_default())?;
        let items: Vec<Value> = left.try_iter()?.chain(right.try_iter()?).collect();
        return Ok(if left.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) });
    }
    time::add(left, right).ok_or_else(|| unsupported("+", left, right))
}

pub(super) fn subtract(left: &Value, right: &Value) -> Result<Value, Error> {
    match numbers(left, right) {
        Some(Pair::Integers(left, right)) => left.checked_sub(right).map(number::integer).ok_or_else(too_large),
        Some(Pair::Floats(left, right)) => Ok(Value::from(left - right)),
        None => time::subtract(left, right).ok_or_else(|| unsupported("-", left, right)),
    }
}

pub(super) fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    match numbers(left, right) {
        Some(Pair::Integers(left, right)) => {
            return left.checked_mul(right).map(number::integer).ok_or_else(too_large);
        }
        Some(Pair::Floats(left, right)) => return Ok(Value::from(left * right)),
        None => {}
    }
    let (repeated, count) = match (integer(left), integer(right)) {
        (None, Some(count)) => (left, count),
        (Some(count), None) => (right, count),
        _ => return Err(unsupported("*", left, right)),
    };
    let count = usize::try_from(count.max(0)).map_err(|_| too_large())?;
    if let Some(text) = repeated.as_str() {
        limits::text(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    if !is_list(repeated) {
        return Err(unsupported("*", left, right));
    }
    let items: Vec<Value> = repeated.try_iter()?.collect();
    limits::list(items.len().saturating_mul(count))?;
    // Repeating an empty list yields an empty list, so the count does not matter.
    let count = if items.is_empty() { 0 } else { count };
    let many: Vec<Value> = std::iter::repeat_n(items, count).flatten().collect();
    Ok(if repeated.is_tuple() { Value::from(Tuple::from(many)) } else { Value::from(many) })
}

pub(super) fn divide(left: &Value, right: &Value) -> Result<Value, Error> {
    let (left, right) = match numbers(left, right) {
        Some(Pair::Integers(left, right)) => (left as f64, right as f64),
        Some(Pair::Floats(left, right)) => (left, right),
        None => return Err(unsupported("/", left, right)),
    };
    if right == 0.0 { Err(by_zero()) } else { Ok(Value::from(left / right)) }
}

/// Quotient and remainder; the remainder has the sign of the divisor.
fn floor_integers(left: i128, right: i128) -> Result<(i128, i128), Error> {
    if right == 0 {
        return Err(by_zero());
    }
    let quotient = left.checked_div(right).ok_or_else(too_large)?;
    let remainder = left.checked_rem(right).ok_or_else(too_large)?;
    if remainder != 0 && (remainder < 0) != (right < 0) {
        Ok((quotient - 1, remainder + right))
    } else {
        Ok((quotient, remainder))
    }
}

fn floor_floats(left: f64, right: f64) -> Result<(f64, f64), Error> {
    if right == 0.0 {
        return Err(by_zero());
    }
    let mut remainder = left % right;
    if remainder != 0.0 && (remainder < 0.0) != (right < 0.0) {
        remainder += right;
    }
    if remainder == 0.0 {
        remainder = 0.0_f64.copysign(right);
    }
    Ok((((left - remainder) / right).round(), remainder))
}

pub(super) fn floor_divide(left: &Value, right: &Value) -> Result<Value, Error> {
    match numbers(left, right) {
        Some(Pair::Integers(left, right)) => Ok(number::integer(floor_integers(left, right)?.0)),
        Some(Pair::Floats(left, right)) => Ok(Value::from(floor_floats(left, right)?.0)),
        None => Err(unsupported("//", left, right)),
    }
}

pub(super) fn modulo(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        let arguments: Vec<Value> = if right.is_tuple() { right.try_iter()?.collect() } else { vec![right.clone()] };
        return percent::format(format, &arguments).map(Value::from).map_err(Error::filter);
    }
    match numbers(left, right) {
        Some(Pair::Integers(left, right)) => Ok(number::integer(floor_integers(left, right)?.1)),
        Some(Pair::Floats(left, right)) => Ok(Value::from(floor_floats(left, right)?.1)),
        None => Err(unsupported("%", left, right)),
    }
}

pub(super) fn power(left: &Value, right: &Value) -> Result<Value, Error> {
    match numbers(left, right) {
        // Powers of 0 and 1 stay small for any exponent.
        Some(Pair::Integers(base @ (0 | 1), exponent)) if exponent > 0 => Ok(number::integer(base)),
        Some(Pair::Integers(-1, exponent)) if exponent >= 0 => Ok(number::integer(1 - 2 * (exponent % 2))),
        Some(Pair::Integers(base, exponent)) if exponent >= 0 => {
            let exponent = u32::try_from(exponent).map_err(|_| too_large())?;
            base.checked_pow(exponent).map(number::integer).ok_or_else(too_large)
        }
        Some(Pair::Integers(0, _)) => Err(by_zero()),
        Some(Pair::Integers(base, exponent)) => Ok(Value::from((base as f64).powf(exponent as f64))),
        Some(Pair::Floats(base, exponent)) if base == 0.0 && exponent < 0.0 => Err(by_zero()),
        Some(Pair::Floats(base, exponent)) => Ok(Value::from(base.powf(exponent))),
        None => Err(unsupported("**", left, right)),
    }
}

pub(super) fn negate(value: &Value) -> Result<Value, Error> {
    match (integer(value), f64::try_from(value.clone())) {
        (Some(number), _) => number.checked_neg().map(number::integer).ok_or_else(too_large),
        (None, Ok(number)) if value.kind() == ValueKind::Number => Ok(Value::from(-number)),
        _ => Err(sign("-", value)),
    }
}

pub(super) fn positive(value: &Value) -> Result<Value, Error> {
    match integer(value) {
        Some(number) => Ok(number::integer(number)),
        None if value.kind() == ValueKind::Number => Ok(value.clone()),
        None => Err(sign("+", value)),
    }
}

fn sign(sign: &str, value: &Value) -> Error {
    Error::filter(format!("The sign `{sign}` does not work on a value of type '{}'.", crate::python::type_name(value)))
}
