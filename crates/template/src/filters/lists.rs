//! Jinja's filters for lists.

use std::cmp::Ordering;

use indexmap::IndexMap;
use minijinja::value::ValueKind;
use minijinja::{State, Value};

use super::attribute;
use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::container::{is_dict, is_list, list, tuple};
use crate::python::group::Group;
use crate::python::{number, order, time, type_name};
use crate::undefined;

pub(super) fn first(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(args.items()?.into_iter().next().unwrap_or_else(|| undefined("the first item of an empty list")))
}

pub(super) fn last(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(args.items()?.pop().unwrap_or_else(|| undefined("the last item of an empty list")))
}

pub(super) fn to_list(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(list(args.items()?))
}

pub(super) fn items(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if crate::is_undefined(args.value()) {
        return Ok(list(Vec::new()));
    }
    Ok(list(args.pairs()?.into_iter().map(|(key, value)| tuple(vec![key, value])).collect()))
}

pub(super) fn reverse(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if let Some(value) = args.value().as_str() {
        return Ok(Value::from(value.chars().rev().collect::<String>()));
    }
    let mut items = args.items()?;
    items.reverse();
    Ok(list(items))
}

pub(super) fn batch(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    args.need("linecount")?;
    let size = args.size("linecount", 1)?.max(1);
    let items = args.items()?;
    let mut batches: Vec<Vec<Value>> = items.chunks(size).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (args.some("fill_with"), batches.last_mut()) {
        limits::list(size)?;
        last.resize(size, fill.clone());
    }
    Ok(list(batches.into_iter().map(list).collect()))
}

