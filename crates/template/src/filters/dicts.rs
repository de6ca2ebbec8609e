//! Filters for dictionaries.

use indexmap::IndexMap;
use minijinja::{State, Value};

use super::attribute;
use super::call::{Arguments, Outcome};
use super::sets::{Nulls, flatten_into};
use crate::python::container::{dict, is_dict, is_list, list, pairs, step};
use crate::python::{python_class, text, type_name};

/// Treatment by `combine` of two lists under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMerge {
    Replace,
    Keep,
    Append,
    Prepend,
    /// Appends the new list's items that are not in the old one.
    AppendNew,
    /// Prepends the new list's items that are not in the old one.
    PrependNew,
}

impl ListMerge {
    /// Parses the argument `list_merge`.
    pub(crate) fn parse(name: &str) -> Option<ListMerge> {
        Some(match name {
            "replace" => ListMerge::Replace,
            "keep" => ListMerge::Keep,
            "append" => ListMerge::Append,
            "prepend" => ListMerge::Prepend,
            "append_rp" => ListMerge::AppendNew,
            "prepend_rp" => ListMerge::PrependNew,
            _ => return None,
        })
    }

    pub(crate) const NAMES: &str = "replace, keep, append, prepend, append_rp or prepend_rp";
}

/// Ways to merge values that both dictionaries have.
#[derive(Clone, Copy)]
pub(crate) struct Merging {
    /// Whether dictionaries in dictionaries are merged too.
    pub(crate) recursive: bool,
    pub(crate) lists: ListMerge,
}

/// Merges the second dictionary over the first.
pub(crate) fn merge(low: &Value, high: &Value, merging: Merging) -> Value {
    let mut merged: IndexMap<Value, Value> = pairs(low).unwrap_or_default().into_iter().collect();
    for (key, new) in pairs(high).unwrap_or_default() {
        let value = match merged.get(&key) {
            Some(old) if merging.recursive && is_dict(old) && is_dict(&new) => merge(old, &new, merging),
            Some(old) if is_list(old) && is_list(&new) => merge_lists(old, &new, merging.lists),
            _ => new,
        };
        merged.insert(key, value);
    }
    dict(merged)
}

fn merge_lists(old: &Value, new: &Value, lists: ListMerge) -> Value {
    let all = |value: &Value| value.try_iter().into_iter().flatten().collect::<Vec<_>>();
    let (old_items, new_items) = (all(old), all(new));
    let without = |items: &[Value], other: &[Value]| {
        items.iter().filter(|item| !other.contains(item)).cloned().collect::<Vec<_>>()
    };
    list(match lists {
        ListMerge::Replace => return new.clone(),
        ListMerge::Keep => return old.clone(),
        ListMerge::Append => [old_items, new_items].concat(),
        ListMerge::Prepend => [new_items, old_items].concat(),
        ListMerge::AppendNew => [without(&old_items, &new_items), new_items].concat(),
        ListMerge::PrependNew => {
            let kept = without(&old_items, &new_items);
            [new_items, kept].concat()
        }
    })
}

pub(super) fn combine(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if let Some((name, _)) = args.extra().first() {
        let sentence = "'recursive' and 'list_merge' are the only valid keyword arguments";
        return Err(args.says_of(sentence, &format!("'{name}' is none of them.")));
    }
    let lists = args.text_of("list_merge").unwrap_or_else(|| "replace".to_owned());
    let Some(lists) = ListMerge::parse(&lists) else {
        return Err(args.error(format!("knows no list_merge '{lists}', only {}", ListMerge::NAMES)));
    };
    let given: Vec<Value> = std::iter::once(args.value().clone()).chain(args.rest().iter().cloned()).collect();
    let mut flat = Vec::new();
    flatten_into(&given, Some(1), Nulls::Skipped, &mut flat);
    let mut merged = dict([]);
    for (index, part) in flat.iter().enumerate() {
        if crate::is_undefined(part) {
            return Err(attribute::missing(part));
        }
        if !is_dict(part) {
            let (low, high) = (flat.get(index.saturating_sub(1)), flat.get(index.max(1)));
            let (low, high) = (type_name(low.unwrap_or(part)), type_name(high.unwrap_or(part)));
            let sentence = format!("failed to combine variables, expected dicts but got a '{low}' and a '{high}'");
            return Err(args.says_of(sentence, &format!("It was given {}.", super::call::shown(part))));
        }
        merged = match index {
            0 => part.clone(),
            _ => merge(&merged, part, Merging { recursive: args.flag("recursive", false), lists }),
        };
    }
    Ok(merged)
}

