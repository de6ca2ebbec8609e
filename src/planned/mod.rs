//! Planned changes: the document of `windlass plan`, its file, and the comparison that `windlass apply` makes.
//!
//! A plan is a check run whose events a [`Collector`] turns into a [`Document`]: one entry per task and group of hosts
//! with equal changes. [`print`] renders it for a terminal. [`write`] stores it with the [`Request`], the hashes of the
//! files that were read and the fingerprints of facts; [`read`] treats such a file as untrusted. `windlass apply` plans
//! again and runs only if [`differences`] finds none.

mod collector;
mod compare;
mod details;
mod document;
mod facts;
mod file;
mod text;

pub use collector::{Collected, Collector};
pub use compare::differences;
pub use document::{
    Attribute, Counts, Difference, Document, ExtraVars, Part, Planned, Request, SCHEMA, Status, VERSION,
};
pub use facts::fingerprints;
pub(crate) use file::carriable;
pub use file::{read, write};
pub use text::{Layout, print};
