//! Statistics that `set_stats` collects over a run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::effect::StatsUpdate;
use super::size::{Size, size_of_json};

/// Statistics of the whole run and of single hosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CustomStats {
    /// Statistics of the run.
    pub run: Map<String, Value>,
    /// Statistics per host, sorted by host name.
    pub hosts: BTreeMap<String, Map<String, Value>>,
}

impl CustomStats {
    /// Adds statistics that a task on a host has set. Returns the estimated size of the old and the new values.
    pub fn add(&mut self, host: &str, update: &StatsUpdate) -> (Size, Size) {
        let all = if update.per_host { self.hosts.entry(host.to_owned()).or_default() } else { &mut self.run };
        let size = |all: &Map<String, Value>| {
            let values = update.data.keys().filter_map(|name| Some(name.len() + size_of_json(all.get(name)?)));
            Size::in_memory(values.sum())
        };
        let old = size(all);
        for (name, value) in &update.data {
            match all.get_mut(name).filter(|_| update.aggregate) {
                Some(known) => aggregate(known, value),
                None => _ = all.insert(name.clone(), value.clone()),
            }
        }
        (old, size(all))
    }

    /// Whether no statistics were set.
    pub fn is_empty(&self) -> bool {
        self.run.is_empty() && self.hosts.is_empty()
    }
}

/// Adds numbers, concatenates texts and lists, and merges mappings; a value of another type leaves the known one
/// unchanged.
fn aggregate(known: &mut Value, value: &Value) {
    match (known, value) {
        (Value::Object(known), Value::Object(value)) => known.extend(value.clone()),
        (Value::Array(known), Value::Array(value)) => known.extend(value.iter().cloned()),
        (Value::String(known), Value::String(value)) => known.push_str(value),
        (known @ Value::Number(_), Value::Number(_)) => {
            let sum = match (known.as_i64(), value.as_i64(), known.as_f64(), value.as_f64()) {
                (Some(one), Some(other), ..) => one.checked_add(other).map(Value::from),
                (None, None, Some(one), Some(other)) => Some(Value::from(one + other)),
                _ => None,
            };
            if let Some(sum) = sum {
                *known = sum;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_aggregated_or_replaced() {
        let mut stats = CustomStats::default();
        let mut add = |data: Value, per_host: bool, aggregate: bool| {
            let data = data.as_object().unwrap().clone();
            stats.add("web", &StatsUpdate { data, per_host, aggregate });
        };
        add(json!({"n": 10, "t": "a", "l": [1], "m": {"x": 1}, "f": 1.5}), false, true);
        add(json!({"n": 15, "t": "b", "l": [2], "m": {"y": 2}, "f": 1}), false, true);
        add(json!({"n": 1}), true, true);
        add(json!({"n": 2}), true, false);
        assert_eq!(
            Value::from(stats.run.clone()),
            json!({"n": 25, "t": "ab", "l": [1, 2], "m": {"x": 1, "y": 2}, "f": 1.5})
        );
        assert_eq!(stats.hosts["web"]["n"], 2);
    }
}
