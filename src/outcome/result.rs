use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use windlass_template::Value;

use super::{Effect, HostResult};
use crate::action::Arguments;

/// A result: Ansible's keys in the order they were set.
#[derive(Debug, Clone, Default)]
pub struct TaskResult {
    values: IndexMap<Arc<str>, Value, RandomState>,
    /// What went wrong, with the place in the project's files, where the message alone does not say it.
    report: Option<Arc<str>>,
    /// The message says nothing of the place: the report is needed.
    is_bare: bool,
    /// What to do about it: told the user, and no part of what tasks see.
    advice: Option<Arc<str>>,
    /// The action gave up before it began; then nothing is said about whether it failed.
    is_given_up: bool,
    /// What the action was called with, if it failed.
    args: Option<Arc<Arguments>>,
    effects: Vec<Effect>,
    traits: Traits,
}

/// Attributes that the controller keeps beside the data of a result.
#[derive(Debug, Clone, Copy, Default)]
struct Traits {
    is_always_shown: bool,
    is_secret: bool,
    is_predicted: bool,
    is_interrupted: bool,
}

impl From<HostResult> for TaskResult {
    fn from(answer: HostResult) -> TaskResult {
        let HostResult { values, facts, is_interrupted, .. } = answer;
        let traits = Traits { is_interrupted, ..Traits::default() };
        TaskResult { values, effects: facts.map(Effect::Facts).into_iter().collect(), traits, ..TaskResult::default() }
    }
}

impl TaskResult {
    /// An empty result: not changed, not failed.
    pub fn new() -> TaskResult {
        TaskResult::default()
    }

    /// A result that went well.
    pub fn ok(changed: bool) -> TaskResult {
        TaskResult::new().with("changed", changed)
    }

    /// A failure with this sentence.
    pub fn failure(message: impl Into<String>) -> TaskResult {
        TaskResult::new().with("changed", false).with("failed", true).with("msg", message.into())
    }

    /// Keeps only these keys, for showing; the report goes too.
    pub fn only(&self, keys: &[&str]) -> TaskResult {
        let kept = self.values.iter().filter(|(key, _)| keys.contains(&&***key));
        TaskResult {
            values: kept.map(|(key, value)| (Arc::clone(key), value.clone())).collect(),
            ..TaskResult::default()
        }
    }

    /// A skipped task and why.
    pub fn skipped(reason: &str) -> TaskResult {
        TaskResult::new().with("changed", false).with("skipped", true).with("skip_reason", reason)
    }

    /// A task whose action does nothing, and why.
    pub fn given_up(reason: &str) -> TaskResult {
        let result = TaskResult::ok(false).with("skipped", true).with("msg", reason);
        TaskResult { is_given_up: true, ..result }
    }

    /// Whether the action gave up before it began.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Adds a change of the run. Only actions of the controller make one.
    pub fn with_effect(mut self, effect: Effect) -> TaskResult {
        self.effects.push(effect);
        self
    }

    /// The changes of the run besides the registered result.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Shows the result in full also without `-v`, as the results of `debug` are.
    pub fn always_shown(mut self) -> TaskResult {
        self.traits.is_always_shown = true;
        self
    }

    /// Whether it is printed in full also without `-v`.
    pub fn is_always_shown(&self) -> bool {
        self.traits.is_always_shown
    }

    /// Hides the result as under `no_log`.
    pub fn secret(mut self) -> TaskResult {
        self.traits.is_secret = true;
        self
    }

    /// Whether it is hidden as under `no_log`.
    pub fn is_secret(&self) -> bool {
        self.traits.is_secret
    }

    /// Notes that check mode did not run the task, so that values that are missing are unknown.
    pub fn set_predicted(&mut self) {
        self.traits.is_predicted = true;
    }

    /// Whether check mode did not run the task.
    pub fn is_predicted(&self) -> bool {
        self.traits.is_predicted
    }

    /// Notes that it is unknown, or not told any more, what the task changed.
    pub fn interrupted(mut self) -> TaskResult {
        self.traits.is_interrupted = true;
        self
    }

    /// Whether the module ended without an answer of its own, so that it is unknown what it changed.
    pub fn is_interrupted(&self) -> bool {
        self.traits.is_interrupted
    }

