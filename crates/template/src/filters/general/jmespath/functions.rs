//! Functions of JMESPath.
//!
//! The parameters of a function state the types that it takes: [`Call`] checks the number of arguments, and
//! [`Argument`] each type.

use std::cmp::Ordering;

use indexmap::IndexMap;
use jmespath::ast::Ast;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::{Found, evaluate, float, items, null};
use crate::filters::call::shown;
use crate::python::container::{dict, is_dict, is_list, list, pairs};
use crate::python::json::{DumpOptions, dump};
use crate::python::{number, order};

/// Calls a function by name.
pub(super) fn call(name: &str, arguments: &[Ast], data: &Value) -> Found {
    let call = Call { name, arguments, data };
    match name {
        "abs" => call.one(abs),
        "avg" => call.one(avg),
        "ceil" => call.one(|number| rounded(number, f64::ceil)),
        "contains" => call.two(|subject, wanted| contains(&call, &subject, &wanted)),
        "ends_with" => call.two(|subject: String, part: String| Ok(Value::from(subject.ends_with(&part)))),
        "floor" => call.one(|number| rounded(number, f64::floor)),
        "join" => call.two(|separator: String, Texts(texts)| Ok(Value::from(texts.join(&separator)))),
        "keys" => call.one(|Entries(entries)| Ok(list(entries.into_iter().map(|(key, _)| key).collect()))),
        "length" => call.one(|subject| length(&call, &subject)),
        "map" => call.two(map),
        "max" => call.one(|items| extreme(by_themselves(items), Ordering::Greater)),
        "max_by" => call.two(|items, key| extreme(keyed(items, key)?, Ordering::Greater)),
        "merge" => merge(&call),
        "min" => call.one(|items| extreme(by_themselves(items), Ordering::Less)),
        "min_by" => call.two(|items, key| extreme(keyed(items, key)?, Ordering::Less)),
        "not_null" => not_null(&call),
        "reverse" => call.one(reverse),
        "sort" => call.one(|items| sorted(by_themselves(items))),
        "sort_by" => call.two(|items, key| sorted(keyed(items, key)?)),
        "starts_with" => call.two(|subject: String, part: String| Ok(Value::from(subject.starts_with(&part)))),
        "sum" => call.one(sum),
        "to_array" => call.one(|value: Value| Ok(if is_list(&value) { value } else { list(vec![value]) })),
        "to_number" => call.one(to_number),
        "to_string" => call.one(to_string),
        "type" => call.one(type_of),
        "values" => call.one(|Entries(entries)| Ok(list(entries.into_iter().map(|(_, value)| value).collect()))),
        _ => Err(format!("there is no function {name}()")),
    }
}

/// A call of a function, with arguments that are not evaluated yet.
struct Call<'a> {
    name: &'a str,
    arguments: &'a [Ast],
    data: &'a Value,
}

impl<'a> Call<'a> {
    /// Runs a function of one argument.
    fn one<A: Argument<'a>>(&self, run: impl FnOnce(A) -> Found) -> Found {
        let [first] = self.arguments else { return Err(self.takes(1)) };
        run(A::read(self, first)?)
    }

    /// Runs a function of two arguments.
    fn two<A: Argument<'a>, B: Argument<'a>>(&self, run: impl FnOnce(A, B) -> Found) -> Found {
        let [first, second] = self.arguments else { return Err(self.takes(2)) };
        run(A::read(self, first)?, B::read(self, second)?)
    }

    fn takes(&self, wanted: usize) -> String {
        format!("{}() takes {wanted} arguments, not {}", self.name, self.arguments.len())
    }

    fn needs(&self, expected: &str, given: &Value) -> String {
        format!("{}() needs {expected}, but was given {}", self.name, shown(given))
    }
}

/// A type of arguments. The error of another type names the function.
trait Argument<'a>: Sized {
    fn read(call: &Call<'a>, argument: &'a Ast) -> Result<Self, String>;
}

