//! Binds the arguments of filters and tests to names, as Python does.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{State, Value};

use crate::limits;
use crate::python::container::{is_list, items, pairs};
use crate::python::{self, number, repr, text, type_name};
use crate::{Error, is_undefined};

/// Result of a filter.
pub(crate) type Outcome = Result<Value, minijinja::Error>;

/// Result of a test.
pub(crate) type Verdict = Result<bool, minijinja::Error>;

/// Names of a filter or test and of its arguments.
#[derive(Debug)]
pub(crate) struct Signature {
    /// `filter` or `test`.
    pub(crate) what: &'static str,
    pub(crate) name: &'static str,
    /// Names of the arguments after the value. Those after a `*` are keyword-only; `*name` takes the remaining
    /// positional ones, `**` any keyword.
    pub(crate) parameters: &'static [&'static str],
}

/// Arguments of one call.
#[derive(Debug)]
pub(crate) struct Arguments {
    signature: &'static Signature,
    value: Value,
    named: Vec<(&'static str, Value)>,
    rest: Vec<Value>,
    extra: Vec<(String, Value)>,
}

/// A line of a registry: names, parameters and the function.
macro_rules! function {
    ($what:literal, $make:ident, $wrap:ident, [$first:literal $(, $name:literal)*], [$($parameter:literal),*], $run:path) => {
        crate::registry::Function::$make(&[$first $(, $name)*], || {
            const SIGNATURE: crate::filters::call::Signature =
                crate::filters::call::Signature { what: $what, name: $first, parameters: &[$($parameter),*] };
            crate::filters::call::$wrap(&SIGNATURE, $run)
        })
    };
}

/// Declares a filter.
macro_rules! filter {
    ($names:tt, $parameters:tt, $run:path) => {
        crate::filters::call::function!("filter", new, callable, $names, $parameters, $run)
    };
}

/// Declares a filter that handles undefined values itself.
macro_rules! undefined_filter {
    ($names:tt, $parameters:tt, $run:path) => {
        crate::filters::call::function!("filter", with_undefined, callable, $names, $parameters, $run)
    };
}

/// Declares a test.
macro_rules! test {
    ($names:tt, $parameters:tt, $run:path) => {
        crate::filters::call::function!("test", new, verdict, $names, $parameters, $run)
    };
}

/// Declares a test that handles undefined values itself.
macro_rules! undefined_test {
    ($names:tt, $parameters:tt, $run:path) => {
        crate::filters::call::function!("test", with_undefined, verdict, $names, $parameters, $run)
    };
}

pub(crate) use {filter, function, test, undefined_filter, undefined_test};

/// Creates the callable of a filter.
pub(crate) fn callable(signature: &'static Signature, run: fn(&mut State<'_, '_>, &Arguments) -> Outcome) -> Value {
    Value::from_function(move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| -> Outcome {
        run(state, &Arguments::bind(signature, values.into_values())?)
    })
}

/// Creates the callable of a test.
pub(crate) fn verdict(signature: &'static Signature, run: fn(&mut State<'_, '_>, &Arguments) -> Verdict) -> Value {
    Value::from_function(move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| -> Verdict {
        run(state, &Arguments::bind(signature, values.into_values())?)
    })
}

impl Arguments {
    fn bind(signature: &'static Signature, values: Vec<Value>) -> Result<Arguments, minijinja::Error> {
        let mut bound =
            Arguments { signature, value: Value::UNDEFINED, named: Vec::new(), rest: Vec::new(), extra: Vec::new() };
        let variadic = signature.parameters.iter().any(|name| name.starts_with('*') && name.len() > 1 && *name != "**");
        let mut positional = signature.parameters.iter().take_while(|name| !name.starts_with('*')).copied();
        let mut values = values.into_iter();
        match values.next() {
            Some(value) if !value.is_kwargs() => bound.value = value,
            _ => return Err(bound.error("needs a value to work on")),
        }
        for value in values {
            if value.is_kwargs() {
                for key in value.try_iter()? {
                    let name = text(&key);
                    bound.bind_named(name, value.get_item(&key)?)?;
                }
            } else if let Some(name) = positional.next() {
                bound.named.push((name, value));
            } else if variadic {
                bound.rest.push(value);
            } else {
                return Err(bound.error("was given too many arguments"));
            }
        }
        Ok(bound)
    }

    fn bind_named(&mut self, name: String, value: Value) -> Result<(), minijinja::Error> {
        let known = self.signature.parameters.iter().copied().find(|parameter| *parameter == name);
        match known {
            Some(parameter) if self.get(parameter).is_some() => {
                Err(self.error(format!("was given its argument '{name}' twice")))
            }
            Some(parameter) => {
                self.named.push((parameter, value));
                Ok(())
            }
            None if self.signature.parameters.contains(&"**") => {
                self.extra.push((name, value));
                Ok(())
            }
            None => {
                let known: Vec<&str> =
                    self.signature.parameters.iter().filter(|known| !known.starts_with('*')).copied().collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(self.error(format!("has no argument '{name}'; it takes by name: {known}")))
            }
        }
    }

    /// The value before the bar or the `is`.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The value converted to text.
    pub(crate) fn text(&self) -> String {
        text(&self.value)
    }

    /// The value, which must be text.
    pub(crate) fn string(&self) -> Result<&str, minijinja::Error> {
        self.value.as_str().ok_or_else(|| self.unsuitable("text"))
    }

