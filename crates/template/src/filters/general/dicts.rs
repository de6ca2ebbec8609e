//! Filters that build dictionaries.

use indexmap::IndexMap;
use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome, shown};
use crate::filters::dicts::{ListMerge, Merging, merge};
use crate::python::container::{dict, is_dict, is_list, items, list, step};
use crate::python::text;

pub(in crate::filters) fn from_pairs(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut entries = Vec::new();
    for pair in args.items()? {
        match items(&pair).as_deref() {
            Some([key, value]) => entries.push((key.clone(), value.clone())),
            _ => return Err(args.failed(format!("{} is not a pair", shown(&pair)))),
        }
    }
    Ok(dict(entries))
}

pub(in crate::filters) fn dict_kv(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(dict([(args.need("key")?.clone(), args.value().clone())]))
}

pub(in crate::filters) fn counter(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if is_dict(args.value()) {
        return Err(args.unsuitable("text or a list"));
    }
    let mut counts: IndexMap<Value, i64> = IndexMap::new();
    for item in args.items()? {
        *counts.entry(item).or_default() += 1;
    }
    Ok(dict(counts.into_iter().map(|(item, count)| (item, Value::from(count)))))
}

pub(in crate::filters) fn groupby_as_dict(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let attribute = args.need("attribute")?;
    let mut groups: IndexMap<Value, Value> = IndexMap::new();
    for (index, item) in args.list()?.into_iter().enumerate() {
        if !is_dict(&item) {
            return Err(args.failed(format!("the item {index} is not a dictionary")));
        }
        let Some(name) = step(&item, attribute) else {
            return Err(args.failed(format!("the item {index} has no '{}'", text(attribute))));
        };
        if groups.insert(name.clone(), item).is_some() {
            return Err(args.failed(format!("several items have the value {}", text(&name))));
        }
    }
    Ok(dict(groups))
}

pub(in crate::filters) fn lists_mergeby(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let Some((index, others)) = args.rest().split_last() else {
        return Err(args.error("needs the key by which to merge as its last argument"));
    };
    let name = args.text_of("list_merge").unwrap_or_else(|| "replace".to_owned());
    let Some(lists) = ListMerge::parse(&name) else {
        return Err(args.error(format!("knows no list_merge '{name}', only {}", ListMerge::NAMES)));
    };
    let merging = Merging { recursive: args.flag("recursive", false), lists };
    // A single list of lists stands for its items.
    let mut all: Vec<Vec<Value>> = Vec::new();
    for term in std::iter::once(args.value()).chain(others) {
        if !is_list(term) {
            return Err(args.failed(format!("{} is not a list", shown(term))));
        }
        let inner: Vec<Value> = term.try_iter()?.collect();
        match inner.first().is_some_and(is_list) {
            true => all.extend(inner.iter().map(|list| items(list).unwrap_or_default())),
            false => all.push(inner),
        }
    }
    if let [only] = all.as_slice() {
        return Ok(list(only.clone()));
    }
    let mut merged: IndexMap<Value, Value> = IndexMap::new();
    for item in all.into_iter().flatten() {
        if !is_dict(&item) {
            return Err(args.failed(format!("{} is not a dictionary", shown(&item))));
        }
        let Some(key) = step(&item, index) else { continue };
        let value = match merged.get(&key) {
            Some(old) => merge(old, &item, merging),
            None => item,
        };
        merged.insert(key, value);
    }
    let mut pairs: Vec<(Value, Value)> = merged.into_iter().collect();
    // Incomparable keys keep their order.
    let _ = crate::python::order::sort(&mut pairs, |(key, _)| key);
    Ok(list(pairs.into_iter().map(|(_, value)| value).collect()))
}
