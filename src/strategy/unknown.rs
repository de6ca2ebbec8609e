//! Results of tasks that check mode did not run.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_template::Value;

use crate::outcome::TaskResult;

/// A result of which only what is there is known.
#[derive(Debug)]
struct Partial {
    known: TaskResult,
    reason: String,
}

/// The value that `register` keeps of it.
pub(super) fn partial(result: &TaskResult, reason: &str) -> Value {
    Value::from_object(Partial { known: result.clone(), reason: reason.to_owned() })
}

impl Object for Partial {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        // Results that tests look at have their value even when they are absent.
        let absent = matches!(name, "failed" | "unreachable" | "skipped" | "changed" | "finished" | "timedout");
        match self.known.get(name) {
            Some(value) => Some(value.clone()),
            None if absent => None,
            None => Some(windlass_template::unknown(&*self.reason)),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let told = self.known.iter().filter(|(key, _)| !key.starts_with('_'));
        Enumerator::Values(told.map(|(key, _)| Value::from(&**key)).collect())
    }
}
