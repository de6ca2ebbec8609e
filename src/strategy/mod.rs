//! Carrying a play out: which hosts do which task next, and what follows from the results.

mod ahead;
mod batch;
mod execute;
mod handlers;
mod include;
mod item;
mod items;
mod job;
mod label;
mod meta;
mod play;
mod prompt;
mod result;
mod run;
mod unknown;

pub use ahead::Ahead;
pub use execute::{HostOutcome, Shared};
pub use item::CONDITION_FALSE;
pub use result::TaskResult;
pub use run::{PlaybookRun, Summary};

/// How a task is called, without any host's variables.
pub(crate) fn task_label(task: &std::sync::Arc<crate::playbook::Task>) -> String {
    label::of_task(task, None)
}
