//! Status of a task: derived from the result of its action, `changed_when` and `failed_when`, and whether the task
//! ignores a failure.

use std::sync::Arc;

use windlass_template::{Context, ErrorKind, Variable, Variables};

use crate::outcome::{TaskResult, Unknown, truth};
use crate::playbook::Task;
use crate::settings::Settings;
use crate::vars::{given, is_boolean};

/// Keywords of a task that decide how its result counts.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) task: &'a Task,
    pub(super) settings: &'a Settings,
}

impl Judge<'_> {
    /// Derives the task's status from the action's result.
    pub(super) fn weigh(&self, context: &Context, check: bool, attempt: Option<u64>, result: &mut TaskResult) {
        if result.exits_badly() {
            result.set("failed", true);
            if result.get("msg").is_none() {
                result.set("msg", "non-zero return code");
            }
        }
        if check && result.is_skipped() {
            result.set_predicted();
            if self.settings.plans {
                result.set_unknown(Unknown::NotRun);
            }
        }
        if let Some(attempt) = attempt {
            result.set("attempts", attempt);
        }
        // The task's conditions may read it.
        if !result.is_skipped() && result.get("failed").is_none() {
            result.set("failed", false);
        }
        if !result.is_skipped() && self.has_verdict() {
            self.apply_verdict(&self.with_registered(context, result), result);
        }
    }

    /// Whether the task overrides its status with `changed_when` or `failed_when`.
    pub(super) fn has_verdict(&self) -> bool {
        ["changed_when", "failed_when"].iter().any(|name| self.task.keywords.get(name).is_some())
    }

    /// Applies `changed_when` and `failed_when`.
    fn apply_verdict(&self, context: &Context, result: &mut TaskResult) {
        let decide = |name: &str| -> Result<Option<bool>, windlass_template::Error> {
            let conditions = self.task.keywords.list(name);
            if conditions.is_empty() {
                return Ok(None);
            }
            for condition in &conditions {
                if !context.condition(condition)? {
                    return Ok(Some(false));
                }
            }
            Ok(Some(true))
        };
        let is_unknown = |error: &windlass_template::Error| self.settings.plans && error.is_unknown();
        // If the condition cannot be evaluated, the action's own `changed` remains.
        match decide("changed_when") {
            Ok(None) => {}
            Ok(Some(changed)) => result.set("changed", changed),
            Err(error) if is_unknown(&error) => result.set_unknown(depends("its changed_when", &error)),
            Err(error) => return unjudged(result, "changed_when_result", &error),
        }
        match decide("failed_when") {
            Ok(None) => {}
            Ok(Some(failed)) => {
                result.set("failed_when_result", failed);
                result.set("failed", failed);
            }
            Err(error) if is_unknown(&error) => result.set_unknown(depends("its failed_when", &error)),
            Err(error) => unjudged(result, "failed_when_result", &error),
        }
    }

    /// Variables with the result under the name that the task registers.
    pub(super) fn with_registered(&self, context: &Context, result: &TaskResult) -> Context {
        match &self.task.register {
            None => context.clone(),
            Some(name) => context.with(Variables::from_iter([(Arc::clone(name), Variable::Data(result.to_value()))])),
        }
    }

    /// Whether `ignore_errors` holds. A value that is not a boolean counts as true: Ansible tests it as written.
    pub(super) fn ignores_errors(&self, context: &Context) -> bool {
        let Some(node) = self.task.keyword("ignore_errors") else { return false };
        match given(context, node) {
            Ok(Some(value)) => truth(&value) || value.as_str().is_some_and(|text| !is_boolean(text)),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether the task ignores this failure or unreachable host.
    pub(super) fn forgives(&self, context: &Context, result: &TaskResult) -> bool {
        (result.failed() && self.ignores_errors(context))
            || (result.is_unreachable() && self.holds(context, "ignore_unreachable"))
    }

    /// Whether a keyword is true.
    pub(super) fn holds(&self, context: &Context, keyword: &str) -> bool {
        self.task.keyword(keyword).and_then(|node| given(context, node).ok()?).is_some_and(|value| truth(&value))
    }
}

/// Reason for an unknown result whose part cannot be evaluated.
pub(super) fn depends(part: &'static str, error: &windlass_template::Error) -> Unknown {
    let on = match error.kind() {
        ErrorKind::Unknown { reason } => reason.clone(),
        _ => error.to_string(),
    };
    Unknown::Depends { part, on }
}

/// Fails a task whose `changed_when` or `failed_when` cannot be evaluated.
fn unjudged(result: &mut TaskResult, key: &str, error: &windlass_template::Error) {
    result.set(key, error.to_string());
    result.set("failed", true);
}
