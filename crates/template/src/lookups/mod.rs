//! Lookups: `lookup('name', term, ...)`, `query('name', term, ...)` and `with_name: terms`.

use crate::registry::Lookup;

/// All lookups. A name without a dot is also reachable as `ansible.builtin.name`.
pub const LOOKUPS: &[&dyn Lookup] = &[];