    /// Items of the value, which must be iterable.
    pub(crate) fn items(&self) -> Result<Vec<Value>, minijinja::Error> {
        items(&self.value).ok_or_else(|| self.unsuitable("a list"))
    }

    /// Items of the value, which must be a list.
    pub(crate) fn list(&self) -> Result<Vec<Value>, minijinja::Error> {
        if is_list(&self.value) { self.items() } else { Err(self.unsuitable("a list")) }
    }

    /// Pairs of the value, which must be a dictionary.
    pub(crate) fn pairs(&self) -> Result<Vec<(Value, Value)>, minijinja::Error> {
        pairs(&self.value).ok_or_else(|| self.unsuitable("a dictionary"))
    }

    /// An argument, if it was given.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        debug_assert!(self.signature.parameters.contains(&name), "{name} is not a parameter");
        self.named.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// An argument, unless it is missing or `none`.
    pub(crate) fn some(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_none())
    }

    /// A mandatory argument.
    pub(crate) fn need(&self, name: &str) -> Result<&Value, minijinja::Error> {
        self.get(name).ok_or_else(|| self.error(format!("needs the argument '{name}'")))
    }

    /// An argument converted to text.
    pub(crate) fn text_of(&self, name: &str) -> Option<String> {
        self.some(name).map(text)
    }

    /// An argument for Python's `re`, which must be text already.
    pub(crate) fn expression(&self, name: &str) -> Result<&str, minijinja::Error> {
        match self.get(name) {
            None => Ok(""),
            Some(value) => value.as_str().ok_or_else(|| self.wrong(name, "text", value)),
        }
    }

    /// A mandatory argument converted to text.
    pub(crate) fn need_text(&self, name: &str) -> Result<String, minijinja::Error> {
        self.need(name).map(text)
    }

    /// Whether an argument is true.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, python::truth)
    }

    /// An argument that must be an integer.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i128>, minijinja::Error> {
        match self.some(name) {
            None => Ok(None),
            Some(value) if value.is_integer() || value.kind() == ValueKind::Bool => Ok(number::to_int(value)),
            Some(value) => Err(self.wrong(name, "an integer", value)),
        }
    }

    /// A size given as an argument. A negative number counts as 0; one above the longest text is an error.
    pub(crate) fn size(&self, name: &str, default: usize) -> Result<usize, minijinja::Error> {
        let size = self.integer(name)?.map_or(default, |number| usize::try_from(number.max(0)).unwrap_or(usize::MAX));
        let most = limits::longest_text();
        if size > most {
            return Err(self.error(format!("was given {size} as '{name}', where at most {most} is possible")));
        }
        Ok(size)
    }

    /// Positional arguments beyond the named ones.
    pub(crate) fn rest(&self) -> &[Value] {
        &self.rest
    }

    /// Keyword arguments that the signature does not list.
    pub(crate) fn extra(&self) -> &[(String, Value)] {
        &self.extra
    }

    /// Creates an error about this call; the reason continues "The filter 'x' ...".
    pub(crate) fn error(&self, reason: impl AsRef<str>) -> minijinja::Error {
        let Signature { what, name, .. } = self.signature;
        Error::filter(format!("The {what} '{name}' {}.", reason.as_ref().trim_end_matches('.'))).into()
    }

    /// Creates an error about this call in Ansible's own words, which playbooks compare.
    pub(crate) fn says(&self, sentence: impl AsRef<str>) -> minijinja::Error {
        let Signature { what, name, .. } = self.signature;
        let sentence = sentence.as_ref();
        Error::filter(format!("The {what} '{name}' failed: {}.", sentence.trim_end_matches('.')))
            .with_sentence(sentence)
            .into()
    }

    /// Like [`Self::says`], with a hint that Ansible lacks.
    pub(crate) fn says_of(&self, sentence: impl AsRef<str>, hint: &str) -> minijinja::Error {
        Error::from(self.says(sentence)).with_hint(Some(hint.to_owned())).into()
    }

    /// Creates an error about this call whose reason is a complete sentence.
    pub(crate) fn failed(&self, reason: impl AsRef<str>) -> minijinja::Error {
        self.error(format!("failed: {}", reason.as_ref()))
    }

    /// Like [`Self::failed`], with a hint.
    pub(crate) fn failed_of(&self, reason: impl AsRef<str>, hint: &str) -> minijinja::Error {
        Error::from(self.failed(reason)).with_hint(Some(hint.to_owned())).into()
    }

    /// Error for a value of the wrong type.
    pub(crate) fn unsuitable(&self, expected: &str) -> minijinja::Error {
        self.error(format!("needs {expected} to work on, but was given {}", shown(&self.value)))
    }

    /// Error for an argument of the wrong type.
    pub(crate) fn wrong(&self, name: &str, expected: &str, value: &Value) -> minijinja::Error {
        self.error(format!("needs {expected} as its argument '{name}', but was given {}", shown(value)))
    }
}

/// Describes a value in an error: its type, and its text if that is short.
pub(crate) fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    let name = type_name(value);
    if value.is_none() {
        return "none".to_owned();
    }
    if is_undefined(value) {
        return "an undefined value".to_owned();
    }
    let shown = repr(value);
    if shown.chars().count() > LONGEST { format!("a value of type {name}") } else { format!("the {name} {shown}") }
}
