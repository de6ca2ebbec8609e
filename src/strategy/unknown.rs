//! Results of tasks that check mode did not run.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_template::Value;

use crate::outcome::{Effect, SetFacts, TaskResult, Unknown};
use crate::output::first_line;
use crate::playbook::{Task, label};

/// Length of a reason in bytes beyond which a chain of unknown results is shortened.
const CHAIN: usize = 400;

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

/// A result that a plan cannot know. Unlike [`Partial`], even whether it changed something is unknown.
#[derive(Debug)]
struct Planned {
    /// Values of fields, known or not. A container of unknown values is unknown as a whole once it is rendered.
    fields: IndexMap<Arc<str>, Value>,
    unknown: Value,
}

/// Value that `register` stores for a result that a plan cannot know.
pub(super) fn planned(task: &Arc<Task>, result: &TaskResult, why: &Unknown) -> Value {
    let unknown = windlass_template::unknown(reason(task, why));
    // Values of a task that was not run are placeholders, and items of a loop may hold them.
    let is_real = |key: &str| match key {
        "changed" | "failed" | "failed_when_result" | "results" => false,
        _ => !result.is_skipped() || key == "cmd",
    };
    let mut fields: IndexMap<Arc<str>, Value> = IndexMap::from([(Arc::from("changed"), unknown.clone())]);
    for (key, value) in result.registered() {
        fields.insert(Arc::clone(key), if is_real(key) { value.clone() } else { unknown.clone() });
    }
    if *why == Unknown::NotRun {
        fields.insert(Arc::from("skipped"), Value::from(false));
        let is_ignored = ["ignore_errors", "failed_when"].iter().any(|name| task.keyword(name).is_some());
        if !is_ignored {
            fields.insert(Arc::from("failed"), Value::from(false));
        }
        if task.changes_nothing() {
            fields.insert(Arc::from("changed"), Value::from(false));
        }
    }
    Value::from_object(Planned { fields, unknown })
}

/// Names the result of a task with the reason why it is unknown.
fn reason(task: &Arc<Task>, why: &Unknown) -> String {
    let name = label::of_task(task, None);
    match why {
        Unknown::NotRun => format!("the result of '{name}', which is not run in check mode"),
        Unknown::Depends { on, .. } if on.len() > CHAIN => {
            format!("the result of '{name}', which depends on a long chain of unknown results")
        }
        Unknown::Depends { on, .. } => format!("the result of '{name}', which depends on {on}"),
        Unknown::Fails(_) => format!("the result of '{name}', which fails on the host as it is"),
    }
}

/// Unknown result that replaces a failure in a plan, because earlier tasks would change the host first.
pub(super) fn too_early(failure: &TaskResult) -> TaskResult {
    let mut skipped = TaskResult::skipped("not known in check mode: earlier tasks would change the host");
    skipped.set_predicted();
    skipped.set_unknown(Unknown::Fails(first_line(&failure.to_json())));
    skipped
}

/// Makes the variables of a `set_fact` unknown that a plan cannot evaluate.
pub(super) fn with_facts(task: &Arc<Task>, result: TaskResult) -> TaskResult {
    let (Some(why), "set_fact") = (result.unknown(), task.short_action()) else { return result };
    let reason = match why {
        Unknown::NotRun | Unknown::Fails(_) => return result,
        Unknown::Depends { on, .. } => {
            format!("a variable set by '{}', which depends on {on}", label::of_task(task, None))
        }
    };
    let names = task.args.iter().map(|(name, _)| name.to_text()).filter(|name| name != "cacheable");
    let vars = names.map(|name| (Arc::from(name), windlass_template::unknown(&*reason))).collect();
    result.with_effect(Effect::SetFacts(SetFacts { vars, cacheable: false, origins: Vec::new() }))
}

impl Object for Planned {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        match self.fields.get(name) {
            Some(value) => Some(value.clone()),
            // A host that cannot be reached ends the plan; no job is running.
            None if matches!(name, "unreachable" | "finished" | "started" | "timedout") => None,
            None => Some(self.unknown.clone()),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields.keys().map(|key| Value::from(&**key)).collect())
    }
}
