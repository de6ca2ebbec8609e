//! `json_query`: JMESPath on template values.
//!
//! The crate jmespath parses the expression. Evaluation happens here, because the crate's own values would sort the
//! keys of dictionaries and lose large numbers.

mod functions;

use jmespath::Variable;
use jmespath::ast::{Ast, Comparator};
use minijinja::value::ValueKind;
use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::container::{dict, is_dict, is_list, list, pairs, step};
use crate::python::{json, number, order};

/// Result of an expression; the error is a sentence.
type Found = Result<Value, String>;

pub(in crate::filters) fn json_query(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let expression = args.need_text("expr")?;
    let ast = jmespath::parse(&with_quoted_literals(&expression)).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        args.error(format!("cannot understand the expression '{expression}': {reason}"))
    })?;
    evaluate(&ast, args.value()).map_err(|reason| args.failed(format!("{reason} in '{expression}'")))
}

/// Quotes literals that are not JSON, such as `` `WA` ``, because Python reads them as text.
fn with_quoted_literals(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len());
    let mut characters = expression.chars();
    let mut quote = None;
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('`', None) => {
                let mut inside = String::new();
                let mut escaped = false;
                for next in characters.by_ref() {
                    match next {
                        '`' if escaped => {
                            inside.pop();
                            inside.push('`');
                        }
                        '`' => break,
                        other => inside.push(other),
                    }
                    escaped = next == '\\' && !escaped;
                }
                let json = match json::load(&inside) {
                    Ok(_) => inside,
                    Err(_) => {
                        json::dump(&Value::from(inside.trim()), &json::DumpOptions::default()).unwrap_or_default()
                    }
                };
                out.push_str(&format!("`{}`", json.replace('`', "\\`")));
                continue;
            }
            ('\'' | '"', None) => quote = Some(character),
            ('\\', Some(_)) => {
                out.push(character);
                out.extend(characters.next());
                continue;
            }
            (character, Some(open)) if character == open => quote = None,
            _ => {}
        }
        out.push(character);
    }
    out
}

fn null() -> Value {
    Value::from(())
}

/// JMESPath's truth: false, null and empty values are false; all numbers, also 0, are true.
fn truth(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Bool => value.is_true(),
        ValueKind::Number => true,
        ValueKind::None | ValueKind::Undefined => false,
        _ => value.is_true(),
    }
}

/// Items of a list; `None` for other values.
fn items(value: &Value) -> Option<Vec<Value>> {
    is_list(value).then(|| value.try_iter().into_iter().flatten().collect())
}

fn literal(value: &Variable) -> Value {
    match value {
        Variable::Null | Variable::Expref(_) => null(),
        Variable::String(text) => Value::from(text.as_str()),
        Variable::Bool(value) => Value::from(*value),
        Variable::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Variable::Array(items) => list(items.iter().map(|item| literal(item)).collect()),
        Variable::Object(entries) => {
            dict(entries.iter().map(|(key, value)| (Value::from(key.as_str()), literal(value))))
        }
    }
}

