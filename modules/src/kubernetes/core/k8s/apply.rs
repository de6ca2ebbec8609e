//! `apply: true`: stores the last applied definition in an annotation, to distinguish dropped fields from fields set by
//! others.

use serde_json::{Value, json};

use super::{super::objects::merged, lists};
use crate::Map;

/// Annotation in which kubectl keeps the last applied definition.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A definition with itself in the annotation.
pub(super) fn annotated(definition: &Value) -> Value {
    let text = json_text(&sorted(definition));
    merged(definition, &json!({ "metadata": { "annotations": { LAST_APPLIED: text } } }))
}

/// The merge patch from an object to its definition; `None` if they match.
pub(super) fn patch(actual: &Value, desired: &Value) -> Result<Option<Value>, String> {
    let last = actual["metadata"]["annotations"][LAST_APPLIED].as_str();
    let Some(last) = last.filter(|last| !last.is_empty()) else { return Ok(Some(annotated(desired))) };
    let last: Value =
        serde_json::from_str(last).map_err(|error| format!("the annotation {LAST_APPLIED} is not JSON: {error}"))?;
    let kind = desired["kind"].as_str().unwrap_or_default();
    let patch = changes(&annotated(&last), &annotated(desired), actual, kind)?;
    Ok(Some(patch).filter(|patch| patch.as_object().is_some_and(|map| !map.is_empty())))
}

/// Fields that the last definition had and this one drops, and fields that differ.
fn changes(last: &Value, desired: &Value, actual: &Value, position: &str) -> Result<Value, String> {
    Ok(merged(&deletions(last, desired).into(), &additions(last, actual, desired, position)?.into()))
}

fn deletions(last: &Value, desired: &Value) -> Map {
    let mut patch = Map::new();
    for (key, former) in last.as_object().into_iter().flatten() {
        let wanted = desired.get(key).unwrap_or(&Value::Null);
        if former.is_object() && wanted.is_object() {
            let inner = deletions(former, wanted);
            if !inner.is_empty() {
                patch.insert(key.clone(), inner.into());
            }
        } else if former != wanted {
            patch.insert(key.clone(), wanted.clone());
        }
    }
    patch
}

fn additions(last: &Value, actual: &Value, desired: &Value, position: &str) -> Result<Map, String> {
    let mut patch = Map::new();
    for (key, wanted) in desired.as_object().into_iter().flatten() {
        let position = format!("{position}.{key}");
        let found = actual.get(key).unwrap_or(&Value::Null);
        let former = last.get(key).unwrap_or(&Value::Null);
        match wanted {
            _ if found.is_null() => _ = patch.insert(key.clone(), wanted.clone()),
            Value::Object(_) => {
                let inner = additions(former, found, wanted, &position)?;
                if !inner.is_empty() {
                    patch.insert(key.clone(), inner.into());
                }
            }
            Value::Array(items) => {
                let items = list(former, found, items, &position)?;
                if !items.is_empty() {
                    patch.insert(key.clone(), items.into_iter().filter(|item| !item.is_null()).collect());
                }
            }
            other if other != found => _ = patch.insert(key.clone(), other.clone()),
            _ => {}
        }
    }
    Ok(patch)
}

/// The requested list. In lists of named items, items that nobody applied stay.
fn list(last: &Value, actual: &Value, desired: &[Value], position: &str) -> Result<Vec<Value>, String> {
    let empty = Vec::new();
    let (last, actual) = (last.as_array().unwrap_or(&empty), actual.as_array().unwrap_or(&empty));
    let Some(key) = lists::merge_key(position).filter(|_| !last.is_empty()) else { return Ok(desired.to_vec()) };
    let (last, actual) = (lists::by_key(last, key, position)?, lists::by_key(actual, key, position)?);
    let desired = lists::by_key(desired, key, position)?;
    let find = |items: &[(&Value, &Value)], name: &Value| -> Option<Value> {
        items.iter().find(|(known, _)| *known == name).map(|(_, item)| (*item).clone())
    };
    let mut result = Vec::new();
    for (name, wanted) in &desired {
        result.push(match (find(&last, name), find(&actual, name)) {
            (Some(former), Some(found)) => merged(&found, &changes(&former, wanted, &found, position)?),
            _ => (*wanted).clone(),
        });
    }
    for (name, found) in &actual {
        if find(&desired, name).is_none() && find(&last, name).is_none() {
            result.push((*found).clone());
        }
    }
    Ok(result)
}

/// A value whose mappings are sorted by key.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(b.0));
            pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// JSON without blanks and in ASCII, so that every writer produces the same text.
pub(super) fn json_text(value: &Value) -> String {
    let mut text = String::new();
    for character in value.to_string().chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: Value) -> Value {
        json!({ "kind": "Service", "metadata": { "name": "web", "annotations": {} }, "spec": { "ports": ports } })
    }

    #[test]
    fn last_applied_annotation_formatted_like_ansible() {
        let text = annotated(&json!({ "kind": "ConfigMap", "data": { "b": "ü", "a": "1" } }));
        assert_eq!(
            text["metadata"]["annotations"][LAST_APPLIED],
            r#"{"data":{"a":"1","b":"\u00fc"},"kind":"ConfigMap"}"#
        );
    }

    #[test]
    fn patch_removes_dropped_fields_keeps_foreign_ones() {
        let first = json!({ "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "old": "1", "kept": "1" } });
        let mut actual = annotated(&first);
        actual["data"]["theirs"] = json!("x");
        assert_eq!(patch(&actual, &first).unwrap(), None);
        let second = json!({ "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "kept": "2" } });
        let found = patch(&actual, &second).unwrap().unwrap();
        assert_eq!(found["data"], json!({ "old": null, "kept": "2" }));
    }

    #[test]
    fn named_items_merged_individually() {
        let mut actual = annotated(&service(json!([{ "port": 80 }, { "port": 81 }])));
        actual["spec"]["ports"] = json!([{ "port": 80, "nodePort": 30000 }, { "port": 81 }, { "port": 90 }]);
        let found = patch(&actual, &service(json!([{ "port": 80, "name": "http" }]))).unwrap().unwrap();
        assert_eq!(found["spec"]["ports"], json!([{ "port": 80, "nodePort": 30000, "name": "http" }, { "port": 90 }]));
        let error = patch(&actual, &service(json!([{ "name": "http" }]))).unwrap_err();
        assert_eq!(error, "Expected key 'port' not found in position Service.spec.ports");
    }
}
