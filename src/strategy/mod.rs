//! Runs plays: which hosts run which task next, and the consequences of results.

mod ahead;
mod arguments;
mod ask;
mod attempts;
mod batch;
mod custom_stats;
mod debugger;
mod execute;
pub mod explain;
mod failed_task;
mod failure;
mod free;
mod handlers;
mod include;
mod including;
mod item;
mod items;
mod job;
mod kept;
mod label;
mod linear;
mod looping;
mod meta;
mod play;
mod prompt;
mod reach;
mod recording;
mod run;
mod shard;
mod step;
mod store;
mod stream;
mod tally;
mod task;
mod unknown;

pub use ahead::Ahead;
pub(crate) use ask::{Echo, ask, tell};
pub use custom_stats::CustomStats;
pub use execute::{HostOutcome, Reload, Shared};
pub use item::CONDITION_FALSE;
pub use kept::Kept;
pub(crate) use meta::ACTIONS as META_ACTIONS;
pub(crate) use recording::named;
pub use run::{PlaybookRun, Summary};
pub(crate) use unknown::changes_nothing;

/// Label of a task, without any host's variables.
pub(crate) fn task_label(task: &std::sync::Arc<crate::playbook::Task>) -> String {
    label::of_task(task, None)
}
