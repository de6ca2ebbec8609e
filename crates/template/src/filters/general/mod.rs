//! Filters of community.general.

pub(super) mod dicts;
pub(super) mod jmespath;
pub(super) mod lists;
pub(super) mod misc;
pub(super) mod time_units;
