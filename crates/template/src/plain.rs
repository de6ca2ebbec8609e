//! Converts values of a running template to plain data.
//!
//! Inside a template, containers may be lazy or mutable and may contain undefined values. Filters, comparisons and
//! results need plain lists and dicts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Object, ObjectRepr, Tuple, ValueKind};

use crate::context::Context;
use crate::data::Data;
use crate::error::{Error, ErrorKind};
use crate::globals;
use crate::lazy::{LazyDict, LazyList, is_lazy};
use crate::mark::{self, is_omit, mark};
use crate::mutable::{MutableDict, MutableList};
use crate::python::class::Class;
use crate::python::{time, type_name};

/// A freshly encrypted text, as a Python object that prints its plain text (`wrap_object`).
#[derive(Debug)]
pub(crate) struct Wrapped(pub(crate) String);

impl Object for Wrapped {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Maximum nesting of data.
const DEPTH: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Keeps undefined values and foreign objects.
    Argument,
    /// Keeps undefined values, but reads foreign mappings.
    Subject,
    /// Fails on undefined values.
    Operand,
    /// Like `Operand`; also turns tuples and iterables into lists and drops omitted values.
    Result,
}

/// Converts containers to plain ones and keeps undefined values.
pub(crate) fn settled(value: &Value) -> Value {
    match walk(value, Purpose::Argument, 0) {
        Ok(changed) => changed.unwrap_or_else(|| value.clone()),
        Err(error) => mark::failed(error),
    }
}

/// Like [`settled`], for the subject of a filter: foreign mappings, such as the variables of a host, become plain too.
pub(crate) fn settled_subject(value: &Value) -> Value {
    match walk(value, Purpose::Subject, 0) {
        Ok(changed) => changed.unwrap_or_else(|| value.clone()),
        Err(error) => mark::failed(error),
    }
}

/// Maximum depth of objects read through one another, such as `hostvars` of a host that has `hostvars`.
const DEPTH_OF_READINGS: usize = 12;

/// Data that this thread reads in full.
#[derive(Default)]
struct Readings {
    /// Number of objects read through one another.
    depth: usize,
    /// Variables read through one another, by the address of their context and their name.
    open: Vec<(usize, String)>,
    /// Variables that failed since the outermost reading began, so that variables that contain each other are not tried
    /// again in every order. Each entry holds its context, so that no other context gets that address.
    failed: HashMap<(usize, String), (Context, Error)>,
}

impl Readings {
    fn close(&mut self) {
        if self.depth == 0 && self.open.is_empty() {
            self.failed.clear();
        }
    }
}

thread_local! {
    static READINGS: RefCell<Readings> = RefCell::default();
}

fn contains_itself() -> Error {
    Error::filter("The data contains itself, such as `hostvars` in the variables of a host.")
}

/// Reads data that may require further data.
fn nested<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let is_deep = READINGS.with_borrow_mut(|readings| {
        readings.depth += 1;
        readings.depth > DEPTH_OF_READINGS
    });
    let result = if is_deep { Err(contains_itself()) } else { read() };
    READINGS.with_borrow_mut(|readings| {
        readings.depth -= 1;
        readings.close();
    });
    result
}

/// Reads the value of a variable in full. Fails if that is under way, or has failed since the outermost reading began.
pub(crate) fn variable<T>(context: &Context, name: &str, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let variable = (context.address(), name.to_owned());
    READINGS.with_borrow_mut(|readings| {
        if let Some((_, error)) = readings.failed.get(&variable) {
            return Err(error.clone());
        }
        if readings.open.contains(&variable) {
            return Err(contains_itself());
        }
        readings.open.push(variable.clone());
        Ok(())
    })?;
    let result = read();
    READINGS.with_borrow_mut(|readings| {
        readings.open.pop();
        if let Err(error) = &result {
            readings.failed.insert(variable, (context.clone(), error.clone()));
        }
        readings.close();
    });
    result
}

/// Converts containers to plain ones and fails on undefined values.
pub(crate) fn plain(value: &Value) -> Result<Value, Error> {
    Ok(walk(value, Purpose::Operand, 0)?.unwrap_or_else(|| value.clone()))
}

/// Converts containers to plain ones without undefined values. A value that is undefined itself becomes an empty list.
pub(crate) fn defined(value: &Value) -> Value {
    let keep = |value: &Value| (!mark::is_undefined(value)).then(|| defined(value));
    match value.kind() {
        _ if mark::is_undefined(value) => Value::from(Vec::<Value>::new()),
        ValueKind::Seq => {
            value.try_iter().into_iter().flatten().filter_map(|item| keep(&item)).collect::<Vec<_>>().into()
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let entry = |key: Value| Some((key.clone(), keep(&value.get_item(&key).ok()?)?));
            Value::from_pairs(keys.filter_map(entry).collect::<Vec<_>>())
        }
        _ => value.clone(),
    }
}