fn evaluate(ast: &Ast, data: &Value) -> Found {
    Ok(match ast {
        Ast::Identity { .. } => data.clone(),
        Ast::Field { name, .. } => match is_dict(data) {
            true => step(data, &Value::from(name.as_str())).unwrap_or_else(null),
            false => null(),
        },
        Ast::Index { idx, .. } => match is_list(data) {
            true => step(data, &Value::from(*idx)).unwrap_or_else(null),
            false => null(),
        },
        Ast::Literal { value, .. } => literal(value),
        Ast::Subexpr { lhs, rhs, .. } => {
            let left = evaluate(lhs, data)?;
            evaluate(rhs, &left)?
        }
        Ast::Or { lhs, rhs, .. } => {
            let left = evaluate(lhs, data)?;
            if truth(&left) { left } else { evaluate(rhs, data)? }
        }
        Ast::And { lhs, rhs, .. } => {
            let left = evaluate(lhs, data)?;
            if truth(&left) { evaluate(rhs, data)? } else { left }
        }
        Ast::Not { node, .. } => Value::from(!truth(&evaluate(node, data)?)),
        Ast::Condition { predicate, then, .. } => match truth(&evaluate(predicate, data)?) {
            true => evaluate(then, data)?,
            false => null(),
        },
        Ast::Comparison { comparator, lhs, rhs, .. } => {
            compare(comparator, &evaluate(lhs, data)?, &evaluate(rhs, data)?)
        }
        Ast::ObjectValues { node, .. } => match pairs(&evaluate(node, data)?) {
            Some(pairs) => list(pairs.into_iter().map(|(_, value)| value).collect()),
            None => null(),
        },
        Ast::Projection { lhs, rhs, .. } => match items(&evaluate(lhs, data)?) {
            Some(items) => {
                let mut found = Vec::new();
                for item in items {
                    let value = evaluate(rhs, &item)?;
                    if !value.is_none() {
                        found.push(value);
                    }
                }
                list(found)
            }
            None => null(),
        },
        Ast::Flatten { node, .. } => match items(&evaluate(node, data)?) {
            Some(outer) => {
                let inner = |item: Value| items(&item).unwrap_or_else(|| vec![item]);
                list(outer.into_iter().flat_map(inner).collect())
            }
            None => null(),
        },
        Ast::MultiList { .. } | Ast::MultiHash { .. } if data.is_none() => null(),
        Ast::MultiList { elements, .. } => {
            list(elements.iter().map(|element| evaluate(element, data)).collect::<Result<_, _>>()?)
        }
        Ast::MultiHash { elements, .. } => {
            let mut entries = Vec::new();
            for element in elements {
                entries.push((Value::from(element.key.as_str()), evaluate(&element.value, data)?));
            }
            dict(entries)
        }
        Ast::Slice { start, stop, step, .. } => match items(data) {
            Some(items) => sliced(&items, *start, *stop, *step)?,
            None => null(),
        },
        Ast::Function { name, args, .. } => functions::call(name, args, data)?,
        Ast::Expref { .. } => return Err("an expression reference stands where a value is needed".to_owned()),
    })
}

fn sliced(items: &[Value], start: Option<i32>, stop: Option<i32>, step: i32) -> Found {
    if step == 0 {
        return Err("a slice cannot have a step of 0".to_owned());
    }
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let bound = |place: Option<i32>, default: i64, lowest: i64, highest: i64| match place.map(i64::from) {
        None => default,
        Some(place) if place < 0 => (place + length).max(lowest),
        Some(place) => place.min(highest),
    };
    let (mut at, end) = match step > 0 {
        true => (bound(start, 0, 0, length), bound(stop, length, 0, length)),
        false => (bound(start, length - 1, -1, length - 1), bound(stop, -1, -1, length - 1)),
    };
    let mut taken = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        taken.extend(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned());
        at += i64::from(step);
    }
    Ok(list(taken))
}

/// Booleans only equal booleans, although Python considers `1` and `true` equal.
fn equal(left: &Value, right: &Value) -> bool {
    (left.kind() == ValueKind::Bool) == (right.kind() == ValueKind::Bool) && left == right
}

/// As in the specification, only numbers have an order; other comparisons yield null.
fn compare(comparator: &Comparator, left: &Value, right: &Value) -> Value {
    let ordered = |test: fn(std::cmp::Ordering) -> bool| {
        let comparable = left.kind() == ValueKind::Number && right.kind() == ValueKind::Number
            || left.as_str().is_some() && right.as_str().is_some();
        match comparable.then(|| order::compare(left, right)) {
            Some(Ok(ordering)) => Value::from(test(ordering)),
            _ => null(),
        }
    };
    match comparator {
        Comparator::Equal => Value::from(equal(left, right)),
        Comparator::NotEqual => Value::from(!equal(left, right)),
        Comparator::LessThan => ordered(std::cmp::Ordering::is_lt),
        Comparator::LessThanEqual => ordered(std::cmp::Ordering::is_le),
        Comparator::GreaterThan => ordered(std::cmp::Ordering::is_gt),
        Comparator::GreaterThanEqual => ordered(std::cmp::Ordering::is_ge),
    }
}

/// Number as a float.
fn float(value: &Value) -> Option<f64> {
    if value.kind() == ValueKind::Number { number::as_float(value) } else { None }
}
