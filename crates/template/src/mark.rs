//! Values that stand for something else: undefined, not known yet, failed, left out.
//!
//! A mark travels through a template until something needs the value: printing it, comparing it, iterating over it is
//! the error the mark stands for. Attributes of a mark are the mark itself, and a filter or function that is given one
//! answers with it, so that `missing.a.b | default(x)` works however long the chain is.

use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{State, Value};
use windlass_yaml::Node;

use crate::classic;
use crate::error::{Error, ErrorKind};

/// What a value that cannot be used stands for.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A variable, key or attribute that does not exist.
    Undefined {
        /// Its name as written.
        name: String,
        /// The sentence to fail with.
        message: String,
        /// The sentence of ansible-core 2.18, if it is another one.
        classic: Option<String>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A value that is not known yet.
    Unknown(String),
    /// A variable or element whose template failed.
    Failed(Error),
    /// The result of `x if condition` without an else: prints as nothing.
    Nothing,
}

impl Mark {
    /// The error that using the value is.
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

    /// Whether it stands for something that does not exist, directly or because a template could not find it.
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

/// The mark a value is, if it is one.
pub(crate) fn mark(value: &Value) -> Option<&Mark> {
    value.downcast_object_ref::<Mark>()
}

/// The name of what does not exist, if that is what the value stands for.
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

/// Fails if a variable's template came to a mark that using the variable would fail with: the error is to say which
/// variables it came through, and where.
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

/// Whether it is what `x if condition` gives without an else: false as a condition, an empty text as an argument.
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

/// A value that fails with this error when it is used: for objects whose items may fail one by one, such as `hostvars`.
pub fn failed(error: Error) -> Value {
    Value::from_object(Mark::Failed(error))
}

/// A value of an object that is not ours: what minijinja calls an invalid value is one that fails when it is used.
pub(crate) fn valid(value: Value) -> Value {
    if value.kind() != ValueKind::Invalid {
        return value;
    }
    match Value::from(vec![value]).try_iter().map(|items| items.checked().next()) {
        Ok(Some(Err(error))) => failed(error.into()),
        _ => Value::UNDEFINED,
    }
}

/// An undefined value with its sentence.
pub(crate) fn missing(name: impl Into<String>, message: String, hint: Option<String>) -> Value {
    Value::from_object(Mark::Undefined { name: name.into(), message, classic: None, hint })
}

/// An undefined key or attribute of an object.
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

/// The result of `x if condition` without an else.
pub(crate) fn nothing() -> Value {
    static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::from_object(Mark::Nothing));
    NOTHING.clone()
}

/// An undefined value that remembers the name it was looked up by.
pub fn undefined(name: impl Into<String>) -> Value {
    let name = name.into();
    let message = format!("'{name}' is undefined.");
    missing(name, message, None)
}

/// A value that is not known yet, for check mode: an expression that touches it fails with
/// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown).
pub fn unknown(reason: impl Into<String>) -> Value {
    Value::from_object(Mark::Unknown(reason.into()))
}

/// Whether the value stands for something that does not exist. An unknown value exists.
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

/// The value of the variable `omit`: what evaluates to it is left out.
pub fn omit() -> Value {
    OMIT.clone()
}

/// Whether the value is [`omit`].
pub fn is_omit(value: &Value) -> bool {
    value.downcast_object_ref::<Omit>().is_some()
}
