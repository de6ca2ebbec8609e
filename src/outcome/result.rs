//! [`TaskResult`]: the data of a task's result, and the marks that the controller keeps beside it.

use std::io;
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use windlass_template::Value;

use super::lines::Lines;
use super::size::{Size, VALUE, size};
use super::spill::{SpillFile, Spilled};
use super::{Effect, HostResult};

/// Rendered arguments of an action.
pub type Arguments = IndexMap<Arc<str>, Value>;

/// Converts a value for a boolean keyword.
pub(crate) fn truth(value: &Value) -> bool {
    match value.as_str() {
        Some(text) => windlass_yaml::boolean::is_true(text),
        None => value.is_true(),
    }
}

/// A task's result: Ansible's keys in the order they were set.
#[derive(Debug, Clone, Default)]
pub struct TaskResult {
    /// Shared with copies, of which each task on a host makes several: of its part, its outcome and its event.
    values: Arc<IndexMap<Arc<str>, Value, RandomState>>,
    /// Error message with its position in the project's files, if `msg` lacks the position.
    report: Option<Arc<str>>,
    /// The message has no position, so the report must be shown.
    is_bare: bool,
    /// Suggested remedy, shown to the user but not to tasks.
    advice: Option<Arc<str>>,
    /// The action gave up before it started; then the result has no `failed`.
    is_given_up: bool,
    /// Arguments of the action, kept if it failed.
    args: Option<Arc<Arguments>>,
    /// Path that the action's rendered arguments name, kept if it changed something.
    target: Option<Arc<str>>,
    /// Shared with copies too: a host's facts are many.
    effects: Arc<[Effect]>,
    /// The registered entries, if large ones of them are on disk.
    on_disk: Option<Value>,
    /// Reason why a plan cannot know the result.
    unknown: Option<Arc<Unknown>>,
    traits: Traits,
}

/// Reason why a plan cannot know a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// The action is not run in check mode.
    NotRun,
    /// A part of the task depends on something unknown.
    Depends {
        /// The part: `its condition`.
        part: &'static str,
        /// The unknown value that it depends on: `the result of 'Ask', which is not run in check mode`.
        on: String,
    },
    /// The action fails on the present state of the host, with this message. In a real run, earlier tasks would change
    /// that state.
    Fails(String),
}

/// Flags that the controller keeps beside the result's data.
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
        let effects = facts.map(Effect::Facts).into_iter().collect();
        TaskResult { values: Arc::new(values), effects, traits, ..TaskResult::default() }
    }
}

impl TaskResult {
    /// Empty result: not changed, not failed.
    pub fn new() -> TaskResult {
        TaskResult::default()
    }

    /// Successful result of an action that changed nothing.
    pub fn unchanged() -> TaskResult {
        TaskResult::ok(false)
    }

    /// Successful result.
    pub fn ok(changed: bool) -> TaskResult {
        TaskResult::new().with("changed", changed)
    }

    /// Failure with this message.
    pub fn failure(message: impl Into<String>) -> TaskResult {
        TaskResult::new().with("changed", false).with("failed", true).with("msg", message.into())
    }

    /// Copy with only these keys, for display; the report is dropped too.
    pub fn only(&self, keys: &[&str]) -> TaskResult {
        let kept = self.values.iter().filter(|(key, _)| keys.contains(&&***key));
        TaskResult {
            values: Arc::new(kept.map(|(key, value)| (Arc::clone(key), value.clone())).collect()),
            unknown: self.unknown.clone(),
            ..TaskResult::default()
        }
    }

    /// Result of a skipped task, with the reason.
    pub fn skipped(reason: &str) -> TaskResult {
        TaskResult::new().with("changed", false).with("skipped", true).with("skip_reason", reason)
    }

    /// Result of an action that does nothing, as in check mode, with the reason.
    pub fn given_up(reason: &str) -> TaskResult {
        let result = TaskResult::unchanged().with("skipped", true).with("msg", reason);
        TaskResult { is_given_up: true, ..result }
    }