pub(super) fn slice(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    args.need("slices")?;
    let count = args.size("slices", 1)?;
    if count == 0 {
        return Err(args.error("cannot make 0 slices"));
    }
    limits::list(count)?;
    let items = args.items()?;
    let (size, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.into_iter();
    let mut slices = Vec::new();
    for index in 0..count {
        let mut part: Vec<Value> = rest.by_ref().take(size + usize::from(index < longer)).collect();
        if let Some(fill) = args.some("fill_with")
            && index >= longer
        {
            part.push(fill.clone());
        }
        slices.push(list(part));
    }
    Ok(list(slices))
}

pub(super) fn sum(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut items = args.items()?;
    if let Some(name) = args.some("attribute") {
        items = items.iter().map(|item| attribute::get(item, name)).collect();
    }
    let mut total = args.get("start").cloned().unwrap_or_else(|| Value::from(0));
    for item in items {
        if crate::is_undefined(&item) {
            return Err(attribute::missing(&item));
        }
        total = plus(&total, &item).ok_or_else(|| {
            args.failed(format!("{} cannot be added to {}", super::call::shown(&item), super::call::shown(&total)))
        })?;
    }
    Ok(total)
}

/// `left + right` for numbers and lists.
pub(crate) fn plus(left: &Value, right: &Value) -> Option<Value> {
    let numeric = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if numeric(left) && numeric(right) {
        let whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
        return match whole(left) && whole(right) {
            true => number::to_int(left)?.checked_add(number::to_int(right)?).map(number::integer),
            false => Some(Value::from(number::as_float(left)? + number::as_float(right)?)),
        };
    }
    if crate::python::container::is_list(left)
        && crate::python::container::is_list(right)
        && left.is_tuple() == right.is_tuple()
    {
        let joined = left.try_iter().ok()?.chain(right.try_iter().ok()?).collect();
        return Some(if left.is_tuple() { tuple(joined) } else { list(joined) });
    }
    time::add(left, right)
}

/// Key for Jinja's sorting and grouping; attributes separated by commas are compared in order.
fn sort_key(item: &Value, attribute: Option<&Value>, case_sensitive: bool) -> Result<Value, minijinja::Error> {
    let fold = |value: Value| if case_sensitive { value } else { order::ignore_case(&value) };
    let single = |name: &Value| {
        let found = attribute::get(item, name);
        if crate::is_undefined(&found) { Err(attribute::missing(&found)) } else { Ok(fold(found)) }
    };
    match attribute {
        None => Ok(fold(item.clone())),
        Some(names) => match names.as_str() {
            Some(path) if path.contains(',') => {
                let keys: Result<Vec<Value>, _> = path.split(',').map(|name| single(&Value::from(name))).collect();
                Ok(list(keys?))
            }
            _ => single(names),
        },
    }
}

fn keyed(args: &Arguments) -> Result<Vec<(Value, Value)>, minijinja::Error> {
    let case_sensitive = args.flag("case_sensitive", false);
    args.items()?.into_iter().map(|item| Ok((sort_key(&item, args.some("attribute"), case_sensitive)?, item))).collect()
}

pub(super) fn sort(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut items = keyed(args)?;
    order::sort_reversible(&mut items, args.flag("reverse", false), |(key, _)| key)
        .map_err(|reason| args.failed(reason))?;
    Ok(list(items.into_iter().map(|(_, item)| item).collect()))
}

pub(super) fn min(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    extreme(args, Ordering::Less)
}

pub(super) fn max(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    extreme(args, Ordering::Greater)
}

fn extreme(args: &Arguments, wanted: Ordering) -> Outcome {
    let mut items = keyed(args)?.into_iter();
    let Some(mut best) = items.next() else {
        return Ok(undefined("the smallest or largest item of an empty list"));
    };
    for candidate in items {
        if order::compare(&candidate.0, &best.0).map_err(|reason| args.failed(reason))? == wanted {
            best = candidate;
        }
    }
    Ok(best.1)
}

pub(super) fn dictsort(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let position = match args.text_of("by").as_deref() {
        None | Some("key") => 0,
        Some("value") => 1,
        Some(other) => return Err(args.error(format!("sorts by 'key' or 'value', not by '{other}'"))),
    };
    let case_sensitive = args.flag("case_sensitive", false);
    let mut entries: Vec<(Value, Value)> = Vec::new();
    for (key, value) in args.pairs()? {
        let by = if position == 0 { key.clone() } else { value.clone() };
        entries.push((if case_sensitive { by } else { order::ignore_case(&by) }, tuple(vec![key, value])));
    }
    order::sort_reversible(&mut entries, args.flag("reverse", false), |(by, _)| by)
        .map_err(|reason| args.failed(reason))?;
    Ok(list(entries.into_iter().map(|(_, entry)| entry).collect()))
}

pub(super) fn groupby(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let name = args.need("attribute")?;
    let case_sensitive = args.flag("case_sensitive", false);
    let mut items = Vec::new();
    for item in args.items()? {
        let found = attribute::get_or(&item, name, args.some("default"));
        if crate::is_undefined(&found) {
            return Err(attribute::missing(&found));
        }
        items.push((if case_sensitive { found } else { order::ignore_case(&found) }, item));
    }
    order::sort(&mut items, |(key, _)| key).map_err(|reason| args.failed(reason))?;
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for (key, item) in items {
        match groups.last_mut() {
            Some((last, _, members)) if *last == key => members.push(item),
            // The group's name is the spelling in its first member.
            _ => {
                let name = attribute::get_or(&item, name, args.some("default"));
                groups.push((key, name, vec![item]));
            }
        }
    }
    Ok(list(groups.into_iter().map(|(_, name, members)| Group::value(name, members)).collect()))
}

/// Removes duplicates and keeps the first occurrence.
pub(super) fn unique(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let case_sensitive = args.flag("case_sensitive", false);
    let demanding = args.some("attribute").is_some() || args.some("case_sensitive").is_some() && !case_sensitive;
    let mut seen: IndexMap<Value, ()> = IndexMap::new();
    let mut kept = Vec::new();
    let not_iterable = || args.failed(format!("'{}' object is not iterable", type_name(args.value())));
    for item in crate::python::container::items(args.value()).ok_or_else(not_iterable)? {
        let key = sort_key(&item, args.some("attribute"), case_sensitive)?;
        if demanding && (is_list(&key) || is_dict(&key)) {
            let sentence = "Jinja2's unique filter failed and we cannot fall back to Ansible's version \
                            as it does not support the parameters supplied";
            let given = format!("It cannot compare by {}.", super::call::shown(&key));
            return Err(args.failed_of(sentence, &given));
        }
        if seen.insert(order::hash_key(&key), ()).is_none() {
            kept.push(item);
        }
    }
    Ok(list(kept))
}