pub(super) fn dict2items(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let key_name = Value::from(args.text_of("key_name").unwrap_or_else(|| "key".to_owned()));
    let value_name = Value::from(args.text_of("value_name").unwrap_or_else(|| "value".to_owned()));
    let entry = |(key, value)| dict([(key_name.clone(), key), (value_name.clone(), value)]);
    let Some(pairs) = pairs(args.value()) else {
        let class = python_class(args.value());
        return Err(args.failed(format!("dict2items requires a dictionary, got {class} instead.")));
    };
    Ok(list(pairs.into_iter().map(entry).collect()))
}

pub(super) fn items2dict(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let named = |name: &str, default: &str| args.get(name).cloned().unwrap_or_else(|| Value::from(default));
    let (key_name, value_name) = (named("key_name", "key"), named("value_name", "value"));
    let mut entries = Vec::new();
    if !is_list(args.value()) {
        let class = python_class(args.value());
        return Err(args.failed(format!("items2dict requires a list, got {class} instead.")));
    }
    let items = args.list()?;
    for item in &items {
        let part = |name: &Value| {
            step(item, name).ok_or_else(|| {
                let (key, value, all) = (text(&key_name), text(&value_name), text(args.value()));
                if !is_dict(item) {
                    return args.failed(format!("items2dict requires a list of dictionaries, got {all} instead."));
                }
                args.failed_of(
                    format!(
                        "items2dict requires each dictionary in the list to contain the keys '{key}' and '{value}', \
                         got {all} instead."
                    ),
                    &format!("One without '{}' is {}.", text(name), super::call::shown(item)),
                )
            })
        };
        entries.push((part(&key_name)?, part(&value_name)?));
    }
    Ok(dict(entries))
}

pub(super) fn rekey_on_member(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let key = args.need("key")?;
    let overwrite = match args.text_of("duplicates").as_deref() {
        None | Some("error") => false,
        Some("overwrite") => true,
        Some(other) => {
            let sentence = format!("duplicates parameter to rekey_on_member has unknown value: {other}");
            return Err(args.says_of(sentence, "It can be 'error' or 'overwrite'."));
        }
    };
    let value = args.value();
    let members: Vec<Value> = match pairs(value) {
        Some(pairs) => pairs.into_iter().map(|(_, member)| member).collect(),
        None if is_list(value) => args.items()?,
        None => {
            let given = format!("It was given {}.", super::call::shown(value));
            return Err(args.failed_of("Type is not a valid list, set, or dict", &given));
        }
    };
    let mut rekeyed: IndexMap<Value, Value> = IndexMap::new();
    for member in members {
        if !is_dict(&member) {
            return Err(
                args.failed_of("List item is not a valid dict", &format!("It is {}.", super::call::shown(&member)))
            );
        }
        let Some(name) = step(&member, key) else {
            return Err(args.says_of(
                format!("Key {} was not found", text(key)),
                &format!("It is missing in {}.", super::call::shown(&member)),
            ));
        };
        if !overwrite && rekeyed.contains_key(&name) {
            return Err(args.says(format!("Key {} is not unique, cannot correctly turn into dict", text(&name))));
        }
        rekeyed.insert(name, member);
    }
    Ok(dict(rekeyed))
}