/// Converts a value that is printed within a longer text. As in a result, it contains no tuples.
pub(crate) fn printed(value: &Value) -> Result<Value, Error> {
    match value.as_object().map(|object| object.repr()) {
        Some(ObjectRepr::Plain) | None => Ok(value.clone()),
        Some(_) => finish(value),
    }
}

/// Final value of a template.
pub(crate) fn finish(value: &Value) -> Result<Value, Error> {
    if is_omit(value) {
        return Err(Error::new(ErrorKind::Omitted, "The value as a whole is omitted."));
    }
    if value.is_undefined() {
        mark::check(value)?;
    }
    Ok(walk(value, Purpose::Result, 0)?.unwrap_or_else(|| value.clone()))
}

/// The first undefined value in a plain container.
pub(crate) fn undefined_within(value: &Value) -> Option<Value> {
    if mark(value).is_some() {
        return Some(value.clone());
    }
    if let Some(items) = value.downcast_object_ref::<Vec<Value>>() {
        return items.iter().find_map(undefined_within);
    }
    if let Some(items) = value.downcast_object_ref::<Tuple>() {
        return items.iter().find_map(undefined_within);
    }
    if let Some(map) = value.downcast_object_ref::<IndexMap<Value, Value>>() {
        return map.values().find_map(undefined_within);
    }
    None
}

/// Whether a value contains something that is rendered on use, or that a template can still change.
pub(crate) fn is_bound(value: &Value) -> bool {
    if value.as_object().is_none() {
        return false;
    }
    if let Some(items) = value.downcast_object_ref::<Vec<Value>>() {
        return items.iter().any(is_bound);
    }
    if let Some(items) = value.downcast_object_ref::<Tuple>() {
        return items.iter().any(is_bound);
    }
    if let Some(map) = value.downcast_object_ref::<IndexMap<Value, Value>>() {
        return map.values().any(is_bound);
    }
    is_lazy(value) || is_mutable(value) || globals::is_variables(value)
}

/// `None` if the value needs no conversion.
fn walk(value: &Value, purpose: Purpose, depth: usize) -> Result<Option<Value>, Error> {
    let Some(object) = value.as_object() else {
        if value.kind() == ValueKind::Invalid {
            let value = mark::valid(value.clone());
            return if keeps_marks(purpose) { Ok(Some(value)) } else { mark::check(&value).map(|()| None) };
        }
        return Ok(None);
    };
    if depth > DEPTH {
        return Err(Error::filter("The data nests too deeply, or contains itself."));
    }
    if mark::is_nothing(value) && keeps_marks(purpose) {
        return Ok(Some(Value::from("")));
    }
    if let Some(wrapped) = value.downcast_object_ref::<Wrapped>() {
        return Ok(Some(Value::from(wrapped.0.as_str())));
    }
    if let Some(mark) = mark(value) {
        return if keeps_marks(purpose) { Ok(None) } else { Err(mark.error()) };
    }
    if let Some(items) = value.downcast_object_ref::<Vec<Value>>() {
        return walk_items(items, purpose, depth, Copying::IfChanged);
    }
    if let Some(map) = value.downcast_object_ref::<IndexMap<Value, Value>>() {
        return walk_entries(map.iter(), purpose, depth, Copying::IfChanged);
    }
    if let Some(items) = value.downcast_object_ref::<Tuple>() {
        let copying = if purpose == Purpose::Result { Copying::Always } else { Copying::IfChanged };
        let walked = walk_items(items, purpose, depth, copying)?;
        return Ok(match walked {
            Some(items) if purpose != Purpose::Result => {
                Some(Value::from(Tuple::from(items.try_iter()?.collect::<Vec<_>>())))
            }
            other => other,
        });
    }
    if let Some(list) = value.downcast_object_ref::<LazyList>() {
        return walk_items(&list.items(), purpose, depth, Copying::Always);
    }
    if let Some(dict) = value.downcast_object_ref::<LazyDict>() {
        let entries = dict.entries();
        return walk_entries(entries.iter().map(|(key, value)| (key, value)), purpose, depth, Copying::Always);
    }
    if let Some(list) = value.downcast_object_ref::<MutableList>() {
        return walk_items(&list.snapshot(), purpose, depth, Copying::Always);
    }
    if let Some(dict) = value.downcast_object_ref::<MutableDict>() {
        let entries = dict.snapshot();
        return walk_entries(entries.iter().map(|(key, value)| (key, value)), purpose, depth, Copying::Always);
    }
    if value.downcast_object_ref::<Data>().is_some() {
        return Ok(None);
    }
    match object.repr() {
        ObjectRepr::Map if purpose == Purpose::Subject && !value.is_kwargs() => {}
        _ if purpose != Purpose::Result => return Ok(None),
        _ => {}
    }
    match object.repr() {
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            let items: Vec<Value> = object.try_iter().into_iter().flatten().collect();
            walk_items(&items, purpose, depth, Copying::Always)
        }
        ObjectRepr::Map => nested(|| {
            // Skip keys that an object lists but has no value for.
            let pairs = object.try_iter_pairs().into_iter().flatten();
            let entries: Vec<(Value, Value)> = pairs.filter(|(_, value)| !value.is_undefined()).collect();
            walk_entries(entries.iter().map(|(key, value)| (key, value)), purpose, depth, Copying::Always)
        }),
        _ if time::is_datetime(value) || time::is_timedelta(value) || Class::is(value) || is_omit(value) => Ok(None),
        _ => Err(Error::filter(format!(
            "A value of type '{}' cannot be kept: the template gives a function or macro instead of calling it.",
            type_name(value)
        ))),
    }
}

