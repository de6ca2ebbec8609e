//! Limits the controller's memory for registered results and facts, because hosts choose the size of their answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::ValueKind;
use windlass_template::Value;

use crate::outcome::{Effect, TaskResult};
use crate::vars::HostFacts;

/// Limit for the registered results and facts of one host, in bytes.
const HOST: usize = 512 << 20;
/// Limit for all hosts of a run, in bytes.
const RUN: usize = 4 << 30;
/// Estimated overhead of one value and its place in a list or mapping, in bytes.
const VALUE: usize = 64;

/// Memory of all registered results and facts of a run, in bytes.
#[derive(Debug, Default)]
pub struct Kept(AtomicUsize);

impl Kept {
    /// Explains why a result of `weight` bytes exceeds the share of its host or of the run. `kept` is the host's
    /// present total.
    pub(super) fn refusal(&self, host: &str, kept: usize, weight: usize) -> Option<String> {
        let (of_host, of_run) = (kept.saturating_add(weight), self.0.load(Ordering::Relaxed).saturating_add(weight));
        let (whose, needed, limit) = match (of_host > HOST, of_run > RUN) {
            (true, _) => (format!("the registered results and facts of {host}"), of_host, HOST),
            (_, true) => ("the registered results and facts of all hosts".to_owned(), of_run, RUN),
            (false, false) => return None,
        };
        Some(format!(
            "The task ran, but its result was dropped: {whose} would take {} MiB of memory, and the limit is {} MiB. \
             Write large output to a file on the host, or do not register it.",
            needed >> 20,
            limit >> 20
        ))
    }

    /// Replaces the counted size of a registered result or fact.
    pub(super) fn replace(&self, old: usize, new: usize) {
        // `set_fact` may have overwritten it with a value that was never counted.
        let counted = |kept: usize| Some(kept.saturating_add(new).saturating_sub(old));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
    }
}

/// The failure that replaces a result. It keeps whether the task changed something.
pub(super) fn dropped(result: &TaskResult, refusal: String) -> TaskResult {
    let mut failure = TaskResult::failure(refusal).interrupted();
    failure.set("changed", result.changed());
    failure
}

/// Estimated memory of a result in bytes: of its facts, and if it `is_registered`, of all its values.
pub(super) fn weight_of_result(result: &TaskResult, is_registered: bool) -> usize {
    let values = result.registered().filter(|_| is_registered);
    let entries = values.map(|(key, value)| VALUE.saturating_add(key.len()).saturating_add(weight(value)));
    let facts = result.effects().iter().map(|effect| match effect {
        Effect::Facts(facts) => weight_of_facts(facts),
        _ => 0,
    });
    entries.chain(facts).fold(VALUE, usize::saturating_add)
}

/// Estimated memory of a host's facts, in bytes.
pub(super) fn weight_of_facts(facts: &HostFacts) -> usize {
    facts.iter().map(|(name, value)| name.len().saturating_add(weight(value))).fold(0, usize::saturating_add)
}

/// Estimated memory of a value in bytes. Text shared by two values counts twice.
pub(super) fn weight(value: &Value) -> usize {
    let mut weight = own_weight(value);
    let mut rest: Vec<Value> = members(value).collect();
    while let Some(value) = rest.pop() {
        weight = weight.saturating_add(own_weight(&value));
        rest.extend(members(&value));
    }
    weight
}

fn own_weight(value: &Value) -> usize {
    VALUE.saturating_add(value.as_bytes().map_or(0, <[u8]>::len))
}

/// Members of a list, or keys and values of a mapping; a scalar has none.
fn members(value: &Value) -> impl Iterator<Item = Value> {
    let is_map = value.kind() == ValueKind::Map;
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten();
    // The keys of a list are its indexes, not values.
    pairs.flat_map(move |(key, value)| is_map.then_some(key).into_iter().chain([value]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_counts_keys_texts_and_members() {
        let value = windlass_template::from_json(&serde_json::json!({"stdout": "x".repeat(1000), "lines": ["y", "z"]}));
        let weight = weight(&value);
        assert_eq!(weight, 1000 + "stdout".len() + "lines".len() + 2 + 7 * VALUE);
    }

    #[test]
    fn dropped_result_keeps_whether_it_changed_something() {
        let mut result = TaskResult::default();
        result.set("changed", true);
        let dropped = dropped(&result, "too large".to_owned());
        assert!(dropped.failed() && dropped.changed());
    }

    #[test]
    fn result_beyond_the_share_of_its_host_or_of_the_run_is_refused() {
        let kept = Kept::default();
        assert_eq!(kept.refusal("h", HOST - 10, 10), None);
        assert!(
            kept.refusal("h", HOST, 1).unwrap().contains("the registered results and facts of h would take 512 MiB")
        );
        kept.replace(0, RUN);
        assert!(kept.refusal("h", 0, 1).unwrap().contains("of all hosts would take 4096 MiB"));
        kept.replace(RUN, 0);
        assert_eq!(kept.refusal("h", 0, 1), None);
    }
}
