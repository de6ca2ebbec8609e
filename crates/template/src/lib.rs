//! Jinja as Ansible uses it.
//!
//! [minijinja] runs the templates. This crate adds what Ansible expects beyond it: undefined values that chain,
//! Python's operators and methods, mutable lists and dictionaries, and native types. It parses the template and passes
//! it to minijinja in a form in which every operator calls one of our functions.
//!
//! Trust follows types. A [`windlass_yaml::Node`] is the project's own text and may contain templates. A [`Value`] is
//! data and never a template, whatever it looks like.
//!
//! Differences from ansible-core 2.19, apart from the wording of messages:
//!
//! * `d.items`, `d.keys` without parentheses return the value of that key, not the method.
//! * Macros always return text, and can change lists and dicts passed to them, as up to 2.18.
//! * `range()` may be a result, `break` and `continue` need no extension, and keys of mappings are rendered too.
//! * Unused values of a dict may be undefined in more places (`d.items()`, `d | length`).
//! * Macros have no `varargs` and `kwargs`; templates have no `self` and no `{% trans %}`.

pub mod filters;
pub mod lookups;
pub mod tests;

pub mod about;
mod classic;
mod compat;
mod compile;
mod condition;
mod context;
mod data;
mod emission;
mod engine;
mod error;
mod exact;
mod file;
mod globals;
mod header;
mod json;
mod lazy;
mod library;
mod limits;
mod mark;
mod methods;
mod mutable;
mod operators;
mod origin;
mod parts;
mod plain;
mod plugins;
mod python;
mod reads;
mod recent;
mod registry;
mod root;
mod scope;
mod settings;
mod suggest;
mod syntax;
mod tracker;
pub mod uses;

pub use minijinja::Value;

pub use crate::compat::Compat;
pub use crate::context::Context;
pub use crate::data::{data, data_of};
pub use crate::engine::{Engine, Options, Revealed, TemplateOptions};
pub use crate::error::{Error, ErrorKind, Through};
pub use crate::exact::{from_exact, is_exact, is_json, to_exact};
pub use crate::json::{Edited, from_json, to_json};
pub use crate::library::LIBRARY;
pub use crate::limits::Limits;
pub use crate::mark::{failed, is_omit, is_undefined, omit, undefined, unknown, unknown_reason};
pub use crate::origin::Origin;
pub use crate::parts::{Part, PartKind, Shape, parts, shape};
pub use crate::plugins::{PluginKind, Plugins};
pub use crate::python::encoding::{EncodingError, encode};
pub use crate::python::{repr, text, truth, type_name, unified_diff};
pub use crate::reads::{Read, Reads, matching, matching_paths};
pub use crate::registry::{Function, Library, Lookup, LookupOptions, Lookups, call_filter, call_test};
pub use crate::scope::{Defaults, Scope, Variable, Variables};
pub use crate::settings::Settings;
pub use crate::tracker::{Dependencies, OUTSIDE, PROJECT, has_read, reading, reads_outside, reads_project};
