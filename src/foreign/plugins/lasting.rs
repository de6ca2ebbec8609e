//! A process that runs plugins for the whole run, because they keep what they have fetched, or their connections.

use serde_json::Value as Json;

use super::helper::{Helper, Refusal};
use super::no_questions;

/// Such a process.
#[derive(Debug, Default)]
pub(super) enum Lasting {
    /// Not started.
    #[default]
    Idle,
    /// There are no plugins.
    Unneeded,
    /// The process runs the plugins.
    Running(Helper),
    /// The process has failed, for this reason.
    Failed(String),
}

impl Lasting {
    /// Sends a request, and calls `start` before the first one. The result is `None` if there are no plugins. After an
    /// error, every further request fails with it.
    pub(super) fn ask(
        &mut self,
        start: impl FnOnce() -> Result<Lasting, String>,
        request: &Json,
        refuse: impl FnOnce(Refusal) -> String,
    ) -> Result<Option<Json>, String> {
        if matches!(self, Lasting::Idle) {
            *self = start().unwrap_or_else(Lasting::Failed);
        }
        let answer = match self {
            Lasting::Running(helper) => helper.ask(request, &mut no_questions).map(Some).map_err(refuse),
            Lasting::Failed(reason) => Err(reason.clone()),
            Lasting::Idle | Lasting::Unneeded => Ok(None),
        };
        answer.inspect_err(|reason| *self = Lasting::Failed(reason.clone()))
    }
}
