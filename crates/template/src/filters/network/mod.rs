//! Filters of ansible.utils for IP and hardware addresses.

pub(crate) mod address;
pub(super) mod hardware;
pub(super) mod ipaddr;
pub(super) mod subnet;

pub(crate) use hardware::parse as parse_hardware;
pub(crate) use subnet::listed;
