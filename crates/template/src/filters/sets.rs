//! Filters for lists as sets and for combinations of lists.

use indexmap::IndexSet;
use minijinja::{State, Value};

use super::attribute;
use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::container::{is_dict, is_list, items, list, step, tuple};
use crate::python::{order, repr, text};

type Set = IndexSet<Value>;

/// Both lists, with their members as set keys.
fn both(args: &Arguments) -> Result<(Vec<Value>, Vec<Value>), minijinja::Error> {
    let other = args.need("other")?;
    let other = items(other).ok_or_else(|| args.wrong("other", "a list", other))?;
    Ok((args.items()?, other))
}

fn keys(items: &[Value]) -> Set {
    items.iter().map(order::hash_key).collect()
}

fn distinct(items: impl Iterator<Item = Value>) -> Value {
    let mut seen = Set::new();
    list(items.filter(|item| seen.insert(order::hash_key(item))).collect())
}

pub(super) fn intersect(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (one, other) = both(args)?;
    let other = keys(&other);
    Ok(distinct(one.into_iter().filter(|item| other.contains(&order::hash_key(item)))))
}

pub(super) fn difference(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (one, other) = both(args)?;
    let other = keys(&other);
    Ok(distinct(one.into_iter().filter(|item| !other.contains(&order::hash_key(item)))))
}

pub(super) fn symmetric_difference(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (one, other) = both(args)?;
    let (first, second) = (keys(&one), keys(&other));
    let in_both = |item: &Value| {
        let key = order::hash_key(item);
        first.contains(&key) && second.contains(&key)
    };
    Ok(distinct(one.into_iter().chain(other).filter(|item| !in_both(item))))
}

pub(super) fn union(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (one, other) = both(args)?;
    Ok(distinct(one.into_iter().chain(other)))
}

pub(super) fn flatten(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let levels = args.integer("levels")?;
    let mut flat = Vec::new();
    let nulls = if args.flag("skip_nulls", true) { Nulls::Skipped } else { Nulls::Kept };
    flatten_into(&args.items()?, levels, nulls, &mut flat);
    Ok(list(flat))
}

/// Treatment of null in lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    Kept,
    Skipped,
}

/// Flattens nested lists, down to `levels` below the first.
pub(crate) fn flatten_into(items: &[Value], levels: Option<i128>, nulls: Nulls, flat: &mut Vec<Value>) {
    for item in items {
        let null = item.is_none() || matches!(item.as_str(), Some("None" | "null"));
        if nulls == Nulls::Skipped && null {
            continue;
        }
        match is_list(item) && levels.is_none_or(|levels| levels >= 1) {
            true => {
                let inner: Vec<Value> = item.try_iter().into_iter().flatten().collect();
                flatten_into(&inner, levels.map(|levels| levels - 1), nulls, flat);
            }
            false => flat.push(item.clone()),
        }
    }
}

pub(super) fn zip(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let columns = columns(args)?;
    let rows = columns.iter().map(Vec::len).min().unwrap_or_default();
    Ok(list((0..rows).map(|row| tuple(columns.iter().map(|column| column[row].clone()).collect())).collect()))
}

pub(super) fn zip_longest(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let columns = columns(args)?;
    let fill = args.get("fillvalue").cloned().unwrap_or_else(|| Value::from(()));
    let rows = columns.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |column: &Vec<Value>, row: usize| column.get(row).unwrap_or(&fill).clone();
    Ok(list((0..rows).map(|row| tuple(columns.iter().map(|column| cell(column, row)).collect())).collect()))
}

fn columns(args: &Arguments) -> Result<Vec<Vec<Value>>, minijinja::Error> {
    let mut columns = vec![args.items()?];
    for other in args.rest() {
        columns.push(items(other).ok_or_else(|| args.wrong("others", "lists", other))?);
    }
    Ok(columns)
}

/// Maximum number of results; more are surely a mistake.
pub(crate) const MOST_RESULTS: usize = 5_000_000;

/// Maximum number of lists to combine.
const MOST_LISTS: usize = 1_000;

