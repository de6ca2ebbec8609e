//! Filters: `value | name(arguments)`.

pub(crate) mod call;

use crate::registry::Function;

/// All filters. A name without a dot is also reachable as `ansible.builtin.name`.
pub const FILTERS: &[Function] = &[];