fn keeps_marks(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Argument | Purpose::Subject)
}

/// Whether an item of a result is dropped.
fn dropped(value: &Value, purpose: Purpose) -> bool {
    purpose == Purpose::Result && is_omit(value)
}

/// Cases in which a walked list or dict is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    Always,
    IfChanged,
}

fn walk_items(items: &[Value], purpose: Purpose, depth: usize, copying: Copying) -> Result<Option<Value>, Error> {
    let mut copied: Option<Vec<Value>> = (copying == Copying::Always).then(|| Vec::with_capacity(items.len()));
    for (index, item) in items.iter().enumerate() {
        let changed = walk(item, purpose, depth + 1)?;
        if (changed.is_some() || dropped(item, purpose)) && copied.is_none() {
            copied = Some(items[..index].to_vec());
        }
        if let Some(copied) = &mut copied
            && !dropped(item, purpose)
        {
            copied.push(changed.unwrap_or_else(|| item.clone()));
        }
    }
    Ok(copied.map(Value::from))
}

fn walk_entries<'a>(
    entries: impl Iterator<Item = (&'a Value, &'a Value)> + Clone,
    purpose: Purpose,
    depth: usize,
    copying: Copying,
) -> Result<Option<Value>, Error> {
    let mut copied: Option<IndexMap<Value, Value>> = (copying == Copying::Always).then(IndexMap::new);
    for (index, (key, item)) in entries.clone().enumerate() {
        let changed = walk(item, purpose, depth + 1)?;
        if (changed.is_some() || dropped(item, purpose)) && copied.is_none() {
            copied = Some(entries.clone().take(index).map(|(key, value)| (key.clone(), value.clone())).collect());
        }
        if let Some(copied) = &mut copied
            && !dropped(item, purpose)
        {
            copied.insert(key.clone(), changed.unwrap_or_else(|| item.clone()));
        }
    }
    Ok(copied.map(Value::from_object))
}

/// Whether the template can change the list or dict in place.
pub(crate) fn is_mutable(value: &Value) -> bool {
    value.downcast_object_ref::<MutableList>().is_some() || value.downcast_object_ref::<MutableDict>().is_some()
}

/// A mutable list or dict: the template's own, or a copy of its argument.
pub(crate) fn mutable(value: &Value) -> Value {
    mutable_within(value, 0)
}

fn mutable_within(value: &Value, depth: usize) -> Value {
    if depth > DEPTH || is_mutable(value) || value.is_tuple() || mark(value).is_some() {
        return value.clone();
    }
    let own = |items: &[Value]| MutableList::value(items.iter().map(|item| mutable_within(item, depth + 1)).collect());
    if let Some(items) = value.downcast_object_ref::<Vec<Value>>() {
        return own(items);
    }
    if let Some(list) = value.downcast_object_ref::<LazyList>() {
        return own(&list.items());
    }
    let data = value.downcast_object_ref::<Data>();
    if let Some(items) = data.and_then(Data::items) {
        return own(&items);
    }
    let own = |entries: Vec<(Value, Value)>| {
        MutableDict::value(entries.into_iter().map(|(key, value)| (key, mutable_within(&value, depth + 1))))
    };
    if let Some(map) = value.downcast_object_ref::<IndexMap<Value, Value>>() {
        return own(map.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
    }
    if let Some(dict) = value.downcast_object_ref::<LazyDict>() {
        return own(dict.entries());
    }
    if let Some(data) = data {
        return own(data.entries());
    }
    value.clone()
}
