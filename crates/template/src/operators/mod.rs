//! Operators of expressions. They follow Python's rules and fail on undefined values where they need them.

mod arithmetic;
mod sequence;

use std::cmp::Ordering;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, State, Value};

use crate::context::Context;
use crate::emission;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::mark::{self, check, mark};
use crate::origin;
use crate::plain::{self, plain};
use crate::python::{order, percent, type_name};
use crate::registry;
use crate::root;
use crate::syntax;

type Outcome = Result<Value, minijinja::Error>;

/// Registers the filters that generated expressions use.
pub(crate) fn register(environment: &mut Environment<'static>) {
    environment.add_filter("__add", |left: &Value, right: &Value| operator(left, right, arithmetic::add));
    environment.add_filter("__sub", |left: &Value, right: &Value| operator(left, right, arithmetic::subtract));
    environment.add_filter("__mul", |left: &Value, right: &Value| operator(left, right, arithmetic::multiply));
    environment.add_filter("__div", |left: &Value, right: &Value| operator(left, right, arithmetic::divide));
    environment.add_filter("__floordiv", |left: &Value, right: &Value| operator(left, right, arithmetic::floor_divide));
    environment.add_filter("__mod", modulo);
    environment.add_filter("__pow", |left: &Value, right: &Value| operator(left, right, arithmetic::power));
    environment.add_filter("__neg", |value: &Value| -> Outcome {
        check(value)?;
        Ok(arithmetic::negate(value)?)
    });
    environment.add_filter("__pos", |value: &Value| -> Outcome {
        check(value)?;
        Ok(arithmetic::positive(value)?)
    });
    environment
        .add_filter("__eq", |left: &Value, right: &Value| -> Outcome { Ok(Value::from(are_equal(left, right)?)) });
    environment
        .add_filter("__ne", |left: &Value, right: &Value| -> Outcome { Ok(Value::from(!are_equal(left, right)?)) });
    environment.add_filter("__lt", |left: &Value, right: &Value| ordering("<", left, right, Ordering::is_lt));
    environment.add_filter("__le", |left: &Value, right: &Value| ordering("<=", left, right, Ordering::is_le));
    environment.add_filter("__gt", |left: &Value, right: &Value| ordering(">", left, right, Ordering::is_gt));
    environment.add_filter("__ge", |left: &Value, right: &Value| ordering(">=", left, right, Ordering::is_ge));
    environment.add_filter("__in", |item: &Value, container: &Value| -> Outcome {
        Ok(Value::from(contains(container, item)?))
    });
    environment.add_filter("__not_in", |item: &Value, container: &Value| -> Outcome {
        Ok(Value::from(!contains(container, item)?))
    });
    environment.add_filter("__not", |value: &Value| -> Outcome {
        mark::check_condition(value)?;
        Ok(Value::from(!value.is_true()))
    });
    environment.add_filter("__check", |value: &Value| -> Outcome {
        mark::check_condition(value)?;
        Ok(value.clone())
    });
    environment.add_filter("__nothing", |_: &Value| mark::nothing());
    environment.add_filter("__tilde", |items: &Value| -> Outcome { Ok(tilde(items)?) });
    environment.add_filter("__attr", |object: &Value, name: &Value, path: Option<&Value>| -> Value {
        sequence::attribute(object, name, path.and_then(Value::as_str))
    });
    environment.add_filter("__item", |object: &Value, key: &Value, path: Option<&Value>| -> Outcome {
        Ok(sequence::item(object, key, path.and_then(Value::as_str))?)
    });
    environment.add_filter("__slice", |object: &Value, start: &Value, stop: &Value, step: &Value| -> Outcome {
        limits::work([object])?;
        Ok(sequence::slice(object, start, stop, step)?)
    });
    environment.add_filter("__iter", |object: &Value| -> Outcome { Ok(sequence::iterate(object)?) });
    for name in ["__list", "__dict", "__own"] {
        environment.add_filter(name, |value: &Value| -> Outcome {
            limits::work([value])?;
            Ok(plain::mutable(value))
        });
    }
    environment.add_filter("__shallow", |value: &Value| -> Outcome {
        limits::nesting(value)?;
        Ok(value.clone())
    });
    environment.add_filter(syntax::REREAD, root::reread);
    environment.add_filter("__template", root::nested_template);
    environment.add_filter("__include", root::include);
    environment.add_filter("__apart", root::apart);
    environment.add_filter("__capture", |begins: bool| emission::capture(begins));
    environment.add_filter("__returned", |state: &mut State<'_, '_>, value: &Value| emission::returned(state, value));
    environment.add_filter("__type_debug", origin::type_debug);
    environment.add_filter("__class", origin::class_attribute);
    environment.add_filter("__filter", filtered);
    environment.add_filter("__is", tested);
}

/// `left % right`, which also formats.
fn modulo(state: &mut State<'_, '_>, left: &Value, right: &Value) -> Outcome {
    if let Some(template) = left.as_str()
        && mark::name(right).is_some()
        && registry::compat(state).formats_undefined()
    {
        let right = percent::with_representations(template, std::slice::from_ref(right)).remove(0);
        return operator(left, &right, arithmetic::modulo);
    }
    operator(left, right, arithmetic::modulo)
}

