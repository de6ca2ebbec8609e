//! Values that stand for something else: undefined, not known yet, left out.

use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};

/// Stands for a variable, key or attribute that does not exist, or whose value is not known yet.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) name: String,
    pub(crate) unknown: Option<String>,
}

impl Object for Mark {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::from_dyn_object(self.clone()))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }
}

/// An undefined value that remembers the name it was looked up by.
pub fn undefined(name: impl Into<String>) -> Value {
    Value::from_object(Mark { name: name.into(), unknown: None })
}

/// A value that is not known yet, for check mode: an expression that touches it fails with
/// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown).
pub fn unknown(reason: impl Into<String>) -> Value {
    Value::from_object(Mark { name: String::new(), unknown: Some(reason.into()) })
}

/// Whether the value stands for something that does not exist. An unknown value exists.
pub fn is_undefined(value: &Value) -> bool {
    value.is_undefined() || value.downcast_object_ref::<Mark>().is_some_and(|mark| mark.unknown.is_none())
}

#[derive(Debug)]
struct Omit;

impl Object for Omit {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<omit>")
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
