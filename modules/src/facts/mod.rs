//! Facts: properties of a host, its services and its packages.
//!
//! Each topic reads below a [`Root`], so that tests can use a small tree, and writes [`Facts`] under the names that
//! playbooks use.

use serde_json::Value;

use crate::Map;

mod account;
mod clock;
mod cmdline;
mod distribution;
mod dns;
mod features;
mod hardware;
mod known;
mod local;
mod netlink;
mod network;
mod package_manager;
mod platform;
mod probe;
mod python;
mod root;
mod security;
mod service_manager;
mod ssh_host_keys;
mod storage;
mod subset;
mod virtualization;

pub mod getent;
pub mod mount_facts;
mod mount_tables;
pub mod package_facts;
pub mod service_facts;
pub mod setup;

pub use known::{OF_HOSTNAME, is_known, is_of_interface};
pub(crate) use package_manager::package_manager_of;
pub(crate) use platform::fqdn;
pub(crate) use root::Root;
#[cfg(test)]
pub(crate) use root::tests::tree;
pub(crate) use security::is_chroot;
pub(crate) use service_manager::{service_manager_of, systemd_runs};
pub(crate) use storage::unescape;

/// Family of the host's distribution, such as `Debian`.
pub(crate) fn os_family(root: &Root) -> String {
    let mut facts = Facts::default();
    distribution::collect(root, &mut facts);
    facts.text("os_family").unwrap_or_default().to_owned()
}

/// Facts by name, without `ansible_`.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    values: Map,
}

impl Facts {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_interface = || value.as_object().is_some_and(|fields| fields.keys().all(|key| is_of_interface(key)));
        debug_assert!(is_known(name) || is_interface(), "`{name}` is missing in known.rs");
        self.values.insert(name.to_owned(), value);
    }

    /// The value of a fact.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The value of a text fact.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_str)
    }

    /// The facts with their prefixed names. Dashes are replaced, so that each name is a valid variable.
    pub(crate) fn prefixed(self) -> Map {
        let mut sorted: Vec<_> = self
            .values
            .into_iter()
            .map(|(name, value)| (format!("ansible_{}", name.replace('-', "_")), value))
            .collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.into_iter().collect()
    }
}
