//! Outcomes and events in the form in which processes send them to each other.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use windlass_template::{Origin, Value, from_exact, to_exact};
use windlass_yaml::{Node, Span};

use crate::connection::Kind;
use crate::outcome::{
    Effect, HostFacts, HostOutcome, IncludedVars, InventoryChange, NewGroup, NewHost, SetFacts, StatsUpdate, TaskResult,
};
use crate::output::{Event, JobState, ResultEvent, Status};
use crate::playbook::Task;

/// A result with its effects.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SentResult {
    values: Map<String, Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects: Vec<SentEffect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// Arguments of a failed action, which its `rescue` can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<(Arc<str>, Json)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Mark>,
}

/// A flag beside the data of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mark {
    Bare,
    AlwaysShown,
    Secret,
    Predicted,
    Interrupted,
}

/// A change of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SentEffect {
    Facts { facts: Map<String, Json>, free: Vec<String> },
    Python { kind: Kind, user: Option<String>, path: String },
    SetFacts { vars: Vec<(Arc<str>, Json)>, cacheable: bool, origins: Vec<(Arc<str>, String)> },
    IncludedVars { files: Vec<PathBuf>, name: Option<String>, merge: bool, size: usize },
    Host { name: String, groups: Vec<String>, vars: Json },
    Group { name: String, parents: Vec<String> },
    Stats { data: Map<String, Json>, per_host: bool, aggregate: bool },
}

/// Outcome of a task on a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SentOutcome {
    result: SentResult,
    pub(crate) ignored: bool,
    /// Results of the items, each with the host it was delegated to; `None` without a loop.
    items: Option<Vec<(SentResult, Option<String>)>>,
    delegate: Option<String>,
    pub(crate) notify: Vec<String>,
    /// Whether the output hides the result.
    pub(crate) no_log: bool,
}

impl SentOutcome {
    /// The outcome of a task, which is a loop or not.
    pub(crate) fn of(outcome: &HostOutcome, looped: bool, no_log: bool) -> SentOutcome {
        let mut result = SentResult::of(&outcome.result);
        let items = looped.then(|| {
            // The items are sent once.
            if let Some(Json::Array(list)) = result.values.get_mut("results").filter(|_| outcome.parts.len() > 1) {
                list.clear();
            }
            outcome.parts.iter().map(|(part, delegate)| (SentResult::of(part), delegate.clone())).collect()
        });
        SentOutcome {
            result,
            ignored: outcome.ignored,
            items,
            delegate: outcome.parts.first().and_then(|(_, delegate)| delegate.clone()),
            notify: outcome.notify.clone(),
            no_log,
        }
    }

    /// Whether the task is a loop.
    pub(crate) fn is_looped(&self) -> bool {
        self.items.is_some()
    }

    /// Result of the task, and of each item with the host it was delegated to. `limit` drops effects that they must not
    /// have. `keep` may move values of an item to disk, before they become part of the task's result.
    pub(crate) fn results(
        &mut self,
        limit: impl Fn(&mut TaskResult),
        mut keep: impl FnMut(&mut TaskResult),
    ) -> (TaskResult, Vec<(TaskResult, Option<String>)>) {
        let mut result = std::mem::take(&mut self.result).received();
        limit(&mut result);
        let Some(items) = self.items.take() else { return (result.clone(), vec![(result, self.delegate.take())]) };
        let received = |(item, delegate): (SentResult, _)| {
            let mut part = item.received();
            limit(&mut part);
            keep(&mut part);
            (part, delegate)
        };
        let parts: Vec<_> = items.into_iter().map(received).collect();
        if parts.len() > 1 && result.get("results").is_some() {
            result.set("results", parts.iter().map(|(part, _)| part.to_value()).collect::<Value>());
        }
        (result, parts)
    }
}

impl SentResult {
    pub(crate) fn of(result: &TaskResult) -> SentResult {
        let marks = [
            (Mark::Bare, result.is_bare()),
            (Mark::AlwaysShown, result.is_always_shown()),
            (Mark::Secret, result.is_secret()),
            (Mark::Predicted, result.is_predicted()),
            (Mark::Interrupted, result.is_interrupted()),
        ];
        let mut values: Map<_, _> = result.iter().map(|(key, value)| (key.to_string(), to_exact(value))).collect();
        // Large values of an item that was reported are only on disk.
        let whole = if result.is_on_disk() { result.to_value() } else { Value::default() };
        for key in whole.try_iter().into_iter().flatten() {
            let name = key.as_str().unwrap_or_default().to_owned();
            values.entry(name).or_insert_with(|| to_exact(&whole.get_item(&key).unwrap_or_default()));
        }
        let of_args = |(name, value): (&Arc<str>, &Value)| (Arc::clone(name), to_exact(value));
        SentResult {
            values,
            effects: result.effects().iter().map(SentEffect::of).collect(),
            report: result.report().map(str::to_owned),
            advice: result.advice().map(str::to_owned),
            args: result.args().map(|args| args.iter().map(of_args).collect()),
            target: result.target().map(str::to_owned),
            marks: marks.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark).collect(),
        }
    }

    pub(crate) fn received(self) -> TaskResult {
        let values = self.values.iter().map(|(key, value)| (key, from_exact(value)));
        let result = values.fold(TaskResult::new(), |result, (key, value)| result.with(key, value));
        let result = self.effects.into_iter().map(SentEffect::received).fold(result, TaskResult::with_effect);
        let result = self.report.into_iter().fold(result, TaskResult::with_report);
        let marked = |result: TaskResult, mark| match mark {
            Mark::Bare => result.bare(),
            Mark::AlwaysShown => result.always_shown(),
            Mark::Secret => result.secret(),
            Mark::Interrupted => result.interrupted(),
            Mark::Predicted => {
                let mut result = result;
                result.set_predicted();
                result
            }
        };
        let args = self.args.map(|args| args.into_iter().map(|(name, value)| (name, from_exact(&value))).collect());
        let result = result.with_advice(self.advice.as_deref()).with_args(args).with_target(self.target.as_deref());
        self.marks.into_iter().fold(result, marked)
    }
}

