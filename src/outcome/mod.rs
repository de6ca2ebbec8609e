//! The outcome of a task on a host.
//!
//! A host can only answer with data: [`HostResult`] drops everything else. All further changes of the run are
//! [`Effect`]s, which only the controller's own actions create. So no answer can add a host, set another host's
//! variable, have a file read as variables, or hide itself.

mod custom_stats;
mod effect;
mod host_facts;
mod host_outcome;
mod host_result;
mod jobs;
pub(crate) mod kept;
mod lines;
mod result;
mod size;
mod spill;

pub use custom_stats::CustomStats;
pub use effect::{Effect, IncludedVars, InventoryChange, NewGroup, NewHost, SetFacts, StatsUpdate};
pub use host_facts::{FactNames, HostFacts};
pub(crate) use host_facts::{GATHERED, is_gathered_name, is_protected};
pub use host_outcome::HostOutcome;
pub use host_result::HostResult;
pub use jobs::Jobs;
pub use kept::Kept;
pub(crate) use result::truth;
pub use result::{Arguments, TaskResult, Unknown};
pub use size::Size;
pub(crate) use size::{VALUE, size, size_of_json};
pub(crate) use spill::Extent;
pub use spill::SpillFile;

/// Maximum length of the name of a host that a task adds or delegates to, in bytes. Answers of hosts may choose it, and
/// each record has it.
pub(crate) const LONGEST_HOST: usize = 1 << 10;
