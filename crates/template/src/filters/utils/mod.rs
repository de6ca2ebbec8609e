//! Filters of ansible.utils for data.

pub(super) mod diff;
pub(super) mod keys;
pub(super) mod paths;