impl SentEffect {
    fn of(effect: &Effect) -> SentEffect {
        match effect {
            Effect::Facts(facts) => {
                let free = facts.free().map(str::to_owned).collect();
                let facts = facts.iter().map(|(name, value)| (name.to_owned(), to_exact(value))).collect();
                SentEffect::Facts { facts, free }
            }
            Effect::Python { kind, user, path } => {
                SentEffect::Python { kind: *kind, user: user.clone(), path: path.clone() }
            }
            Effect::SetFacts(set) => SentEffect::SetFacts {
                vars: set.vars.iter().map(|(name, value)| (Arc::clone(name), to_exact(value))).collect(),
                cacheable: set.cacheable,
                origins: set
                    .origins
                    .iter()
                    .map(|(name, origin)| (Arc::clone(name), origin.word().to_owned()))
                    .collect(),
            },
            Effect::IncludedVars(IncludedVars { files, name, merge, size }) => {
                SentEffect::IncludedVars { files: files.clone(), name: name.clone(), merge: *merge, size: *size }
            }
            Effect::Inventory(InventoryChange::Host(host)) => {
                let vars = host.vars.iter().map(|(key, node)| (key.to_text(), node.to_json())).collect();
                SentEffect::Host { name: host.name.clone(), groups: host.groups.clone(), vars: Json::Object(vars) }
            }
            Effect::Inventory(InventoryChange::Group(group)) => {
                SentEffect::Group { name: group.name.clone(), parents: group.parents.clone() }
            }
            Effect::Stats(StatsUpdate { data, per_host, aggregate }) => {
                SentEffect::Stats { data: data.clone(), per_host: *per_host, aggregate: *aggregate }
            }
        }
    }

    fn received(self) -> Effect {
        match self {
            SentEffect::Facts { facts, free } => {
                // The host chooses these names, so they form no mapping that `from_exact` could take for one of ours.
                let facts = facts.iter().map(|(name, value)| (Value::from(name.as_str()), from_exact(value)));
                Effect::Facts(HostFacts::of_worker(&Value::from_pairs(facts), &free))
            }
            SentEffect::Python { kind, user, path } => Effect::Python { kind, user, path },
            SentEffect::SetFacts { vars, cacheable, origins } => {
                let vars = vars.into_iter().map(|(name, value)| (name, from_exact(&value))).collect();
                let origins = origins.into_iter().map(|(name, word)| (name, Origin::of_word(&word))).collect();
                Effect::SetFacts(SetFacts { vars, cacheable, origins })
            }
            SentEffect::IncludedVars { files, name, merge, size } => {
                Effect::IncludedVars(IncludedVars { files, name, merge, size })
            }
            SentEffect::Host { name, groups, vars } => {
                let node = Node::from_json(&vars, &Span::synthetic("add_host"));
                let vars = node.as_map().cloned().unwrap_or_default();
                Effect::Inventory(InventoryChange::Host(NewHost { name, groups, vars }))
            }
            SentEffect::Group { name, parents } => {
                Effect::Inventory(InventoryChange::Group(NewGroup { name, parents }))
            }
            SentEffect::Stats { data, per_host, aggregate } => Effect::Stats(StatsUpdate { data, per_host, aggregate }),
        }
    }
}

/// An event of a task that another process prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SentEvent {
    Item {
        host: String,
        status: Status,
        result: SentResult,
        item: String,
        diff: bool,
        no_log: bool,
        report: Option<String>,
    },
    Retry {
        host: String,
        task: String,
        left: u64,
        result: SentResult,
    },
    Polled {
        host: String,
        id: String,
        started: String,
        finished: String,
    },
    Ended {
        host: String,
        id: String,
        failed: bool,
    },
    Live {
        host: String,
        bytes: Vec<u8>,
    },
    Lock {
        waits: bool,
    },
    Printed {
        host: Option<Arc<str>>,
        line: String,
    },
    Warning(String),
    Deprecation(String),
    Notice(String),
    Verbose {
        level: u8,
        text: String,
    },
}