pub(super) fn product(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let columns = columns(args)?;
    let repeat = args.size("repeat", 1)?;
    if columns.len().saturating_mul(repeat) > MOST_LISTS {
        return Err(args.failed("there are too many lists"));
    }
    let columns: Vec<&Vec<Value>> = (0..repeat).flat_map(|_| columns.iter()).collect();
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for column in columns {
        if rows.len().saturating_mul(column.len()) > MOST_RESULTS {
            return Err(args.failed("the lists have too many combinations"));
        }
        let length = rows.first().map_or(0, Vec::len) + 2;
        limits::take_values(rows.len().saturating_mul(column.len()).saturating_mul(length))?;
        let extend = |row: &Vec<Value>| {
            column.iter().map(|item| [row.as_slice(), std::slice::from_ref(item)].concat()).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(extend).collect();
    }
    Ok(list(rows.into_iter().map(tuple).collect()))
}

pub(super) fn combinations(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let items = args.items()?;
    args.need("set_size")?;
    let size = args.size("set_size", 0)?;
    let mut chosen: Vec<usize> = (0..size).collect();
    let mut results = Vec::new();
    if size > items.len() {
        return Ok(list(results));
    }
    loop {
        limits::take_values(size + 1)?;
        results.push(tuple(chosen.iter().map(|&index| items[index].clone()).collect()));
        if too_many(results.len(), size) {
            return Err(args.failed("the list has too many combinations"));
        }
        let Some(position) = (0..size).rev().find(|&position| chosen[position] != position + items.len() - size) else {
            return Ok(list(results));
        };
        chosen[position] += 1;
        for after in position + 1..size {
            chosen[after] = chosen[after - 1] + 1;
        }
    }
}

pub(super) fn permutations(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let items = args.items()?;
    let size = args.size("set_size", items.len())?;
    if size > items.len() {
        return Ok(list(Vec::new()));
    }
    let count = (items.len() - size + 1..=items.len()).fold(1, usize::saturating_mul);
    if too_many(count, size) {
        return Err(args.failed("the list has too many permutations"));
    }
    limits::take_values(count.saturating_mul(size + 1))?;
    let mut results = Vec::with_capacity(count);
    permute(&items, size, &mut Vec::new(), &mut results);
    Ok(list(results))
}

/// Whether there are too many results; long ones count several times.
fn too_many(results: usize, size: usize) -> bool {
    results.saturating_mul(size.max(4) / 4) > MOST_RESULTS
}

fn permute(items: &[Value], size: usize, chosen: &mut Vec<usize>, results: &mut Vec<Value>) {
    if chosen.len() == size {
        results.push(tuple(chosen.iter().map(|&index| items[index].clone()).collect()));
        return;
    }
    for index in 0..items.len() {
        if !chosen.contains(&index) {
            chosen.push(index);
            permute(items, size, chosen, results);
            chosen.pop();
        }
    }
}

pub(super) fn extract(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut path = vec![args.value().clone()];
    match args.some("morekeys") {
        Some(more) if is_list(more) => path.extend(more.try_iter()?),
        Some(more) => path.push(more.clone()),
        None => {}
    }
    let mut current = args.need("container")?.clone();
    for key in path {
        if crate::is_undefined(&current) {
            return Ok(current);
        }
        current = step(&current, &key).unwrap_or_else(|| attribute::absent(&current, &key));
    }
    Ok(current)
}

pub(super) fn subelements(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    let elements: Vec<Value> = if is_dict(value) {
        args.pairs()?.into_iter().map(|(_, element)| element).collect()
    } else if is_list(value) {
        args.items()?
    } else {
        return Err(args.says("obj must be a list of dicts or a nested dict"));
    };
    let wanted = args.need("subelements")?;
    let path: Vec<Value> = match wanted.as_str() {
        Some(path) => path.split('.').map(Value::from).collect(),
        None if is_list(wanted) => wanted.try_iter()?.collect(),
        None => return Err(args.failed("subelements must be a list or a string")),
    };
    let missing = if args.flag("skip_missing", false) { Missing::KeysSkipped } else { Missing::Error };
    subelement_pairs(&elements, &path, missing)
        .map_err(|reason| match reason.starts_with("could not find") {
            true => args.says(reason),
            false => args.failed(reason),
        })
        .map(list)
}

/// Treatment of an element in which the path of `subelements` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The element is an error.
    Error,
    /// The element is skipped if a key is missing, but an error if a step is not a dictionary.
    KeysSkipped,
    /// The element is skipped.
    Skipped,
}

/// Pairs each element with each item of the list at `path` in it.
pub(crate) fn subelement_pairs(elements: &[Value], path: &[Value], missing: Missing) -> Result<Vec<Value>, String> {
    let mut pairs = Vec::new();
    for element in elements {
        let mut current = element.clone();
        let mut skipped = false;
        for key in path {
            let found = if is_dict(&current) { step(&current, key) } else { None };
            match found {
                Some(found) => current = found,
                None if missing == Missing::Skipped || (missing == Missing::KeysSkipped && is_dict(&current)) => {
                    skipped = true;
                    break;
                }
                None if is_dict(&current) => {
                    return Err(format!("could not find {} key in iterated item {}", repr(key), repr(&current)));
                }
                None => {
                    let (key, found) = (text(key), text(&current));
                    return Err(format!("the key {key} should point to a dictionary, got '{found}'"));
                }
            }
        }
        if skipped {
            continue;
        }
        if !is_list(&current) {
            let last = path.last().map(repr).unwrap_or_default();
            return Err(format!("the key {last} should point to a list, got {}", repr(&current)));
        }
        pairs.extend(current.try_iter().into_iter().flatten().map(|item| tuple(vec![element.clone(), item])));
    }
    Ok(pairs)
}
