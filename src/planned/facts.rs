//! Fingerprints of facts: a plan holds for hosts whose facts are the same.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::vars::Facts;

/// Facts that differ between two gatherings of an unchanged host.
const VOLATILE: &[&str] = &[
    "ansible_date_time",
    "ansible_env",
    "ansible_loadavg",
    "ansible_local_time",
    "ansible_memfree_mb",
    "ansible_memory_mb",
    "ansible_pagefree",
    "ansible_swapfree_mb",
    "ansible_uptime_seconds",
];

/// Parts of facts that count what is in use, which changes all the time.
const IN_USE: &[&str] = &["available", "used", "free", "percent"];

/// Fingerprint of each gathered fact by its name, without volatile ones.
pub fn fingerprints(facts: &Facts) -> BTreeMap<String, String> {
    let gathered = facts.iter().filter(|(name, _)| name.starts_with("ansible_") && !VOLATILE.contains(&&***name));
    gathered
        .map(|(name, value)| {
            let mut json = windlass_template::to_json(value);
            steady(&mut json);
            let hash = Sha256::digest(json.to_string());
            (name.to_string(), hex::encode(hash.get(..16).unwrap_or_default()))
        })
        .collect()
}

/// Removes what is in use, and sorts keys, because the order of a host's answer carries no meaning.
fn steady(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.rsplit('_').next().is_some_and(|word| IN_USE.contains(&word)));
            map.sort_keys();
            map.values_mut().for_each(steady);
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
}
