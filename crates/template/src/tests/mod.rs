//! Tests: `value is name(arguments)`.

use crate::registry::Function;

/// All tests. A name without a dot is also reachable as `ansible.builtin.name`.
pub const TESTS: &[Function] = &[];
