//! Tests of task results.

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Verdict};
use crate::mark::{check, unknown_reason};
use crate::python::container::{is_dict, is_list, step};
use crate::python::truth;

/// A field of the result, which must be a dictionary.
fn field(args: &Arguments, name: &str) -> Result<Option<Value>, minijinja::Error> {
    match is_dict(args.value()) {
        true => match step(args.value(), &Value::from(name)) {
            // A value that is not yet known is neither true nor false.
            Some(value) if unknown_reason(&value).is_some() => {
                Err(check(&value).err().map_or_else(|| args.failed("unknown"), Into::into))
            }
            value => Ok(value),
        },
        false => Err(args.unsuitable("the result of a task, a dictionary,")),
    }
}

fn flag(args: &Arguments, name: &str) -> Verdict {
    Ok(field(args, name)?.is_some_and(|value| truth(&value)))
}

pub(super) fn failed(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    flag(args, "failed")
}

pub(super) fn succeeded(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    flag(args, "failed").map(|failed| !failed)
}

pub(super) fn unreachable(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    flag(args, "unreachable")
}

pub(super) fn reachable(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    flag(args, "unreachable").map(|unreachable| !unreachable)
}

pub(super) fn skipped(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    flag(args, "skipped")
}

/// A loop's result is changed if one of its items is.
pub(super) fn changed(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    if let Some(changed) = field(args, "changed")? {
        return Ok(truth(&changed));
    }
    let items: Vec<Value> = match field(args, "results")? {
        Some(results) if is_list(&results) => results.try_iter()?.collect(),
        _ => Vec::new(),
    };
    let changed = |item: &Value| step(item, &Value::from("changed")).is_some_and(|changed| truth(&changed));
    Ok(items.first().is_some_and(is_dict) && items.iter().any(changed))
}

pub(super) fn timedout(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    match field(args, "timedout")? {
        Some(timedout) if is_dict(&timedout) => {
            Ok(step(&timedout, &Value::from("period")).is_some_and(|period| truth(&period)))
        }
        Some(timedout) if truth(&timedout) => Err(args.failed("the field 'timedout' is not a dictionary")),
        _ => Ok(false),
    }
}

/// A synchronous task counts as started and finished.
pub(super) fn started(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(field(args, "started")?.is_none_or(|started| truth(&started)))
}

pub(super) fn finished(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(field(args, "finished")?.is_none_or(|finished| truth(&finished)))
}
