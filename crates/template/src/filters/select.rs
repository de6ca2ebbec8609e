//! `map`, `select`, `reject`, `selectattr` and `rejectattr`.

use minijinja::value::Kwargs;
use minijinja::{State, Value};

use super::attribute;
use super::call::{Arguments, Outcome};
use crate::python::container::list;
use crate::python::{text, truth};
use crate::registry::{call_filter, call_test};

pub(super) fn map(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let items = subjects(args)?;
    let named = |wanted: &str| args.extra().iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let mut mapped = Vec::with_capacity(items.len());
    if args.rest().is_empty()
        && let Some(name) = named("attribute")
    {
        if let Some((other, _)) = args.extra().iter().find(|(name, _)| name != "attribute" && name != "default") {
            return Err(args.error(format!("has no argument '{other}' beside 'attribute'")));
        }
        let default = named("default").filter(|default| !default.is_none());
        mapped.extend(items.iter().map(|item| attribute::get_or(item, name, default)));
        return Ok(list(mapped));
    }
    let Some((name, rest)) = args.rest().split_first() else {
        return Err(args.error("needs the name of a filter or an attribute"));
    };
    let name = text(name);
    let mut arguments = call_arguments(rest, args.extra());
    for item in items {
        arguments[0] = item;
        mapped.push(call_filter(state, &name, &arguments)?);
    }
    Ok(list(mapped))
}

/// Items to process; a value that is false in Python has none.
fn subjects(args: &Arguments) -> Result<Vec<Value>, minijinja::Error> {
    if truth(args.value()) { args.items() } else { Ok(Vec::new()) }
}

pub(super) fn select(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    pick(state, args, Subject::Item, Kept::Passing)
}

pub(super) fn reject(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    pick(state, args, Subject::Item, Kept::Failing)
}

pub(super) fn selectattr(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    pick(state, args, Subject::Attribute, Kept::Passing)
}

pub(super) fn rejectattr(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    pick(state, args, Subject::Attribute, Kept::Failing)
}

/// Value that the test judges.
#[derive(PartialEq, Eq)]
enum Subject {
    Item,
    /// The attribute of the item that the first argument names.
    Attribute,
}

/// Items that remain, by the result of the test.
#[derive(PartialEq, Eq)]
enum Kept {
    Passing,
    Failing,
}

fn pick(state: &mut State<'_, '_>, args: &Arguments, subject: Subject, which: Kept) -> Outcome {
    let mut rest = args.rest();
    let mut name = None;
    if subject == Subject::Attribute {
        let Some((first, others)) = rest.split_first() else {
            return Err(args.error("needs the name of an attribute"));
        };
        name = Some(first);
        rest = others;
    }
    let test = rest.split_first().map(|(test, others)| (text(test), call_arguments(others, args.extra())));
    let mut kept = Vec::new();
    let (test, mut arguments) = match test {
        Some((test, arguments)) => (Some(test), arguments),
        None => (None, vec![Value::UNDEFINED]),
    };
    for item in subjects(args)? {
        let subject = match name {
            Some(name) => attribute::get(&item, name),
            None => item.clone(),
        };
        // A value that is not yet known is neither selected nor rejected.
        if crate::unknown_reason(&subject).is_some() {
            crate::mark::check(&subject)?;
        }
        let passed = match &test {
            Some(test) => {
                arguments[0] = subject;
                call_test(state, test, &arguments)?
            }
            None if crate::is_undefined(&subject) && !crate::mark::is_nothing(&subject) => {
                return Err(attribute::missing(&subject));
            }
            None => truth(&subject),
        };
        if passed == (which == Kept::Passing) {
            kept.push(item);
        }
    }
    Ok(list(kept))
}

/// Arguments for a filter or test called by name; the first place is left for the value.
fn call_arguments(positional: &[Value], named: &[(String, Value)]) -> Vec<Value> {
    let mut arguments = vec![Value::UNDEFINED];
    arguments.extend_from_slice(positional);
    if !named.is_empty() {
        let named = named.iter().map(|(name, value)| (name.as_str(), value.clone()));
        arguments.push(Value::from(Kwargs::from_iter(named)));
    }
    arguments
}
