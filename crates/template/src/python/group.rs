//! Result of `groupby`: a tuple whose two items also have names.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

/// One group: `(grouper, list)`.
#[derive(Debug)]
pub(crate) struct Group {
    grouper: Value,
    list: Value,
}

impl Group {
    /// Creates a group value.
    pub(crate) fn value(grouper: Value, members: Vec<Value>) -> Value {
        Value::from_object(Group { grouper, list: Value::from(members) })
    }
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_str(), key.as_usize()) {
            (Some("grouper"), _) | (_, Some(0)) => Some(self.grouper.clone()),
            (Some("list"), _) | (_, Some(1)) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}
