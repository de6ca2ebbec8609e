//! YAML 1.1 with positions, as Ansible reads and writes it.
//!
//! [`parse`] turns text into [`Node`]s that know their file, line and column, and whether their text may be a template.
//! [`emit::dump`] writes values as `to_yaml` and `to_nice_yaml` do.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod boolean;
mod compose;
pub mod emit;
mod error;
mod hint;
mod json;
mod literal;
mod load;
mod mapping;
mod node;
mod number;
mod python;
mod resolve;
mod source;
mod survive;
mod tags;
mod text;

pub use error::{Error, ErrorKind, Warning};
pub use literal::PythonLiteral;
pub use load::{DuplicateKeys, Loaded, Options, load_one, parse};
pub use mapping::{Key, Mapping};
pub use node::{Node, Value};
pub use number::python_float;
pub use python::{python_quote, python_str};
pub use resolve::python_timestamp;
pub use source::{Source, Span};
pub use survive::{is_surviving, survive};
pub use text::Text;