impl Argument<'_> for Value {
    fn read(call: &Call<'_>, argument: &Ast) -> Found {
        evaluate(argument, call.data)
    }
}

impl Argument<'_> for String {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<String, String> {
        let value = evaluate(argument, call.data)?;
        value.as_str().map(str::to_owned).ok_or_else(|| call.needs("text", &value))
    }
}

impl Argument<'_> for Vec<Value> {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Vec<Value>, String> {
        let value = evaluate(argument, call.data)?;
        items(&value).ok_or_else(|| call.needs("a list", &value))
    }
}

/// A number as it was given, and as a float.
struct Number(Value, f64);

impl Argument<'_> for Number {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Number, String> {
        let value = evaluate(argument, call.data)?;
        let float = float(&value).ok_or_else(|| call.needs("a number", &value))?;
        Ok(Number(value, float))
    }
}

/// A list of numbers.
struct Numbers(Vec<Number>);

impl Argument<'_> for Numbers {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Numbers, String> {
        let number = |item: Value| match float(&item) {
            Some(float) => Ok(Number(item, float)),
            None => Err(call.needs("a list of numbers", &item)),
        };
        Ok(Numbers(Vec::read(call, argument)?.into_iter().map(number).collect::<Result<_, _>>()?))
    }
}

impl Numbers {
    fn total(&self) -> f64 {
        self.0.iter().fold(0.0, |total, Number(_, float)| total + float)
    }
}

/// A list of texts.
struct Texts(Vec<String>);

impl Argument<'_> for Texts {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Texts, String> {
        let text = |item: Value| item.as_str().map(str::to_owned).ok_or_else(|| call.needs("a list of texts", &item));
        Ok(Texts(Vec::read(call, argument)?.into_iter().map(text).collect::<Result<_, _>>()?))
    }
}

/// The entries of a dictionary.
struct Entries(Vec<(Value, Value)>);

impl Argument<'_> for Entries {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Entries, String> {
        let value = evaluate(argument, call.data)?;
        Ok(Entries(pairs(&value).ok_or_else(|| call.needs("a dictionary", &value))?))
    }
}

/// A text or a list.
enum Sequence {
    Text(String),
    List(Vec<Value>),
}

impl Argument<'_> for Sequence {
    fn read(call: &Call<'_>, argument: &Ast) -> Result<Sequence, String> {
        Sequence::of(call, &evaluate(argument, call.data)?)
    }
}

impl Sequence {
    fn of(call: &Call<'_>, value: &Value) -> Result<Sequence, String> {
        match (value.as_str(), items(value)) {
            (Some(text), _) => Ok(Sequence::Text(text.to_owned())),
            (None, Some(items)) => Ok(Sequence::List(items)),
            (None, None) => Err(call.needs("text or a list", value)),
        }
    }
}

/// An expression, such as `&name`, that the function evaluates for each item.
struct Expression<'a>(&'a Ast);

impl<'a> Argument<'a> for Expression<'a> {
    fn read(call: &Call<'a>, argument: &'a Ast) -> Result<Expression<'a>, String> {
        match argument {
            Ast::Expref { ast, .. } => Ok(Expression(ast)),
            _ => Err(format!("{}() needs an expression such as &name", call.name)),
        }
    }
}

fn abs(Number(value, float): Number) -> Found {
    if !value.is_integer() {
        return Ok(Value::from(float.abs()));
    }
    Ok(number::to_int(&value).map_or(value, |number| number::integer(number.abs())))
}

fn rounded(Number(value, float): Number, round: fn(f64) -> f64) -> Found {
    if value.is_integer() {
        return Ok(value);
    }
    let rounded = round(float);
    Ok(number::float_to_int(rounded).map_or_else(|| Value::from(rounded), number::integer))
}