    /// With the whole story of a failure.
    pub fn with_report(mut self, report: String) -> TaskResult {
        self.report = Some(report.into());
        self
    }

    /// With a message that says nothing of the place, which only the report does.
    pub fn bare(mut self) -> TaskResult {
        self.is_bare = true;
        self
    }

    /// Whether only the report says where it failed.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// The whole story of a failure, if there is more to say than its message.
    pub fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// With what to do about a failure, if something is known.
    pub fn with_advice(mut self, advice: Option<&str>) -> TaskResult {
        self.advice = advice.map(Arc::from);
        self
    }

    /// What to do about a failure.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// With what the action was called with.
    pub fn with_args(mut self, args: Option<Arguments>) -> TaskResult {
        self.args = args.map(Arc::new);
        self
    }

    /// What the action was called with, if it failed and was not a loop.
    pub fn args(&self) -> Option<&Arguments> {
        self.args.as_deref()
    }

    /// With a key.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> TaskResult {
        self.set(key, value);
        self
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(key.into(), value.into());
    }

    /// With the lines of its output, which every result has besides its output.
    pub fn with_lines(mut self) -> TaskResult {
        for (stream, lines) in [("stdout", "stdout_lines"), ("stderr", "stderr_lines")] {
            if let (Some(text), None) = (self.get(stream), self.get(lines)) {
                let split = windlass_modules::text::lines(text.as_str().unwrap_or_default());
                self.set(lines, split.into_iter().map(Value::from).collect::<Value>());
            }
        }
        self
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.values.shift_remove(key)
    }

    /// A key's value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A key's text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Whether a key is there and true.
    pub fn is(&self, key: &str) -> bool {
        self.get(key).is_some_and(crate::vars::truth)
    }

    /// Something is different now.
    pub fn changed(&self) -> bool {
        self.is("changed")
    }

    /// It failed. What `failed_when` says, for the task or an item of its loop, counts more than `until` that was never met.
    pub fn failed(&self) -> bool {
        let judged = |value: &Value| value.get_attr("failed_when_result").ok().filter(|value| !value.is_undefined());
        let holds = |value: &Value| windlass_template::truth(value);
        if let Some(value) = self.get("failed_when_result") {
            return holds(value);
        }
        let items = self.get("results").and_then(|results| results.try_iter().ok()).into_iter().flatten();
        let mut verdicts = items.filter_map(|item| judged(&item)).peekable();
        if verdicts.peek().is_some() { verdicts.any(|value| holds(&value)) } else { self.is("failed") }
    }

    /// Its command ended with another code than 0, and nothing says whether that is a failure.
    pub fn exits_badly(&self) -> bool {
        self.get("failed").is_none()
            && self.get("rc").is_some_and(|rc| i64::try_from(rc.clone()).is_ok_and(|rc| rc != 0))
    }

    /// Its condition was false.
    pub fn is_skipped(&self) -> bool {
        self.is("skipped")
    }

    /// The host could not be reached.
    pub fn is_unreachable(&self) -> bool {
        self.is("unreachable")
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter()
    }

    /// The part of it that variables get: neither how the module was called nor the engine's own notes.
    pub fn registered(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter().filter(|(key, _)| &***key != "invocation" && !key.starts_with('_'))
    }

    /// As a value for variables.
    pub fn to_value(&self) -> Value {
        Value::from_pairs(self.registered().map(|(key, value)| (Value::from(&**key), value.clone())))
    }

    /// JSON for callbacks, with Ansible's key for results that are always shown.
    pub fn to_json(&self) -> serde_json::Value {
        let always = self.traits.is_always_shown.then(|| ("_ansible_verbose_always".to_owned(), true.into()));
        let entries = self.values.iter().map(|(key, value)| (key.to_string(), windlass_template::to_json(value)));
        serde_json::Value::Object(always.into_iter().chain(entries).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_when_says_counts_more_than_until() {
        let judged = TaskResult::failure("never met").with("failed_when_result", false);
        assert!(!judged.failed());
        let looped = TaskResult::failure("one of them").with("results", vec![judged.to_value()]);
        assert!(!looped.failed());
        assert!(TaskResult::failure("no").with("failed_when_result", "it cannot be evaluated").failed());
    }
}
