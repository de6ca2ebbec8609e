//! Results of tasks that check mode did not run.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_template::Value;

use crate::outcome::TaskResult;

/// A result whose absent fields are unknown.
#[derive(Debug)]
struct Partial {
    known: TaskResult,
    reason: String,
}

/// Value that `register` stores for a partial result.
pub(super) fn partial(result: &TaskResult, reason: &str) -> Value {
    Value::from_object(Partial { known: result.clone(), reason: reason.to_owned() })
}

impl Object for Partial {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        // These fields are known to be absent, so tests such as `is changed` have an answer.
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
