//! Compares two states of an object; each side keeps only what differs.

use serde_json::Value;

use super::lists;
use crate::Map;

/// Both sides, or `None` if they are equal.
pub(super) fn between(before: &Value, after: &Value) -> Result<Option<(Value, Value)>, String> {
    let kind = before["kind"].as_str().filter(|kind| after["kind"] == *kind).unwrap_or_default();
    Ok(maps(before, after, kind)?.map(|(before, after)| (before.into(), after.into())))
}

/// Whether only the server's counters (`generation`, `resourceVersion`) differ.
pub(super) fn is_only_counted(before: &Value, after: &Value) -> bool {
    [before, after].iter().all(|side| {
        let only = side.as_object().is_some_and(|map| map.keys().all(|key| key == "metadata") && map.len() == 1);
        let metadata = side["metadata"].as_object();
        only && metadata.is_some_and(|map| map.keys().all(|key| key == "generation" || key == "resourceVersion"))
    })
}

fn maps(before: &Value, after: &Value, position: &str) -> Result<Option<(Map, Map)>, String> {
    let empty = Map::new();
    let (left, right) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let only = |map: &Map, other: &Map| -> Map {
        map.iter()
            .filter(|(key, _)| !other.contains_key(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (mut gone, mut new) = (only(left, right), only(right, left));
    for (key, old) in left {
        let Some(now) = right.get(key) else { continue };
        let position = if position.is_empty() { String::new() } else { format!("{position}.{key}") };
        let sides: Option<(Value, Value)> = match (old, now) {
            (Value::Object(_), Value::Object(_)) => {
                maps(old, now, &position)?.map(|(old, now)| (old.into(), now.into()))
            }
            (Value::Array(old), Value::Array(now)) => items(old, now, &position)?,
            _ if old != now => Some((old.clone(), now.clone())),
            _ => None,
        };
        if let Some((old, now)) = sides {
            gone.insert(key.clone(), old);
            new.insert(key.clone(), now);
        }
    }
    Ok((!gone.is_empty() || !new.is_empty()).then_some((gone, new)))
}

/// Compares lists of keyed items item by item, and other lists as a whole.
fn items(before: &[Value], after: &[Value], position: &str) -> Result<Option<(Value, Value)>, String> {
    let Some(key) = lists::merge_key(position) else {
        return Ok((before != after).then(|| (before.to_vec().into(), after.to_vec().into())));
    };
    let (left, right) = (lists::by_key(before, key, position)?, lists::by_key(after, key, position)?);
    let missing = |items: &[(&Value, &Value)], others: &[(&Value, &Value)]| -> Vec<Value> {
        let alone = items.iter().filter(|(name, _)| !others.iter().any(|(other, _)| other == name));
        alone.map(|(_, item)| (*item).clone()).collect()
    };
    let (mut gone, mut new) = (missing(&left, &right), missing(&right, &left));
    for (name, old) in &left {
        let Some((_, now)) = right.iter().find(|(other, _)| other == name) else { continue };
        if let Some((mut old, mut now)) = maps(old, now, position)? {
            old.insert(key.to_owned(), (*name).clone());
            now.insert(key.to_owned(), (*name).clone());
            gone.push(old.into());
            new.push(now.into());
        }
    }
    Ok((!gone.is_empty() || !new.is_empty()).then(|| (gone.into(), new.into())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn difference_contains_only_changed_fields() {
        let before = json!({ "kind": "Pod", "metadata": { "name": "a", "labels": { "x": "1" } }, "spec": { "containers": [{ "name": "c", "image": "a", "env": [{ "name": "A", "value": "1" }] }, { "name": "d" }] } });
        let after = json!({ "kind": "Pod", "metadata": { "name": "a", "labels": { "x": "1", "y": "2" } }, "spec": { "containers": [{ "name": "c", "image": "b", "env": [{ "name": "A", "value": "1" }] }, { "name": "d" }] } });
        let (old, new) = between(&before, &after).unwrap().unwrap();
        assert_eq!(
            old,
            json!({ "metadata": { "labels": {} }, "spec": { "containers": [{ "image": "a", "name": "c" }] } })
        );
        assert_eq!(
            new,
            json!({ "metadata": { "labels": { "y": "2" } }, "spec": { "containers": [{ "image": "b", "name": "c" }] } })
        );
        assert_eq!(between(&after, &after).unwrap(), None);
    }

    #[test]
    fn server_counters_alone_are_no_change() {
        let metadata =
            |version: &str, more: Value| json!({ "metadata": { "resourceVersion": version, "labels": more } });
        let (old, new) = between(&metadata("1", json!({})), &metadata("2", json!({}))).unwrap().unwrap();
        assert!(is_only_counted(&old, &new));
        let (old, new) = between(&metadata("1", json!({})), &metadata("2", json!({ "a": "b" }))).unwrap().unwrap();
        assert!(!is_only_counted(&old, &new));
    }
}