    /// Whether the action gave up before it started.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Adds a change of the run. Only actions of the controller create one.
    pub fn with_effect(mut self, effect: Effect) -> TaskResult {
        self.effects = self.effects.iter().cloned().chain([effect]).collect();
        self
    }

    /// Drops changes of the run that are not to be kept.
    pub(crate) fn retain_effects(&mut self, keep: impl FnMut(&mut Effect) -> bool) {
        let mut effects = self.effects.to_vec();
        effects.retain_mut(keep);
        self.effects = effects.into();
    }

    /// Gives a fact that the host reported another value.
    pub(crate) fn replace_fact(&mut self, name: &str, value: &Value) {
        self.retain_effects(|effect| {
            if let Effect::Facts(facts) = effect {
                facts.replace(name, value);
            }
            true
        });
        let facts = self.get("ansible_facts").and_then(Value::as_object).map(|facts| facts.try_iter_pairs());
        let Some(facts) = facts.flatten() else { return };
        let replaced = |(key, known): (Value, Value)| {
            let is_it = key.as_str() == Some(name);
            (key, if is_it { value.clone() } else { known })
        };
        let facts: Value = Value::from_pairs(facts.map(replaced));
        self.set("ansible_facts", facts);
    }

    /// Changes of the run other than the registered result.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Shows the result in full even without `-v`, like that of `debug`.
    pub fn always_shown(mut self) -> TaskResult {
        self.traits.is_always_shown = true;
        self
    }

    /// Whether the result is shown in full even without `-v`.
    pub fn is_always_shown(&self) -> bool {
        self.traits.is_always_shown
    }

    /// Hides the result as under `no_log`.
    pub fn secret(mut self) -> TaskResult {
        self.traits.is_secret = true;
        self
    }

    /// Whether the result is hidden as under `no_log`.
    pub fn is_secret(&self) -> bool {
        self.traits.is_secret
    }

    /// Marks the task as not run in check mode, so that absent values are unknown.
    pub fn set_predicted(&mut self) {
        self.traits.is_predicted = true;
    }

    /// Whether check mode did not run the task.
    pub fn is_predicted(&self) -> bool {
        self.traits.is_predicted
    }

    /// Marks the result as unknown to a plan.
    pub fn set_unknown(&mut self, why: Unknown) {
        self.unknown = Some(Arc::new(why));
    }

    /// Reason why a plan cannot know the result; `None` if it is known.
    pub fn unknown(&self) -> Option<&Unknown> {
        self.unknown.as_deref()
    }

    /// Marks the task's changes as unknown.
    pub fn interrupted(mut self) -> TaskResult {
        self.traits.is_interrupted = true;
        self
    }

    /// Whether all its values are known, unlike in check mode or in a plan.
    pub(crate) fn is_known(&self) -> bool {
        self.unknown.is_none() && !self.traits.is_predicted
    }

    /// Whether the module ended without an answer of its own, so that its changes are unknown.
    pub fn is_interrupted(&self) -> bool {
        self.traits.is_interrupted
    }

    /// Adds the full error report.
    pub fn with_report(mut self, report: String) -> TaskResult {
        self.report = Some(report.into());
        self
    }

    /// Marks the message as one without a position. Only the report has the position.
    pub fn bare(mut self) -> TaskResult {
        self.is_bare = true;
        self
    }

    /// Whether only the report has the position of the error.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Full error report, if it adds to the message.
    pub fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// Adds a suggested remedy, if one is known.
    pub fn with_advice(mut self, advice: Option<&str>) -> TaskResult {
        self.advice = advice.map(Arc::from);
        self
    }

    /// Suggested remedy for a failure.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// Adds the action's arguments.
    pub fn with_args(mut self, args: Option<Arguments>) -> TaskResult {
        self.args = args.map(Arc::new);
        self
    }

    /// Arguments of a failed action; `None` for loops.
    pub fn args(&self) -> Option<&Arguments> {
        self.args.as_deref()
    }

