//! Outcomes of tasks on hosts, as a report shows them.

use serde::Serialize;

use super::place;
use super::text::{Budget, Text, label, message};
use crate::journal::{Done, ItemDone, Status, Withheld};

/// Kind of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The task failed.
    Failed,
    /// The host was unreachable.
    Unreachable,
    /// A block rescues the failure.
    Rescued,
    /// The failure is ignored.
    Ignored,
    /// Something changed.
    Changed,
    /// Nothing changed.
    Ok,
    /// The task was skipped.
    Skipped,
}

impl Kind {
    /// The kind that flags stand for.
    pub(crate) fn of(status: Status, rescuable: bool) -> Kind {
        match status {
            Status { ignored: true, failed, unreachable, .. } if failed || unreachable => Kind::Ignored,
            Status { unreachable: true, .. } => Kind::Unreachable,
            Status { failed: true, .. } if rescuable => Kind::Rescued,
            Status { failed: true, .. } => Kind::Failed,
            Status { skipped: true, .. } => Kind::Skipped,
            Status { changed: true, .. } => Kind::Changed,
            Status { .. } => Kind::Ok,
        }
    }

    /// Word for people.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Failed => "failed",
            Kind::Unreachable => "unreachable",
            Kind::Rescued => "rescued",
            Kind::Ignored => "ignored",
            Kind::Changed => "changed",
            Kind::Ok => "ok",
            Kind::Skipped => "skipped",
        }
    }

    /// Whether the outcome makes the run fail.
    pub fn is_failure(self) -> bool {
        matches!(self, Kind::Failed | Kind::Unreachable)
    }

    /// Whether something went wrong, even if the run continued.
    pub fn is_bad(self) -> bool {
        self.is_failure() || matches!(self, Kind::Rescued | Kind::Ignored)
    }
}

/// Outcome of a task on a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Name of the host.
    pub host: String,
    /// Name of the play.
    pub play: String,
    /// Number of the play, from 0.
    pub play_number: u32,
    /// Name of the task.
    pub task: String,
    /// Place of the task: `FILE:LINE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Short name of its action.
    pub action: String,
    /// Kind of the outcome.
    pub status: Kind,
    /// Whether something changed, also if the task failed.
    pub changed: bool,
    /// Whether the task is a handler.
    pub handler: bool,
    /// Whether one host ran it for all.
    pub once: bool,
    /// Host that it was delegated to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// Start, in milliseconds since 1970 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
    /// Whether an earlier run did it, which this one resumes.
    pub restored: bool,
    /// Message of a failure, or reason why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Place and excerpt of a failure, with a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// Arguments as JSON, masked; of a loop, the first item's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Texts of the result.
    pub texts: Vec<Text>,
    /// Differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Reason why the result is missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<&'static str>,
    /// Handlers that it notified.
    pub notify: Vec<String>,
    /// Items of a loop.
    pub items: Vec<Item>,
    /// Number of items beyond the limit of a report.
    pub items_left_out: usize,
}

/// Outcome of a loop's item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// The item.
    pub label: String,
    /// Kind of the outcome.
    pub status: Kind,
    /// Start, in milliseconds since 1970 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
    /// Message of a failure, or reason why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Texts of the result.
    pub texts: Vec<Text>,
    /// Differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Reason why the result is missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<&'static str>,
}

impl Outcome {
    /// Outcome of a record, with as much text as the budget allows. `started` is the start of the run in milliseconds.
    pub(super) fn of(done: &Done, items: &[&ItemDone], play: &str, started: u64, budget: &mut Budget) -> Outcome {
        let status = Kind::of(done.status, done.rescuable);
        let (task, place) = place::split(&done.at.task);
        let shown = items.iter().take(ITEMS);
        let is_loop = done.items.is_some_and(|count| count > 0);
        let result = done.result.read();
        Outcome {
            host: budget.short(done.host.clone()),
            play: budget.short(play.to_owned()),
            play_number: done.at.play,
            task: budget.short(task.to_owned()),
            place: place.map(|place| budget.short(place.to_owned())),
            action: budget.short(done.action.clone()),
            status,
            changed: done.status.changed,
            handler: done.handler,
            once: done.once,
            delegate: done.delegate.clone().map(|host| budget.short(host)),
            start: done.start,
            took: done.took,
            restored: done.start.is_some_and(|start| start < started),
            message: message_of(status, &result, budget),
            excerpt: done.report.as_deref().and_then(excerpt).map(|text| budget.named(text)),
            arguments: None,
            texts: if is_loop { Vec::new() } else { budget.texts(&result, status.is_bad()) },
            diff: budget.diff(&result),
            withheld: done.withheld.map(Withheld::reason),
            notify: done.notify.iter().take(ITEMS).map(|name| budget.short(name.clone())).collect(),
            items: shown.map(|item| Item::of(item, budget)).collect(),
            items_left_out: items.len().saturating_sub(ITEMS),
        }
    }
}

/// Maximum number of items shown of one loop.
const ITEMS: usize = 500;

impl Item {
    fn of(item: &ItemDone, budget: &mut Budget) -> Item {
        let status = Kind::of(item.status, false);
        let result = item.result.read();
        Item {
            label: budget.short(label(&result, item.index)),
            status,
            start: item.start,
            took: item.took,
            message: message_of(status, &result, budget),
            texts: budget.texts(&result, status.is_bad()),
            diff: budget.diff(&result),
            withheld: item.withheld.map(Withheld::reason),
        }
    }
}

/// Message of a failure, or of any result that has one.
fn message_of(
    status: Kind,
    result: &serde_json::Map<String, serde_json::Value>,
    budget: &mut Budget,
) -> Option<String> {
    let text = match status {
        _ if result.is_empty() => return None,
        kind if kind.is_bad() => message(result),
        Kind::Skipped => result.get("skip_reason").or_else(|| result.get("msg"))?.as_str()?.to_owned(),
        _ => match result.get("msg")? {
            serde_json::Value::String(text) => text.clone(),
            other => crate::output::python_json_as_is(other),
        },
    };
    (!text.trim().is_empty()).then(|| budget.short(text))
}

/// Place, excerpt and hint of an error report, without its message.
fn excerpt(report: &str) -> Option<String> {
    if let Some((_, rest)) = report.split_once("\nOrigin: ") {
        return Some(rest.trim_end().to_owned());
    }
    // The message of a template has its place; the variables and the task that use it follow.
    let (_, steps) = report.split_once("\nused by ")?;
    Some(format!("used by {}", steps.trim_end()))
}
