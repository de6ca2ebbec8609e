//! Methods of Python's str, list, dict and numbers, which templates call on values.

mod container;
mod string;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{State, Value};

use crate::error::Error;
use crate::limits;
use crate::mark::{self, mark};
use crate::plain;
use crate::python::type_name;

/// Calls a method. The environment calls this for methods that the value itself lacks.
pub(crate) fn call(
    _state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    mark::check(value)?;
    // Like a filter, a method returns an undefined argument as its result.
    if let Some(undefined) = arguments.iter().find(|argument| mark(argument).is_some()) {
        return Ok(undefined.clone());
    }
    limits::work(arguments.iter().chain([value]))?;
    match find(value, name, arguments) {
        Ok(Some(result)) => Ok(limits::value(result).unwrap_or_else(mark::failed)),
        // Either that key holds a callable, or the method does not exist.
        Ok(None) if value.as_object().is_some_and(|object| object.get_value(&Value::from(name)).is_some()) => {
            Err(minijinja::Error::from(minijinja::ErrorKind::UnknownMethod))
        }
        Ok(None) => Ok(mark::missing_of(
            value,
            &Value::from(name),
            name,
            format!("'{name}' is undefined: object of type '{}' has no attribute '{name}'.", type_name(value)),
            None,
        )),
        // A failure is only an error if the result is used.
        Err(error) => Ok(mark::failed(error)),
    }
}

fn find(value: &Value, name: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let arguments = Arguments::new(name, arguments)?;
    match value.kind() {
        ValueKind::String => string::call(value.as_str().unwrap_or_default(), name, &arguments),
        ValueKind::Seq | ValueKind::Iterable => container::list(value, name, &arguments),
        ValueKind::Map => container::dict(value, name, &arguments),
        ValueKind::Number | ValueKind::Bool => container::number(value, name, &arguments),
        ValueKind::Bytes => container::bytes(value, name, &arguments),
        _ => Ok(None),
    }
}

/// Converts an argument to plain data, except lists and dicts that the template can change.
fn kept(argument: &Value) -> Result<Value, Error> {
    if plain::is_mutable(argument) { Ok(argument.clone()) } else { plain::plain(argument) }
}

/// Attributes of a value other than its keys: `.real` of numbers, the parts of dates.
pub(crate) fn attribute(value: &Value, name: &str) -> Option<Value> {
    match (value.kind(), name) {
        (ValueKind::Number, "real") => Some(value.clone()),
        (ValueKind::Number, "imag") => Some(Value::from(0)),
        _ => None,
    }
}

/// Arguments of a method call.
pub(crate) struct Arguments<'a> {
    method: &'a str,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

impl<'a> Arguments<'a> {
    fn new(method: &'a str, arguments: &[Value]) -> Result<Arguments<'a>, Error> {
        let mut split = Arguments { method, positional: Vec::new(), named: Vec::new() };
        for argument in arguments {
            if argument.is_kwargs() {
                let kwargs = Kwargs::try_from(argument.clone())?;
                for name in kwargs.args() {
                    split.named.push((name.to_owned(), kept(&kwargs.peek::<Value>(name)?)?));
                }
            } else {
                split.positional.push(kept(argument)?);
            }
        }
        Ok(split)
    }

    /// Binds arguments to names; `None` for missing ones. The first `required` names are mandatory.
    fn bind<const N: usize>(&self, names: [&str; N], required: usize) -> Result<[Option<Value>; N], Error> {
        if self.positional.len() > N {
            return Err(self.error(&format!("takes at most {N} arguments, not {}", self.positional.len())));
        }
        let mut bound: [Option<Value>; N] = std::array::from_fn(|index| self.positional.get(index).cloned());
        for (name, value) in &self.named {
            match names.iter().position(|known| known == name) {
                Some(index) => bound[index] = Some(value.clone()),
                None => return Err(self.error(&format!("has no argument '{name}'"))),
            }
        }
        for (name, value) in names.iter().zip(&bound).take(required) {
            if value.is_none() {
                return Err(self.error(&format!("needs the argument '{name}'")));
            }
        }
        Ok(bound)
    }

    fn none(&self) -> Result<(), Error> {
        self.bind([], 0).map(|_: [Option<Value>; 0]| ())
    }

    fn error(&self, what: &str) -> Error {
        Error::filter(format!("The method `{}` {what}.", self.method))
    }

    /// Text of an argument, which must be text.
    fn text(&self, value: &Value) -> Result<String, Error> {
        match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(self.error(&format!("takes a string here, not a value of type '{}'", type_name(value)))),
        }
    }

    fn text_or(&self, value: Option<&Value>, default: &str) -> Result<String, Error> {
        value.map_or_else(|| Ok(default.to_owned()), |value| self.text(value))
    }

    /// Integer of an argument, which must be an integer.
    fn integer(&self, value: &Value) -> Result<i128, Error> {
        match i128::try_from(value.clone()) {
            Ok(number) => Ok(number),
            Err(_) => Err(self.error(&format!("takes an integer here, not a value of type '{}'", type_name(value)))),
        }
    }

    fn integer_or(&self, value: Option<&Value>, default: i128) -> Result<i128, Error> {
        value.filter(|value| !value.is_none()).map_or(Ok(default), |value| self.integer(value))
    }
}
