//! Facts: what a host is, and which services and packages it has.
//!
//! Each topic reads below a [`Root`], so that its rules can be shown on a small tree, and writes into [`Facts`] under the names that
//! playbooks know.

use serde_json::Value;

use crate::Map;

mod account;
mod clock;
mod distribution;
mod features;
mod hardware;
mod local;
mod manager;
mod netlink;
mod network;
mod platform;
pub(crate) use platform::fqdn;
mod probe;
mod python;
mod root;
mod security;
mod storage;
mod subset;
mod virtualization;

pub mod getent;
pub mod mount_facts;
mod mount_tables;
pub mod package_facts;
pub mod service_facts;
pub mod setup;

pub(crate) use manager::{package_manager_of, service_manager_of, systemd_runs};
pub(crate) use root::Root;
#[cfg(test)]
pub(crate) use root::tests::tree;
pub(crate) use security::is_chroot;
pub(crate) use storage::unescape;

/// The family of the host's distribution, such as `Debian`.
pub(crate) fn os_family(root: &Root) -> String {
    let mut facts = Facts::default();
    distribution::collect(root, &mut facts);
    facts.text("os_family").unwrap_or_default().to_owned()
}

/// Facts by their names, without `ansible_`.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    values: Map,
}

impl Facts {
    /// Sets a fact.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// A fact.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// A fact that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_str)
    }

    /// The facts by the names they have in results; no name has a dash, so that each can be a variable.
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
