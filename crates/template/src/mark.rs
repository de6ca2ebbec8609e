//! Placeholders for values that are undefined, not yet known, failed or omitted.
//!
//! A mark passes through a template until something needs the value. Printing, comparing or iterating over it is then
//! an error. Attributes of a mark are the mark itself, and a filter or function returns a mark that it gets as an
//! argument. So `missing.a.b | default(x)` works for a chain of any length.

use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{State, Value};
use windlass_yaml::Node;

use crate::classic;
use crate::error::{Error, ErrorKind};

/// Reason why a value cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A variable, key or attribute does not exist.
    Undefined {
        /// Name as written.
        name: String,
        /// Error message.
        message: String,
        /// Message of ansible-core 2.18, if different.
        classic: Option<String>,
        /// Suggested remedy.
        hint: Option<String>,
    },
    /// A value is not yet known.
    Unknown(String),
    /// The template of a variable or element failed.
    Failed(Error),
    /// Result of `x if condition` without an else; prints as nothing.
    Nothing,
}

impl Mark {
    /// The error of using the value.
    pub(crate) fn error(&self) -> Error {
        match self {
            Mark::Undefined { name, message, classic, hint } => {
                Error::new(ErrorKind::Undefined { name: name.clone() }, message.clone())
                    .with_classic(classic.as_deref())
                    .with_hint(hint.clone())
            }
            Mark::Unknown(reason) => Error::new(
                ErrorKind::Unknown { reason: reason.clone() },
                format!("The value is not known yet: {reason}."),
            ),
            Mark::Failed(error) => error.clone(),
            Mark::Nothing => Error::new(
                ErrorKind::Undefined { name: String::new() },
                "The inline `if` has no `else`, and its condition is false, so that there is no value.",
            ),
        }
    }

    /// Whether the mark means a missing value, directly or through a template that needed one.
    fn is_undefined(&self) -> bool {
        match self {
            Mark::Undefined { .. } | Mark::Nothing => true,
            Mark::Unknown(_) => false,
            Mark::Failed(error) => error.is_undefined(),
        }
    }
}

impl Object for Mark {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::from_dyn_object(self.clone()))
    }

    fn get_value_by_str(self: &Arc<Self>, _key: &str) -> Option<Value> {
        Some(Value::from_dyn_object(self.clone()))
    }

    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, _args: &[Value]) -> Result<Value, minijinja::Error> {
        Ok(Value::from_dyn_object(self.clone()))
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        _method: &str,
        _args: &[Value],
    ) -> Result<Value, minijinja::Error> {
        Ok(Value::from_dyn_object(self.clone()))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// The mark in a value, if it is one.
pub(crate) fn mark(value: &Value) -> Option<&Mark> {
    value.downcast_object_ref::<Mark>()
}

/// Name of the missing variable or key, if the value is a mark of one.
pub(crate) fn name(value: &Value) -> Option<&str> {
    match mark(value)? {
        Mark::Undefined { name, .. } => Some(name),
        _ => None,
    }
}

/// Fails if the value is a mark.
pub(crate) fn check(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(nameless());
    }
    match mark(value) {
        Some(mark) => Err(mark.error()),
        None => Ok(()),
    }
}

/// Fails if a variable's template resulted in an undefined or failed mark. The error can then name the variables it
/// passed through and their positions.
pub(crate) fn check_passing(value: &Value, node: &Node) -> Result<(), Error> {
    match mark(value) {
        Some(mark @ (Mark::Undefined { .. } | Mark::Failed(_))) => {
            let error = mark.error();
            Err(match node.as_str() {
                Some(text) => error.with_expression(text),
                None => error,
            })
        }
        _ => Ok(()),
    }
}

/// Whether the value is the result of `x if condition` without an else. It is false as a condition and empty as an
/// argument.
pub(crate) fn is_nothing(value: &Value) -> bool {
    matches!(mark(value), Some(Mark::Nothing))
}

/// Fails if the value is a mark that is neither true nor false.
pub(crate) fn check_condition(value: &Value) -> Result<(), Error> {
    if is_nothing(value) { Ok(()) } else { check(value) }
}

fn nameless() -> Error {
    Error::new(ErrorKind::Undefined { name: String::new() }, "A parameter of the macro has no value.")
}

/// Creates a value that fails with this error on use, for objects such as `hostvars` whose items may fail separately.
pub fn failed(error: Error) -> Value {
    Value::from_object(Mark::Failed(error))
}

/// Converts a value of a foreign object: an invalid value of minijinja becomes one that fails on use.
pub(crate) fn valid(value: Value) -> Value {
    if value.kind() != ValueKind::Invalid {
        return value;
    }
    match Value::from(vec![value]).try_iter().map(|items| items.checked().next()) {
        Ok(Some(Err(error))) => failed(error.into()),
        _ => Value::UNDEFINED,
    }
}

/// Creates an undefined value with its message.
pub(crate) fn missing(name: impl Into<String>, message: String, hint: Option<String>) -> Value {
    Value::from_object(Mark::Undefined { name: name.into(), message, classic: None, hint })
}

/// Creates an undefined value for a key or attribute of an object.
pub(crate) fn missing_of(
    object: &Value,
    key: &Value,
    name: impl Into<String>,
    message: String,
    hint: Option<String>,
) -> Value {
    let name = name.into();
    let classic = Some(classic::lacks(object, key, &name));
    Value::from_object(Mark::Undefined { name, message, classic, hint })
}

/// Creates the result of `x if condition` without an else.
pub(crate) fn nothing() -> Value {
    static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::from_object(Mark::Nothing));
    NOTHING.clone()
}

/// Creates an undefined value that remembers the name it was looked up by.
pub fn undefined(name: impl Into<String>) -> Value {
    let name = name.into();
    let message = format!("'{name}' is undefined.");
    missing(name, message, None)
}

/// Creates a value that is not yet known, for check mode. An expression that uses it fails with
/// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown).
pub fn unknown(reason: impl Into<String>) -> Value {
    Value::from_object(Mark::Unknown(reason.into()))
}

/// Reason why a value is not yet known; `None` if it is known.
pub fn unknown_reason(value: &Value) -> Option<String> {
    match mark(value) {
        Some(Mark::Unknown(reason)) => Some(reason.clone()),
        _ => None,
    }
}

/// Whether the value is a mark of something missing. An unknown value is not missing.
pub fn is_undefined(value: &Value) -> bool {
    value.is_undefined() || mark(value).is_some_and(Mark::is_undefined)
}

#[derive(Debug)]
struct Omit;

impl Object for Omit {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<<Omit>>")
    }
}

static OMIT: LazyLock<Value> = LazyLock::new(|| Value::from_object(Omit));

/// The value of the variable `omit`; parts that evaluate to it are left out.
pub fn omit() -> Value {
    OMIT.clone()
}

/// Whether the value is [`omit`].
pub fn is_omit(value: &Value) -> bool {
    value.downcast_object_ref::<Omit>().is_some()
}
