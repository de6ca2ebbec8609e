//! `lists_union` and similar filters: lists as sets that keep their order.

use indexmap::IndexSet;
use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome, shown};
use crate::filters::sets::{Nulls, flatten_into};
use crate::python::container::{is_list, items, list};
use crate::python::order;

/// All given lists; `flatten` unpacks a single list of lists.
fn given(args: &Arguments) -> Result<Vec<Vec<Value>>, minijinja::Error> {
    let mut terms: Vec<Value> = std::iter::once(args.value().clone()).chain(args.rest().iter().cloned()).collect();
    if args.flag("flatten", false) {
        let mut flat = Vec::new();
        for term in terms {
            let inner = items(&term)
                .filter(|_| is_list(&term))
                .ok_or_else(|| args.failed(format!("{} is not a list", shown(&term))))?;
            match inner.iter().any(is_list) {
                true => flat.extend(inner),
                false => flat.push(term),
            }
        }
        terms = flat;
    }
    terms
        .iter()
        .map(|term| {
            let mut plain = Vec::new();
            let inner = items(term)
                .filter(|_| is_list(term))
                .ok_or_else(|| args.failed(format!("{} is not a list", shown(term))))?;
            flatten_into(&inner, Some(0), Nulls::Kept, &mut plain);
            Ok(plain)
        })
        .collect()
}

fn keys(items: &[Value]) -> IndexSet<Value> {
    items.iter().map(order::hash_key).collect()
}

fn distinct(items: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut seen = IndexSet::new();
    items.into_iter().filter(|item| seen.insert(order::hash_key(item))).collect()
}

/// Items that are among the others.
fn within(items: Vec<Value>, others: &[Value]) -> Vec<Value> {
    let others = keys(others);
    items.into_iter().filter(|item| others.contains(&order::hash_key(item))).collect()
}

/// Items that are not among the others.
fn without(items: Vec<Value>, others: &[Value]) -> Vec<Value> {
    let others = keys(others);
    items.into_iter().filter(|item| !others.contains(&order::hash_key(item))).collect()
}

fn folded(args: &Arguments, fold: fn(Vec<Value>, &[Value]) -> Vec<Value>) -> Outcome {
    let mut lists = given(args)?.into_iter();
    let first = distinct(lists.next().unwrap_or_default());
    Ok(list(lists.fold(first, |result, next| fold(result, &next))))
}

pub(in crate::filters) fn union(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(list(distinct(given(args)?.into_iter().flatten())))
}

pub(in crate::filters) fn intersect(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    folded(args, within)
}

pub(in crate::filters) fn difference(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    folded(args, without)
}

pub(in crate::filters) fn symmetric_difference(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    folded(args, |result, next| {
        let new = without(distinct(next.iter().cloned()), &result);
        without(result, next).into_iter().chain(new).collect()
    })
}
