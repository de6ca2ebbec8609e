//! The outcome of a task on one host, with all its items.

use std::sync::Arc;

use super::TaskResult;
use super::kept::Counted;

/// Result of a task on one host.
#[derive(Debug)]
pub struct HostOutcome {
    /// Name of the host.
    pub host: Arc<str>,
    /// The result, uncensored.
    pub result: TaskResult,
    /// `ignore_errors` or `ignore_unreachable` applied to the failure.
    pub ignored: bool,
    /// Results of the items (or of the task itself), each with the host it was delegated to.
    pub parts: Vec<(TaskResult, Option<String>)>,
    /// Names of handlers to notify.
    pub notify: Vec<String>,
    /// Facts belong to the host the task was delegated to (`delegate_facts`).
    pub delegate_facts: bool,
    /// Short name of the action, rendered if it was a template.
    pub action: String,
    /// The executor skipped the tasks that were sent ahead behind this one.
    pub stopped: bool,
    /// Counts the size of the result until it is stored.
    pub(crate) _counted: Option<Counted>,
}