impl SentEvent {
    /// The event for another process. The result of a whole task follows from its outcome, and time is measured where
    /// it is spent.
    pub(crate) fn of(event: Event) -> Option<SentEvent> {
        Some(match event {
            Event::Result(ResultEvent { host, status, result, item: Some(item), diff, no_log, report, .. }) => {
                SentEvent::Item { host, status, result: SentResult::of(&result), item, diff, no_log, report }
            }
            Event::Retry { host, task, left, result, .. } => {
                SentEvent::Retry { host, task, left, result: SentResult::of(&result) }
            }
            Event::Job { host, id, state: JobState::Polled { started, finished }, .. } => {
                SentEvent::Polled { host, id, started, finished }
            }
            Event::Job { host, id, state, .. } => SentEvent::Ended { host, id, failed: state == JobState::Failed },
            Event::Live { host, bytes } => SentEvent::Live { host, bytes },
            Event::Lock { waits, .. } => SentEvent::Lock { waits },
            Event::Printed { host, line } => SentEvent::Printed { host, line },
            Event::Warning(text) => SentEvent::Warning(text),
            Event::Deprecation(text) => SentEvent::Deprecation(text),
            Event::Notice(text) => SentEvent::Notice(text),
            Event::Verbose { level, text } => SentEvent::Verbose { level, text },
            _ => return None,
        })
    }

    /// Bytes of its text, and of the line around it.
    pub(crate) fn size(&self) -> usize {
        let text = match self {
            SentEvent::Printed { line: text, .. }
            | SentEvent::Warning(text)
            | SentEvent::Deprecation(text)
            | SentEvent::Notice(text)
            | SentEvent::Verbose { text, .. } => text.len(),
            _ => 0,
        };
        text + 32
    }

    /// The event if it belongs to no task.
    pub(crate) fn said(self) -> Option<Event> {
        Some(match self {
            SentEvent::Printed { line, .. } => Event::Printed { host: None, line },
            SentEvent::Warning(text) => Event::Warning(text),
            SentEvent::Deprecation(text) => Event::Deprecation(text),
            SentEvent::Notice(text) => Event::Notice(text),
            SentEvent::Verbose { level, text } => Event::Verbose { level, text },
            _ => return None,
        })
    }

    /// The event of a task on a host, to print it. `label` names the host, and the host that the task is delegated to.
    pub(crate) fn received(self, task: &Arc<Task>, name: &Arc<str>, label: &str) -> Option<Event> {
        let of = || Arc::clone(task);
        // The process that sent it may name any host.
        let shown = |host: &str| if host == &**name { name.to_string() } else { label.to_owned() };
        Some(match self {
            SentEvent::Item { host, status, result, item, diff, no_log, report } => {
                let (name, host) = (Arc::clone(name), shown(&host));
                let (item, result) = (Some(item), Arc::new(result.received()));
                Event::Result(ResultEvent {
                    task: of(),
                    name,
                    host,
                    status,
                    result,
                    item,
                    looped: false,
                    diff,
                    no_log,
                    report,
                })
            }
            SentEvent::Retry { host, task, left, result } => {
                Event::Retry { of: of(), host: shown(&host), task, left, result: Arc::new(result.received()) }
            }
            SentEvent::Polled { host, id, started, finished } => {
                Event::Job { task: of(), host: shown(&host), id, state: JobState::Polled { started, finished } }
            }
            SentEvent::Ended { host, id, failed } => Event::Job {
                task: of(),
                host: shown(&host),
                id,
                state: if failed { JobState::Failed } else { JobState::Ok },
            },
            SentEvent::Live { host, bytes } => Event::Live { host: shown(&host), bytes },
            SentEvent::Lock { waits } => Event::Lock { host: Arc::clone(name), waits },
            SentEvent::Printed { line, .. } => Event::Printed { host: Some(Arc::clone(name)), line },
            other => return other.said(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_named_like_our_own_mappings_hides_no_others() {
        const KEYED: &str = "\u{0}keyed";
        let pairs = Value::from(vec![Value::from(vec![Value::from("colour"), Value::from("red")])]);
        let facts =
            Value::from_pairs([(Value::from(KEYED), pairs.clone()), (Value::from("os"), Value::from("Debian"))]);
        let effect = Effect::Facts(HostFacts::of_host(&facts, crate::outcome::FactNames::Any));
        let Effect::Facts(read) = SentEffect::of(&effect).received() else { panic!("facts are facts") };
        assert_eq!(read.iter().collect::<Vec<_>>(), [(KEYED, &pairs), ("os", &Value::from("Debian"))]);
        assert_eq!(Effect::Facts(read), effect);
    }

    #[test]
    fn effects_and_marks_of_a_result_arrive() {
        let facts = HostFacts::of_cache(&Value::from_pairs([("os", "Debian")]), None);
        let result = TaskResult::ok(true).always_shown().secret().with_effect(Effect::Facts(facts.clone()));
        let sent = serde_json::to_string(&SentResult::of(&result)).unwrap();
        let received = serde_json::from_str::<SentResult>(&sent).unwrap().received();
        assert!(received.changed() && received.is_secret() && received.is_always_shown());
        assert_eq!(received.effects(), [Effect::Facts(facts)]);
    }
}
