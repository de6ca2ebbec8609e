//! The outcome of a task on a host.
//!
//! A host answers with data: [`HostResult`] is the border, and has no room for anything else. What a task changes in the run besides its
//! registered result is an [`Effect`], which only the controller's own actions make. So no answer can add a host, set a variable of
//! another one, have a file read as variables, or hide itself.

mod effect;
mod host_result;
mod result;

pub use effect::{Effect, IncludedVars, InventoryChange, NewGroup, NewHost, SetFacts, StatsUpdate};
pub use host_result::HostResult;
pub use result::TaskResult;