    /// Adds the path that the action's rendered arguments name.
    pub fn with_target(mut self, target: Option<&str>) -> TaskResult {
        self.target = target.map(Arc::from);
        self
    }

    /// Path that the rendered arguments name. Ansible's result lacks it where check mode would create a file.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Adds a key.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> TaskResult {
        self.set(key, value);
        self
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.on_disk = None;
        Arc::make_mut(&mut self.values).insert(key.into(), value.into());
    }

    /// Adds `stdout_lines` and `stderr_lines`.
    pub fn with_lines(mut self) -> TaskResult {
        for (stream, lines) in [("stdout", "stdout_lines"), ("stderr", "stderr_lines")] {
            if let (Some(text), None) = (self.get(stream), self.get(lines)) {
                self.set(lines, Lines::value(text));
            }
        }
        self
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.on_disk = None;
        if self.values.contains_key(key) { Arc::make_mut(&mut self.values).shift_remove(key) } else { None }
    }

    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Text of a key; `None` if it is not a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Whether a key is present and true.
    pub fn is(&self, key: &str) -> bool {
        self.get(key).is_some_and(truth)
    }

    /// Whether the task changed something.
    pub fn changed(&self) -> bool {
        self.is("changed")
    }

    /// Whether the task failed. `failed_when`, of the task or of a loop's item, outranks an `until` that never held.
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

    /// Whether the task's command exited with a code other than 0 while nothing decides if that is a failure.
    pub fn exits_badly(&self) -> bool {
        self.get("failed").is_none()
            && self.get("rc").is_some_and(|rc| i64::try_from(rc.clone()).is_ok_and(|rc| rc != 0))
    }

    /// Whether the task was skipped.
    pub fn is_skipped(&self) -> bool {
        self.is("skipped")
    }

    /// Whether the host was unreachable.
    pub fn is_unreachable(&self) -> bool {
        self.is("unreachable")
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter()
    }

    /// Entries visible to variables, without `invocation` and internal keys.
    pub fn registered(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter().filter(|(key, _)| &***key != "invocation" && !key.starts_with('_'))
    }

    /// Moves registered values above `least` bytes to disk. The result itself still has them, until
    /// [`TaskResult::shed`].
    pub(crate) fn spill(&mut self, file: &Arc<SpillFile>, least: usize) -> io::Result<()> {
        self.on_disk = Some(Spilled::value(self.registered(), file, least)?);
        Ok(())
    }

    /// Estimated size of [`TaskResult::to_value`], which it does not build.
    pub(crate) fn registered_size(&self) -> Size {
        let entry = |(key, value): (&Arc<str>, &Value)| Size::in_memory(VALUE + key.len()) + size(value);
        match &self.on_disk {
            Some(value) => size(value),
            None => Size::in_memory(VALUE) + self.registered().map(entry).sum(),
        }
    }

    /// Whether large values are on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    /// Frees values above `least` bytes once the result is reported. Of values on disk, [`TaskResult::to_value`] still
    /// knows all.
    pub(crate) fn shed(&mut self, least: usize) {
        // `results` is kept, because the status of a loop follows from its items.
        let is_kept = |key: &Arc<str>, value: &Value| &**key == "results" || size(value).memory <= least;
        if !self.values.iter().all(|(key, value)| is_kept(key, value)) {
            Arc::make_mut(&mut self.values).retain(|key, value| is_kept(key, value));
        }
    }

    /// The registered entries as a template value.
    pub fn to_value(&self) -> Value {
        if let Some(value) = &self.on_disk {
            return value.clone();
        }
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
    fn failed_when_outranks_until() {
        let judged = TaskResult::failure("never met").with("failed_when_result", false);
        assert!(!judged.failed());
        let looped = TaskResult::failure("one of them").with("results", vec![judged.to_value()]);
        assert!(!looped.failed());
        assert!(TaskResult::failure("no").with("failed_when_result", "it cannot be evaluated").failed());
    }
}
