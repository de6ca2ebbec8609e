//! `windlass lsp`: a language server on standard input and output.
//!
//! [`transport`] reads messages, [`server`] answers them, and a thread of its own ([`worker`]) checks open documents
//! with the rules of [`crate::lint`]. [`outline`] finds the structure around a cursor from indentation, and [`flow`]
//! from braces, because a text that is being written is rarely valid. [`scope`] says which object that is.
//!
//! Nothing is run or evaluated, and nothing is connected to: no templates, lookups, inventory scripts, hosts.

mod completion;
mod definition;
mod diagnostics;
mod docs;
mod documents;
mod expression;
mod flow;
mod hover;
mod names;
mod outline;
mod rename;
mod scope;
mod server;
mod text;
mod transport;
mod worker;

pub use server::run;
pub use worker::{Environment, Load};
