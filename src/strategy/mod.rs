//! Runs plays: which hosts run which task next, and the consequences of results.

mod arguments;
mod ask;
mod attempts;
mod batch;
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
mod linear;
mod looping;
mod meta;
mod parallel;
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

pub(crate) use ask::{Echo, ask, tell};
pub use execute::{Reload, Shared};
pub use item::CONDITION_FALSE;
pub use run::{PlaybookRun, Summary};
