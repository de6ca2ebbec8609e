//! `keep_keys`, `remove_keys` and `replace_keys` of ansible.utils (all levels) and of community.general (one level).

use std::sync::Arc;

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::container::{dict, is_dict, is_list, list, pairs};
use crate::python::regex::{Flags, Pattern, compile};
use crate::python::text;

/// Selects keys.
enum Matcher {
    Equal(Vec<String>),
    StartsWith(Vec<String>),
    EndsWith(Vec<String>),
    Regex(Vec<Arc<Pattern>>),
}

impl Matcher {
    fn new(args: &Arguments, targets: Vec<String>) -> Result<Matcher, minijinja::Error> {
        Ok(match args.text_of("matching_parameter").as_deref() {
            None | Some("equality" | "equal") => Matcher::Equal(targets),
            Some("starts_with") => Matcher::StartsWith(targets),
            Some("ends_with") => Matcher::EndsWith(targets),
            Some("regex") => {
                let patterns: Result<Vec<_>, String> =
                    targets.iter().map(|target| compile(target, Flags::default())).collect();
                Matcher::Regex(patterns.map_err(|reason| args.failed(reason))?)
            }
            Some(other) => {
                return Err(args.error(format!("matches by equality, starts_with, ends_with or regex, not '{other}'")));
            }
        })
    }

    /// Index of the target that matches the key.
    fn find(&self, key: &Value) -> Option<usize> {
        let key = text(key);
        match self {
            Matcher::Equal(targets) => targets.iter().position(|target| *target == key),
            Matcher::StartsWith(targets) => targets.iter().position(|target| key.starts_with(target)),
            Matcher::EndsWith(targets) => targets.iter().position(|target| key.ends_with(target)),
            Matcher::Regex(patterns) => patterns.iter().position(|pattern| pattern.is_match(&key).unwrap_or(false)),
        }
    }
}

fn targets(args: &Arguments) -> Result<Vec<String>, minijinja::Error> {
    let target = args.need("target")?;
    Ok(match is_list(target) {
        true => target.try_iter()?.map(|target| text(&target)).collect(),
        false => vec![text(target)],
    })
}

/// Old and new names for `replace_keys`.
fn renames(args: &Arguments) -> Result<(Vec<String>, Vec<String>), minijinja::Error> {
    let target = args.need("target")?;
    let mut found = (Vec::new(), Vec::new());
    for entry in target.try_iter()? {
        let part = |name: &str| entry.get_attr(name).ok().filter(|part| !part.is_undefined()).map(|part| text(&part));
        match (part("before"), part("after")) {
            (Some(before), Some(after)) => {
                found.0.push(before);
                found.1.push(after);
            }
            _ => return Err(args.wrong("target", "a list of dictionaries with 'before' and 'after'", target)),
        }
    }
    Ok(found)
}

/// Whether a container has nothing left to show.
fn is_empty(value: &Value) -> bool {
    (is_dict(value) || is_list(value)) && value.len() == Some(0)
}

pub(in crate::filters) fn keep(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let matcher = Matcher::new(args, targets(args)?)?;
    Ok(kept(args.value(), &matcher))
}

fn kept(value: &Value, matcher: &Matcher) -> Value {
    if is_list(value) {
        let items = value.try_iter().into_iter().flatten().filter(|item| is_dict(item) || is_list(item));
        return list(items.map(|item| kept(&item, matcher)).filter(|item| !is_empty(item)).collect());
    }
    let mut left = Vec::new();
    for (key, inner) in pairs(value).unwrap_or_default() {
        if matcher.find(&key).is_some() {
            left.push((key, inner));
        } else if is_dict(&inner) || is_list(&inner) {
            let inner = kept(&inner, matcher);
            if !is_empty(&inner) {
                left.push((key, inner));
            }
        }
    }
    dict(left)
}

pub(in crate::filters) fn remove(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let matcher = Matcher::new(args, targets(args)?)?;
    Ok(removed(args.value(), &matcher))
}

fn removed(value: &Value, matcher: &Matcher) -> Value {
    if is_list(value) {
        return list(value.try_iter().into_iter().flatten().map(|item| removed(&item, matcher)).collect());
    }
    match pairs(value) {
        None => value.clone(),
        Some(pairs) => {
            let left = pairs.into_iter().filter(|(key, _)| matcher.find(key).is_none());
            dict(left.map(|(key, inner)| (key, removed(&inner, matcher))))
        }
    }
}

pub(in crate::filters) fn replace(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (before, after) = renames(args)?;
    let matcher = Matcher::new(args, before)?;
    Ok(replaced(args.value(), &matcher, &after))
}

/// Replaces keys; a renamed key moves to the end.
fn replaced(value: &Value, matcher: &Matcher, after: &[String]) -> Value {
    if is_list(value) {
        return list(value.try_iter().into_iter().flatten().map(|item| replaced(&item, matcher, after)).collect());
    }
    let Some(pairs) = pairs(value) else {
        return value.clone();
    };
    let (mut same, mut renamed) = (Vec::new(), Vec::new());
    for (key, inner) in pairs {
        let inner = replaced(&inner, matcher, after);
        match matcher.find(&key).and_then(|index| after.get(index)) {
            Some(name) => renamed.push((Value::from(name.as_str()), inner)),
            None => same.push((key, inner)),
        }
    }
    same.extend(renamed);
    dict(same)
}

/// Dictionaries of the list that the flat filters process.
fn rows(args: &Arguments) -> Result<Vec<Vec<(Value, Value)>>, minijinja::Error> {
    let row = |item: Value| pairs(&item).ok_or_else(|| args.unsuitable("a list of dictionaries"));
    args.list()?.into_iter().map(row).collect()
}

pub(in crate::filters) fn keep_flat(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let matcher = Matcher::new(args, targets(args)?)?;
    let row = |row: Vec<(Value, Value)>| dict(row.into_iter().filter(|(key, _)| matcher.find(key).is_some()));
    Ok(list(rows(args)?.into_iter().map(row).collect()))
}

pub(in crate::filters) fn remove_flat(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let matcher = Matcher::new(args, targets(args)?)?;
    let row = |row: Vec<(Value, Value)>| dict(row.into_iter().filter(|(key, _)| matcher.find(key).is_none()));
    Ok(list(rows(args)?.into_iter().map(row).collect()))
}

pub(in crate::filters) fn replace_flat(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (before, after) = renames(args)?;
    let matcher = Matcher::new(args, before)?;
    let rename = |(key, value): (Value, Value)| match matcher.find(&key).and_then(|index| after.get(index)) {
        Some(name) => (Value::from(name.as_str()), value),
        None => (key, value),
    };
    Ok(list(rows(args)?.into_iter().map(|row| dict(row.into_iter().map(rename))).collect()))
}
