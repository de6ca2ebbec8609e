//! `--step` asks the user before every task; `--start-at-task` skips the tasks before the named one.

use std::sync::{Arc, PoisonError};

use globset::GlobBuilder;

use super::ask::{Echo, ask};
use super::play::Batch;
use crate::error::{Error, Result};
use crate::output::{Event, until_continued};
use crate::playbook::{Block, Item, Task, label};

impl Batch {
    /// Waits while the user pauses the run, then asks whether to run a task. Returns true without `--step`.
    pub(super) async fn take_step(&mut self, task: &Arc<Task>, host: Option<&str>) -> Result<bool> {
        until_continued().await;
        if !self.step {
            return Ok(true);
        }
        let kind = if task.handler { "HANDLER" } else { "TASK" };
        let on = host.map(|host| format!("on {host} ")).unwrap_or_default();
        let prompt = format!("Perform task: {kind}: {} {on}(N)o/(y)es/(c)ontinue: ", label::of_task(task, None));
        let answer = ask(&prompt, Echo::Shown, &self.shared).await?.unwrap_or_default().to_lowercase();
        let goes_on = matches!(answer.as_str(), "c" | "continue");
        if goes_on {
            self.step = false;
        }
        let _ = self.shared.events.send(Event::Banner(prompt.trim().to_owned()));
        Ok(goes_on || matches!(answer.as_str(), "y" | "yes"))
    }

    /// Skips the tasks before the one that `--start-at-task` names. A host that never reaches it does nothing in this
    /// play.
    pub(super) fn start_at(&mut self) -> Result<()> {
        let wanted = self.shared.start_at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(wanted) = wanted else { return Ok(()) };
        let pattern = GlobBuilder::new(&wanted)
            .literal_separator(false)
            .build()
            .map_err(|error| Error::usage(format!("--start-at-task: {error}")))?
            .compile_matcher();
        let mut found = false;
        let filter = self.filter.clone();
        for run in self.hosts.values_mut() {
            let mut gathering = None;
            loop {
                let Some(task) = run.peek(&filter).map(|step| Arc::clone(&step.task)) else { break };
                if !task.span.is_located() && task.short_action() == "gather_facts" {
                    gathering = Some(Arc::clone(&task));
                }
                let own = task.name.as_ref().and_then(|node| node.scalar_text()).unwrap_or_default();
                let whole = label::of_task(&task, None);
                let is_it = |name: &str| !name.is_empty() && (name == wanted || pattern.is_match(name));
                if task.span.is_located() && (is_it(&own) || is_it(&whole)) {
                    found = true;
                    // Facts are gathered nevertheless.
                    if let Some(task) = gathering {
                        run.pending = None;
                        let block = Block::plain(&self.play.frame, vec![Item::Task(task)]);
                        run.cursor.enter(Arc::new(block));
                    }
                    break;
                }
                run.advance();
            }
        }
        if found {
            *self.shared.start_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(())
    }
}
