//! Python's classes as values, for `__class__`.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};

/// A class, identified by name.
#[derive(Debug)]
pub(crate) struct Class(pub(crate) &'static str);

impl Class {
    /// Whether a value is a class.
    pub(crate) fn is(value: &Value) -> bool {
        value.downcast_object_ref::<Class>().is_some()
    }

    fn module(&self) -> &'static str {
        match self.0 {
            "AnsibleUnicode" | "AnsibleVaultEncryptedUnicode" => "ansible.parsing.yaml.objects.",
            "AnsibleUnsafeText" | "NativeJinjaUnsafeText" => "ansible.utils.unsafe_proxy.",
            "NativeJinjaText" => "ansible.utils.native_jinja.",
            "AnsibleUndefined" => "ansible.template.native_helpers.",
            "date" | "datetime" | "timedelta" => "datetime.",
            _ => "",
        }
    }
}

impl Object for Class {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        matches!(key.as_str(), Some("__name__" | "__qualname__")).then(|| Value::from(self.0))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<std::cmp::Ordering> {
        other.downcast_ref::<Class>().map(|other| self.0.cmp(other.0))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<class '{}{}'>", self.module(), self.0)
    }
}
