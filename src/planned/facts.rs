//! Fingerprints of facts: a plan holds for hosts on which the facts that it depends on are the same.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::vars::Facts;

/// Facts, without the prefix `ansible_`, that differ between two gatherings of an unchanged host. Containers come and
/// go with their interfaces and mounts.
const VOLATILE: &[&str] = &[
    "all_ipv6_addresses",
    "date_time",
    "env",
    "interfaces",
    "loadavg",
    "local_time",
    "memfree_mb",
    "memory_mb",
    "mounts",
    "pagefree",
    "swapfree_mb",
    "uptime_seconds",
];

/// Beginnings of names of interfaces that belong to containers.
const OF_CONTAINERS: &[&str] = &["cali", "cni", "lxc", "veth"];

/// Parts of facts that count what is in use, which changes all the time.
const IN_USE: &[&str] = &["available", "used", "free", "percent"];

/// Fingerprint of each gathered fact that the run has read, by its name, without volatile ones.
pub fn fingerprints(facts: &Facts) -> BTreeMap<String, String> {
    let gathered = facts.iter().filter(|(name, _)| name.strip_prefix("ansible_").is_some_and(is_steady));
    let gathered = gathered.filter(|(name, _)| facts.was_read(name));
    gathered
        .map(|(name, value)| {
            let mut json = windlass_template::to_json(value);
            steady(&mut json);
            let hash = Sha256::digest(json.to_string());
            (name.to_string(), hex::encode(hash.get(..16).unwrap_or_default()))
        })
        .collect()
}

/// Whether a fact keeps its value on an unchanged host. The name lacks the prefix `ansible_`.
fn is_steady(name: &str) -> bool {
    !VOLATILE.contains(&name) && !OF_CONTAINERS.iter().any(|prefix| name.starts_with(prefix))
}

/// Removes what is in use, and sorts keys, because the order of a host's answer carries no meaning.
fn steady(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.split('_').any(|word| IN_USE.contains(&word)));
            map.sort_keys();
            map.values_mut().for_each(steady);
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn facts(values: Value) -> BTreeMap<String, String> {
        let mut facts = Facts::default();
        let values = values.as_object().cloned().unwrap_or_default();
        facts.set(values.into_iter().map(|(name, value)| (Arc::from(name), windlass_template::from_json(&value))));
        fingerprints(&facts)
    }

    #[test]
    fn volatile_facts_and_order_of_keys_do_not_count() {
        let one = json!({"ansible_uptime_seconds": 1, "ansible_kernel": "6.1", "ansible_lvm": {"size_g": 1, "free_g": 2},
            "ansible_veth01": {"mtu": 1}, "ansible_default_ipv4": {"a": 1, "b": 2}, "set_by_a_task": 1});
        let other = json!({"ansible_uptime_seconds": 2, "ansible_kernel": "6.1", "ansible_lvm": {"size_g": 1, "free_g": 3},
            "ansible_default_ipv4": {"b": 2, "a": 1}});
        assert_eq!(facts(one.clone()), facts(other));
        assert_ne!(facts(one), facts(json!({"ansible_kernel": "6.2"})));
    }
}
