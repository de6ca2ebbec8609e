//! Functions of JMESPath.

use std::cmp::Ordering;

use indexmap::IndexMap;
use jmespath::ast::Ast;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::{Found, evaluate, float, items, null};
use crate::filters::call::{dict, is_dict, is_list, list, pairs, shown};
use crate::python::json::{DumpOptions, dump};
use crate::python::{number, order};

/// Calls a function by name.
pub(super) fn call(name: &str, args: &[Ast], data: &Value) -> Found {
    let count = |wanted: usize| match args.len() == wanted {
        true => Ok(()),
        false => Err(format!("{name}() takes {wanted} arguments, not {}", args.len())),
    };
    let value = |index: usize| -> Found {
        match args.get(index) {
            Some(ast) => evaluate(ast, data),
            None => Err(format!("{name}() needs more arguments")),
        }
    };
    let wrong = |expected: &str, value: &Value| format!("{name}() needs {expected}, but was given {}", shown(value));
    let number_at = |index| {
        let value = value(index)?;
        float(&value).ok_or_else(|| wrong("a number", &value))
    };
    let text_at = |index| -> Result<String, String> {
        let value = value(index)?;
        value.as_str().map(str::to_owned).ok_or_else(|| wrong("text", &value))
    };
    let list_at = |index| {
        let value = value(index)?;
        items(&value).ok_or_else(|| wrong("a list", &value))
    };
    let expression = |index: usize| match args.get(index) {
        Some(Ast::Expref { ast, .. }) => Ok(ast.as_ref()),
        _ => Err(format!("{name}() needs an expression such as &name")),
    };
    match name {
        "abs" | "ceil" | "floor" => {
            count(1)?;
            let given = value(0)?;
            let exact = given.is_integer();
            let number = number_at(0)?;
            Ok(match name {
                "abs" if exact => number::to_int(&given).map_or(given, |number| number::integer(number.abs())),
                "abs" => Value::from(number.abs()),
                _ if exact => given,
                "ceil" => whole(number.ceil()),
                _ => whole(number.floor()),
            })
        }
        "avg" | "sum" => {
            count(1)?;
            let items = list_at(0)?;
            let mut total = 0.0;
            for item in &items {
                total += float(item).ok_or_else(|| wrong("a list of numbers", item))?;
            }
            Ok(match name {
                "avg" if items.is_empty() => null(),
                "avg" => Value::from(total / items.len() as f64),
                _ if items.iter().all(Value::is_integer) => {
                    number::integer(items.iter().filter_map(number::to_int).sum())
                }
                _ => Value::from(total),
            })
        }
        "contains" => {
            count(2)?;
            let (subject, wanted) = (value(0)?, value(1)?);
            match (subject.as_str(), items(&subject)) {
                (Some(subject), _) => Ok(Value::from(wanted.as_str().is_some_and(|wanted| subject.contains(wanted)))),
                (None, Some(items)) => Ok(Value::from(items.contains(&wanted))),
                _ => Err(wrong("text or a list", &subject)),
            }
        }
        "ends_with" | "starts_with" => {
            count(2)?;
            let (subject, part) = (text_at(0)?, text_at(1)?);
            Ok(Value::from(if name == "ends_with" { subject.ends_with(&part) } else { subject.starts_with(&part) }))
        }
        "join" => {
            count(2)?;
            let separator = text_at(0)?;
            let texts: Result<Vec<String>, String> = list_at(1)?
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong("a list of texts", item)))
                .collect();
            Ok(Value::from(texts?.join(&separator)))
        }
        "keys" | "values" => {
            count(1)?;
            let subject = value(0)?;
            let pairs = pairs(&subject).ok_or_else(|| wrong("a dictionary", &subject))?;
            Ok(list(pairs.into_iter().map(|(key, value)| if name == "keys" { key } else { value }).collect()))
        }
        "length" => {
            count(1)?;
            let subject = value(0)?;
            match subject.as_str() {
                Some(text) => Ok(Value::from(text.chars().count())),
                None if is_list(&subject) || is_dict(&subject) => Ok(Value::from(subject.len().unwrap_or_default())),
                None => Err(wrong("text, a list or a dictionary", &subject)),
            }
        }
        "map" => {
            count(2)?;
            let expression = expression(0)?;
            Ok(list(list_at(1)?.iter().map(|item| evaluate(expression, item)).collect::<Result<_, _>>()?))
        }
        "max" | "min" => {
            count(1)?;
            let keyed = list_at(0)?.into_iter().map(|item| (item.clone(), item)).collect();
            extreme(keyed, if name == "max" { Ordering::Greater } else { Ordering::Less })
        }
        "max_by" | "min_by" => {
            count(2)?;
            extreme(
                keyed(list_at(0)?, expression(1)?)?,
                if name == "max_by" { Ordering::Greater } else { Ordering::Less },
            )
        }
        "sort" => {
            count(1)?;
            let mut items = list_at(0)?;
            order::sort(&mut items, |item| item)?;
            Ok(list(items))
        }
        "sort_by" => {
            count(2)?;
            let mut items = keyed(list_at(0)?, expression(1)?)?;
            order::sort(&mut items, |(key, _)| key)?;
            Ok(list(items.into_iter().map(|(_, item)| item).collect()))
        }
        "merge" => {
            let mut merged: IndexMap<Value, Value> = IndexMap::new();
            for index in 0..args.len() {
                let part = value(index)?;
                merged.extend(pairs(&part).ok_or_else(|| wrong("dictionaries", &part))?);
            }
            Ok(dict(merged))
        }
        "not_null" => {
            for index in 0..args.len() {
                let found = value(index)?;
                if !found.is_none() {
                    return Ok(found);
                }
            }
            Ok(null())
        }
        "reverse" => {
            count(1)?;
            let subject = value(0)?;
            match (subject.as_str(), items(&subject)) {
                (Some(text), _) => Ok(Value::from(text.chars().rev().collect::<String>())),
                (None, Some(items)) => Ok(list(items.into_iter().rev().collect())),
                _ => Err(wrong("text or a list", &subject)),
            }
        }
        "to_array" => {
            count(1)?;
            let subject = value(0)?;
            Ok(if is_list(&subject) { subject } else { list(vec![subject]) })
        }
        "to_number" => {
            count(1)?;
            let subject = value(0)?;
            Ok(match subject.as_str() {
                Some(text) => match number::parse_int(text, 10) {
                    Some(number) => number::integer(number),
                    None => number::parse_float(text).map_or_else(null, Value::from),
                },
                None if subject.kind() == ValueKind::Number => subject,
                None => null(),
            })
        }
        "to_string" => {
            count(1)?;
            let subject = value(0)?;
            if subject.as_str().is_some() {
                return Ok(subject);
            }
            let options =
                DumpOptions { item_separator: ",".to_owned(), key_separator: ":".to_owned(), ..DumpOptions::default() };
            dump(&subject, &options).map(Value::from)
        }
        "type" => {
            count(1)?;
            let subject = value(0)?;
            Ok(Value::from(match subject.kind() {
                ValueKind::Bool => "boolean",
                ValueKind::Number => "number",
                ValueKind::String => "string",
                ValueKind::Map => "object",
                ValueKind::Seq | ValueKind::Iterable => "array",
                _ => "null",
            }))
        }
        _ => Err(format!("there is no function {name}()")),
    }
}

fn whole(number: f64) -> Value {
    number::float_to_int(number).map_or_else(|| Value::from(number), number::integer)
}

/// Pairs each item with the expression's result for it.
fn keyed(items: Vec<Value>, expression: &Ast) -> Result<Vec<(Value, Value)>, String> {
    items.into_iter().map(|item| Ok((evaluate(expression, &item)?, item))).collect()
}

fn extreme(items: Vec<(Value, Value)>, wanted: Ordering) -> Found {
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Ok(null());
    };
    for candidate in items {
        if order::compare(&candidate.0, &best.0)? == wanted {
            best = candidate;
        }
    }
    Ok(best.1)
}
