//! The filters of ansible.utils on data.

pub(super) mod diff;
pub(super) mod keys;
pub(super) mod paths;
