//! Facts, and what they may never set.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use windlass_template::Value;

/// The fact that says that facts were gathered.
pub const GATHERED: &str = "_ansible_facts_gathered";

/// Facts of one host, by the names modules give them (`ansible_hostname`, `services`).
#[derive(Debug, Clone, Default)]
pub struct Facts {
    values: IndexMap<Arc<str>, Value>,
    namespaced: OnceLock<Value>,
}

impl Facts {
    /// The fact of that full name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Adds facts; later ones replace earlier ones of the same name.
    pub fn extend(&mut self, facts: impl IntoIterator<Item = (Arc<str>, Value)>) {
        self.values.extend(facts);
        self.namespaced = OnceLock::new();
    }

    /// All facts by their full names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter()
    }

    /// Whether they were gathered, rather than set.
    pub fn are_gathered(&self) -> bool {
        self.get(GATHERED).is_some_and(super::truth)
    }

    /// Forgets all facts.
    pub fn clear(&mut self) {
        *self = Facts::default();
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The full names.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.values.keys()
    }

    /// The value of `ansible_facts`: names without `ansible_`.
    pub fn namespaced(&self) -> Value {
        let make = || {
            Value::from_pairs(self.values.iter().map(|(name, value)| {
                let short = if &**name == "ansible_local" {
                    "ansible_local"
                } else {
                    name.strip_prefix("ansible_").unwrap_or(name)
                };
                let short = if short == "ansible_local" { "local" } else { short };
                (Value::from(short), value.clone())
            }))
        };
        self.namespaced.get_or_init(make).clone()
    }
}

/// Names a host must never be able to set: how it is reached and as whom, and what runs there.
fn is_protected(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "ansible_host",
        "ansible_port",
        "ansible_user",
        "ansible_password",
        "ansible_connection",
        "ansible_shell_type",
        "ansible_shell_executable",
        "ansible_remote_tmp",
        "ansible_delegated_vars",
        "ansible_facts",
        "hostvars",
        "groups",
        "group_names",
        "inventory_hostname",
        "environment",
        "vars",
        "omit",
        "ansible_private_key_file",
        "ansible_timeout",
        "ansible_pipelining",
        "ansible_check_mode",
        "ansible_diff_mode",
    ];
    const PREFIXES: &[&str] = &[
        "ansible_become",
        "ansible_ssh_",
        "ansible_sudo_",
        "ansible_su_",
        "ansible_scp_",
        "ansible_sftp_",
        "ansible_host_key",
        "ansible_connection",
    ];
    // Facts of these names are about the host's own keys, not about how it is reached.
    if name.starts_with("ansible_ssh_host_key_") && !name.ends_with("checking") {
        return false;
    }
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (name.starts_with("ansible_") && name.ends_with("_interpreter"))
}

/// The facts of a result without those that would set connection variables, and the names that were dropped.
pub fn clean_facts(facts: &Value) -> (Vec<(Arc<str>, Value)>, Vec<String>) {
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    for key in facts.try_iter().into_iter().flatten() {
        let Some(name) = key.as_str() else { continue };
        let Ok(value) = facts.get_item(&key) else { continue };
        if is_protected(name) { dropped.push(name.to_owned()) } else { kept.push((Arc::from(name), value)) }
    }
    (kept, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_cannot_redirect_its_own_connection() {
        let facts = Value::from_pairs([
            ("ansible_host", "evil"),
            ("ansible_python_interpreter", "/tmp/x"),
            ("ansible_hostname", "web1"),
            ("ansible_ssh_host_key_rsa_public", "AAAA"),
        ]);
        let (kept, dropped) = clean_facts(&facts);
        assert_eq!(
            kept.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
            ["ansible_hostname", "ansible_ssh_host_key_rsa_public"]
        );
        assert_eq!(dropped, ["ansible_host", "ansible_python_interpreter"]);
    }
}