fn avg(numbers: Numbers) -> Found {
    Ok(if numbers.0.is_empty() { null() } else { Value::from(numbers.total() / numbers.0.len() as f64) })
}

fn sum(numbers: Numbers) -> Found {
    if numbers.0.iter().any(|Number(value, _)| !value.is_integer()) {
        return Ok(Value::from(numbers.total()));
    }
    Ok(number::integer(numbers.0.iter().filter_map(|Number(value, _)| number::to_int(value)).sum()))
}

fn contains(call: &Call<'_>, subject: &Value, wanted: &Value) -> Found {
    Ok(Value::from(match Sequence::of(call, subject)? {
        Sequence::Text(text) => wanted.as_str().is_some_and(|wanted| text.contains(wanted)),
        Sequence::List(items) => items.contains(wanted),
    }))
}

fn reverse(subject: Sequence) -> Found {
    Ok(match subject {
        Sequence::Text(text) => Value::from(text.chars().rev().collect::<String>()),
        Sequence::List(items) => list(items.into_iter().rev().collect()),
    })
}

fn length(call: &Call<'_>, subject: &Value) -> Found {
    match subject.as_str() {
        Some(text) => Ok(Value::from(text.chars().count())),
        None if is_list(subject) || is_dict(subject) => Ok(Value::from(subject.len().unwrap_or_default())),
        None => Err(call.needs("text, a list or a dictionary", subject)),
    }
}

fn map(expression: Expression<'_>, items: Vec<Value>) -> Found {
    Ok(list(items.iter().map(|item| evaluate(expression.0, item)).collect::<Result<_, _>>()?))
}

fn merge(call: &Call<'_>) -> Found {
    let mut merged: IndexMap<Value, Value> = IndexMap::new();
    for argument in call.arguments {
        let part = evaluate(argument, call.data)?;
        merged.extend(pairs(&part).ok_or_else(|| call.needs("dictionaries", &part))?);
    }
    Ok(dict(merged))
}

/// The first argument that is not null; later ones are not evaluated.
fn not_null(call: &Call<'_>) -> Found {
    for argument in call.arguments {
        let found = evaluate(argument, call.data)?;
        if !found.is_none() {
            return Ok(found);
        }
    }
    Ok(null())
}

fn to_number(value: Value) -> Found {
    Ok(match value.as_str() {
        Some(text) => match number::parse_int(text, 10) {
            Some(number) => number::integer(number),
            None => number::parse_float(text).map_or_else(null, Value::from),
        },
        None if value.kind() == ValueKind::Number => value,
        None => null(),
    })
}

fn to_string(value: Value) -> Found {
    if value.as_str().is_some() {
        return Ok(value);
    }
    let options =
        DumpOptions { item_separator: ",".to_owned(), key_separator: ":".to_owned(), ..DumpOptions::default() };
    dump(&value, &options).map(Value::from)
}

fn type_of(value: Value) -> Found {
    Ok(Value::from(match value.kind() {
        ValueKind::Bool => "boolean",
        ValueKind::Number => "number",
        ValueKind::String => "string",
        ValueKind::Map => "object",
        ValueKind::Seq | ValueKind::Iterable => "array",
        _ => "null",
    }))
}

/// Items with the keys that they are compared by.
type Keyed = Vec<(Value, Value)>;

fn by_themselves(items: Vec<Value>) -> Keyed {
    items.into_iter().map(|item| (item.clone(), item)).collect()
}

fn keyed(items: Vec<Value>, key: Expression<'_>) -> Result<Keyed, String> {
    items.into_iter().map(|item| Ok((evaluate(key.0, &item)?, item))).collect()
}

fn sorted(mut items: Keyed) -> Found {
    order::sort(&mut items, |(key, _)| key)?;
    Ok(list(items.into_iter().map(|(_, item)| item).collect()))
}

/// The first of the items that no other exceeds in the wanted direction.
fn extreme(items: Keyed, wanted: Ordering) -> Found {
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
