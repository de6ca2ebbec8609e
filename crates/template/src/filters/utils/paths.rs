//! `get_path`, `to_paths` and `index_of`.

use minijinja::{State, Value};

use crate::filters::attribute::absent;
use crate::filters::call::{Arguments, Outcome};
use crate::python::container::{dict, is_dict, is_list, list, step};
use crate::python::text;
use crate::registry::call_test;

/// Keys of a path such as `a.b[0]['c d']`.
fn parse(path: &str) -> Option<Vec<Value>> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|first| *first == '\'' || *first == '"');
            let (key, after) = match quote {
                Some(quote) => inside[1..].split_once(&format!("{quote}]"))?,
                None => inside.split_once(']')?,
            };
            keys.push(match (quote, key.parse::<i64>()) {
                (None, Ok(index)) => Value::from(index),
                _ => Value::from(key),
            });
            rest = after;
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            if end == 0 {
                return None;
            }
            keys.push(match plain[..end].parse::<i64>() {
                Ok(index) => Value::from(index),
                Err(_) => Value::from(&plain[..end]),
            });
            rest = &plain[end..];
        }
    }
    Some(keys)
}

pub(in crate::filters) fn get_path(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let path = args.need_text("path")?;
    let keys = parse(&path).ok_or_else(|| args.error(format!("cannot understand the path '{path}'")))?;
    let mut current = args.value().clone();
    for key in keys {
        current = match step(&current, &key).or_else(|| step(&current, &Value::from(text(&key)))) {
            Some(found) => found,
            None => return Ok(absent(&current, &key)),
        };
    }
    Ok(if args.flag("wantlist", false) && !is_list(&current) { list(vec![current]) } else { current })
}

pub(in crate::filters) fn to_paths(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut paths = Vec::new();
    collect(args.value(), &args.text_of("prepend").unwrap_or_default(), &mut paths);
    let paths = dict(paths);
    Ok(if args.flag("wantlist", false) { list(vec![paths]) } else { paths })
}

fn collect(value: &Value, prefix: &str, paths: &mut Vec<(Value, Value)>) {
    if is_list(value) && value.len() != Some(0) {
        for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
            collect(&item, &format!("{prefix}[{index}]"), paths);
        }
    } else if let (Some(pairs), true) = (crate::python::container::pairs(value), value.len() != Some(0)) {
        for (key, inner) in pairs {
            let name = text(&key);
            let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let path = match (plain, prefix.is_empty()) {
                (true, true) => name,
                (true, false) => format!("{prefix}.{name}"),
                (false, _) if name.contains('\'') => format!("{prefix}[\"{name}\"]"),
                (false, _) if key.as_str().is_none() => format!("{prefix}[{name}]"),
                (false, _) => format!("{prefix}['{name}']"),
            };
            collect(&inner, &path, paths);
        }
    } else {
        paths.push((Value::from(prefix), value.clone()));
    }
}

pub(in crate::filters) fn index_of(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let test = args.need_text("test")?;
    let (test, wanted) = match test.strip_prefix("not ").or_else(|| test.strip_prefix('!').filter(|rest| *rest != "="))
    {
        Some(test) => (test.trim().to_owned(), false),
        None => (test, true),
    };
    let key = args.some("key");
    let mut found = Vec::new();
    for (index, entry) in args.list()?.into_iter().enumerate() {
        let subject = match key {
            None => entry,
            Some(_) if !is_dict(&entry) => return Err(args.failed("with a key, all items must be dictionaries")),
            Some(key) => match step(&entry, key) {
                Some(subject) => subject,
                None if args.flag("fail_on_missing", false) => {
                    return Err(args.failed(format!("the item {index} has no key '{}'", text(key))));
                }
                None => continue,
            },
        };
        let mut arguments = vec![subject];
        arguments.extend(args.some("value").cloned());
        if call_test(state, &test, &arguments)? == wanted {
            found.push(Value::from(index));
        }
    }
    Ok(match found.as_slice() {
        [only] if !args.flag("wantlist", false) => only.clone(),
        _ => list(found),
    })
}
