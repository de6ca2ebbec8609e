//! The library of templates: all filters, tests and lookups, as one value for the creator of an
//! [`Engine`](crate::Engine). The interpreter itself names none of them.

use crate::filters::FILTERS;
use crate::lookups::{LOOKUPS, is_active, reads_outside};
use crate::registry::{Library, Lookups};
use crate::tests::TESTS;

/// All filters, tests and lookups.
pub static LIBRARY: Library = Library::new(FILTERS, TESTS, Lookups { all: LOOKUPS, reads_outside, is_active });
