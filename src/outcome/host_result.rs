//! The border for a module's result: of a host's answer only data and permitted facts pass.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use minijinja::value::ValueKind;
use windlass_protocol::INTERRUPTED;
use windlass_template::Value;

use super::{FactNames, HostFacts};

/// Keys with which Ansible's own actions change a run. In the result of a module they have no effect.
const OF_ACTIONS: &[&str] = &["add_host", "add_group", "ansible_included_var_files", "ansible_stats", "parent_groups"];

/// Prefixes of the internal keys of Ansible's engine and ours.
const INTERNAL: &[&str] = &["_ansible_", "_include_vars_", "_windlass_"];

/// Largest number of names that a warning lists.
const LISTED: usize = 5;

/// A module's result as the host sent it: data and facts.
#[derive(Debug)]
pub struct HostResult {
    pub(super) values: IndexMap<std::sync::Arc<str>, Value, RandomState>,
    pub(super) facts: Option<HostFacts>,
    /// The module ended without an answer of its own, so it may have changed the host.
    pub(super) is_interrupted: bool,
    removed: Vec<String>,
}

impl HostResult {
    /// Extracts data and facts from a module's answer; `names` limits the facts. Returns `None` if the answer is not a
    /// mapping.
    pub fn read(answer: &Value, names: FactNames) -> Option<HostResult> {
        if answer.kind() != ValueKind::Map {
            return None;
        }
        let mut values = IndexMap::with_capacity_and_hasher(answer.len().unwrap_or_default(), RandomState::default());
        let mut removed = Vec::new();
        let mut is_interrupted = false;
        let pairs = answer.as_object().and_then(|object| object.try_iter_pairs());
        for (key, item) in pairs.into_iter().flatten() {
            let Some(name) = key.as_str() else { continue };
            if name == INTERRUPTED {
                is_interrupted = item.is_true();
            } else if OF_ACTIONS.contains(&name) || INTERNAL.iter().any(|prefix| name.starts_with(prefix)) {
                removed.push(shortened(name));
            } else {
                values.insert(name.into(), item);
            }
        }
        let facts = values.get("ansible_facts").map(|facts| HostFacts::of_host(facts, names));
        Some(HostResult { values, facts, is_interrupted, removed })
    }

    /// Warnings about parts of the answer that were dropped.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.removed.is_empty() {
            warnings.push(format!("Removed unexpected internal keys in module return: {}", list(&self.removed)));
        }
        let mut dropped = |names: &[String], which: &str| {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| shortened(name)).collect();
                warnings.push(format!("facts that {which} were dropped: {}", list(&names)));
            }
        };
        if let Some(facts) = &self.facts {
            dropped(facts.dropped(), "would change how the host is reached");
            dropped(facts.unexpected(), "the module does not report");
        }
        warnings
    }
}

/// Shortens a name chosen by a host to at most 60 characters.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 60 {
        name.to_owned()
    } else {
        format!("{}...", name.chars().take(57).collect::<String>())
    }
}

fn list(names: &[String]) -> String {
    let shown = names.get(..LISTED).unwrap_or(names).join(", ");
    match names.len().checked_sub(LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Effect, TaskResult};

    #[test]
    fn answer_with_keys_of_actions_has_no_effects() {
        let answer = Value::from_pairs(
            ["add_host", "add_group", "parent_groups", "ansible_included_var_files", "ansible_stats", "stdout"]
                .into_iter()
                .chain(["_ansible_no_log", "_include_vars_name", "_windlass_merge", "_ansible_facts_cacheable"])
                .map(|key| (key, Value::from("x"))),
        );
        let read = HostResult::read(&answer, FactNames::Any).unwrap();
        assert_eq!(read.warnings().len(), 1);
        let result = TaskResult::from(read);
        assert_eq!(result.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["stdout"]);
        assert!(result.effects().is_empty() && !result.is_secret());
    }

    #[test]
    fn answer_with_facts_has_them_without_connection_variables() {
        let facts = Value::from_pairs([("ansible_connection", "local"), ("ansible_os_family", "Debian")]);
        let read = HostResult::read(&Value::from_pairs([("ansible_facts", facts)]), FactNames::Any).unwrap();
        assert!(read.warnings()[0].contains("ansible_connection"));
        let result = TaskResult::from(read);
        let [Effect::Facts(facts)] = result.effects() else { panic!("one effect: {:?}", result.effects()) };
        assert_eq!(facts.names().collect::<Vec<_>>(), ["ansible_os_family"]);
    }

    #[test]
    fn answer_other_than_mapping_refused() {
        for answer in [Value::from("text"), Value::from(vec![1]), Value::from(()), Value::from(true)] {
            assert!(HostResult::read(&answer, FactNames::Any).is_none());
        }
    }
}
