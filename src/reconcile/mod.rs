//! Reconciliation of a cluster with its inventory: observe, decide, repair, report.
//!
//! A round reads what `playbooks/verify.yml` found ([`Health`]) and what `playbooks/cluster.yml` would change
//! ([`Drift`]). [`decide`] turns both, the [`Policy`] and the [`Memory`] of earlier rounds into one [`Decision`]; it
//! has no effects, so every rule can be tested without a cluster. `windlass reconcile` runs the playbooks as runs of
//! their own, which take locks, write journals and can be resumed like any other.
//!
//! Node replacement follows the rules of Cluster API's MachineHealthCheck: a node must be unhealthy for some time, one
//! node is replaced at a time, and none while more nodes are unhealthy than a network failure would explain. A
//! [`machines`] program of the operator takes the old machine away before a new one joins under its name.

mod decide;
mod health;
pub mod machines;
mod memory;
mod metrics;
mod policy;

pub use decide::{Decision, Now, decide};
pub use health::{Drift, Evidence, Finding, Health};
pub(crate) use memory::replace;
pub use memory::{Memory, Repair, Store};
pub use metrics::text as metrics;
pub use policy::Policy;
