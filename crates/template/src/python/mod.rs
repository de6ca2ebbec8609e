//! Python's rules for displaying, ordering, parsing and matching values.

pub(crate) mod braces;
pub(crate) mod class;
pub(crate) mod container;
pub(crate) mod difflib;
pub(crate) mod encoding;
pub(crate) mod group;
pub(crate) mod json;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod percent;
pub(crate) mod random;
pub(crate) mod time;
pub(crate) mod version;

mod text;

pub(crate) use windlass_python_regex as regex;

pub use difflib::unified_diff;
pub(crate) use text::python_class;
pub use text::{repr, text, truth, type_name};
pub(crate) use text::{split_lines, split_lines_with_ends};