/// `value | name(arguments)`.
fn filtered(state: &mut State<'_, '_>, value: ValueOrKwargs, name: &Value, arguments: Rest<ValueOrKwargs>) -> Outcome {
    let arguments: Vec<Value> = std::iter::once(value.into_value()).chain(arguments.into_values()).collect();
    registry::apply_filter(state, name.as_str().unwrap_or_default(), &arguments)
}

/// `value is name(arguments)`.
fn tested(state: &mut State<'_, '_>, value: ValueOrKwargs, name: &Value, arguments: Rest<ValueOrKwargs>) -> Outcome {
    let arguments: Vec<Value> = std::iter::once(value.into_value()).chain(arguments.into_values()).collect();
    registry::apply_test(state, name.as_str().unwrap_or_default(), &arguments)
}

/// Counts the operands of an operator.
fn both(left: &Value, right: &Value) -> Result<(), Error> {
    limits::work([left, right])
}

fn operator(left: &Value, right: &Value, apply: fn(&Value, &Value) -> Result<Value, Error>) -> Outcome {
    both(left, right)?;
    check(left)?;
    check(right)?;
    Ok(limits::value(apply(left, right)?)?)
}

fn are_equal(left: &Value, right: &Value) -> Result<bool, Error> {
    mark::check_condition(left)?;
    mark::check_condition(right)?;
    both(left, right)?;
    equal(left, right)
}

/// Python's `==`.
pub(crate) fn equal(left: &Value, right: &Value) -> Result<bool, Error> {
    match (left.kind(), right.kind()) {
        (
            ValueKind::Map | ValueKind::Seq | ValueKind::Iterable,
            ValueKind::Map | ValueKind::Seq | ValueKind::Iterable,
        ) => {
            let (left, right) = (plain(left)?, plain(right)?);
            Ok(left == right)
        }
        _ => Ok(left == right),
    }
}

fn ordering(sign: &str, left: &Value, right: &Value, judge: fn(Ordering) -> bool) -> Outcome {
    check(left)?;
    check(right)?;
    both(left, right)?;
    if let (Ok(left), Ok(right)) = (f64::try_from(left.clone()), f64::try_from(right.clone()))
        && (left.is_nan() || right.is_nan())
    {
        return Ok(Value::from(false));
    }
    let (left, right) = (plain(left)?, plain(right)?);
    match order::compare(&left, &right) {
        Ok(ordering) => Ok(Value::from(judge(ordering))),
        Err(_) => Err(unsupported(sign, &left, &right).into()),
    }
}

/// Error for an operator on values of unsuitable types.
fn unsupported(sign: &str, left: &Value, right: &Value) -> Error {
    Error::filter(format!(
        "The operator `{sign}` does not work between values of type '{}' and '{}'.",
        type_name(left),
        type_name(right)
    ))
}

/// Python's `in`.
pub(crate) fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    check(item)?;
    check(container)?;
    both(item, container)?;
    if let Some(text) = container.as_str() {
        return match item.as_str() {
            Some(part) => Ok(text.contains(part)),
            None => Err(Error::filter(format!(
                "Only a string can be in a string, not a value of type '{}'.",
                type_name(item)
            ))),
        };
    }
    match container.kind() {
        ValueKind::Map => Ok(container.as_object().is_some_and(|object| object.get_value(item).is_some())),
        ValueKind::Seq | ValueKind::Iterable => {
            for candidate in container.try_iter()? {
                check(&candidate)?;
                if equal(&candidate, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(Error::filter(format!("Nothing can be in a value of type '{}'.", type_name(container)))),
    }
}

/// `a ~ b`: concatenates texts.
fn tilde(items: &Value) -> Result<Value, Error> {
    limits::work([items])?;
    let mut text = String::new();
    for item in items.try_iter()? {
        limits::text(text.len())?;
        match mark(&item) {
            Some(mark::Mark::Nothing) => {}
            _ => text.push_str(&crate::python::text(&plain(&item)?)),
        }
    }
    limits::text(text.len())?;
    Ok(Value::from(text))
}

/// Text of a value within a longer text.
pub(crate) fn shown(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    if let Some(mark::Mark::Nothing) = mark(value) {
        return Ok(String::new());
    }
    check(value)?;
    Ok(crate::python::text(&plain::printed(value)?))
}

/// Like [`shown`], or with tuples printed as Python does.
pub(crate) fn shown_as(value: &Value, prints_tuples: bool) -> Result<String, Error> {
    if !prints_tuples || !matches!(value.kind(), ValueKind::Seq | ValueKind::Map) || mark(value).is_some() {
        return shown(value);
    }
    Ok(crate::python::text(&plain(value)?))
}

/// `object.name`.
pub(crate) fn attribute(object: &Value, name: &str) -> Value {
    sequence::attribute(object, &Value::from(name), None)
}

/// `text[start:stop]`, for methods that take bounds.
pub(crate) fn slice(text: &Value, start: &Value, stop: &Value) -> Result<Value, Error> {
    sequence::slice(text, start, stop, &Value::from(()))
}

/// The context that a filter of an expression runs in.
pub(crate) fn context(state: &State<'_, '_>) -> Result<Context, Error> {
    Context::from_state(state)
        .ok_or_else(|| Error::new(ErrorKind::Filter, "This is only possible in a template of a run."))
}
