//! Objects as data: hidden fields, merging, and server warnings.

use serde_json::Value;

use crate::Map;

/// Whether the object exists; a list exists if it is not empty.
pub(super) fn exists(object: Option<&Value>) -> bool {
    object.is_some_and(|object| !is_list(object) || !items(object).is_empty())
}

/// Whether this is a list of objects.
pub(super) fn is_list(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
}

/// The objects of a list.
pub(super) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Copies kind and version to each object of a list, because the server gives them once for all.
pub(super) fn name_items(list: &mut Value) {
    let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let (Some(kind), version) = (kind, list["apiVersion"].clone()) else { return };
    let Some(items) = list.get_mut("items") else { return };
    if items.is_null() {
        *items = Value::Array(Vec::new());
    }
    for item in items.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        item.entry("apiVersion").or_insert_with(|| version.clone());
        item.entry("kind").or_insert_with(|| kind.clone().into());
    }
}

/// Merges one mapping over another recursively; for other values the upper wins.
pub(super) fn merged(lower: &Value, upper: &Value) -> Value {
    let (Value::Object(below), Value::Object(above)) = (lower, upper) else { return upper.clone() };
    let mut all = below.clone();
    for (key, value) in above {
        let value = match all.get(key) {
            Some(former) if former.is_object() => merged(former, value),
            _ => value.clone(),
        };
        all.insert(key.clone(), value);
    }
    all.into()
}

/// The messages of a `Warning` header: `299 - "policy/v1beta1 is deprecated", 299 - "..."`.
pub(super) fn warnings(header: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some(start) = rest.find('"') {
        rest = rest.get(start + 1..).unwrap_or_default();
        let (mut text, mut escaped, mut end) = (String::new(), false, rest.len());
        for (at, character) in rest.char_indices() {
            match character {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    end = at;
                    break;
                }
                other => {
                    text.push(other);
                    escaped = false;
                }
            }
        }
        found.push(text);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    found
}

/// An object without hidden fields: `metadata.managedFields`, `spec.containers[0].env[3].value`,
/// `metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]`. Parents that become empty are removed too.
pub(super) fn hidden(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    let mut paths: Vec<Vec<&str>> = fields.iter().map(|field| steps(field)).collect();
    // Removes the last items of a list first, so that the indices of the others stay valid.
    paths.sort_by_key(|path| {
        std::cmp::Reverse(path.iter().filter_map(|step| step.parse::<usize>().ok()).collect::<Vec<_>>())
    });
    for path in paths {
        remove(&mut object, &path);
    }
    object
}

fn steps(field: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        found.push(step);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    found
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((step, rest)) = path.split_first() else { return };
    let index = step.parse::<usize>().ok();
    let inner = match value {
        Value::Object(map) => map.get_mut(*step),
        Value::Array(list) => index.and_then(|index| list.get_mut(index)),
        _ => None,
    };
    let Some(inner) = inner else { return };
    if !rest.is_empty() {
        remove(inner, rest);
        let emptied = inner.as_object().is_some_and(Map::is_empty) || inner.as_array().is_some_and(Vec::is_empty);
        if !emptied {
            return;
        }
    }
    match (value, index) {
        (Value::Object(map), _) => _ = map.shift_remove(*step),
        (Value::Array(list), Some(index)) => _ = list.remove(index),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_hidden_by_path() {
        let object = json!({
            "metadata": { "name": "a", "managedFields": [{}], "annotations": { "example.com/x.y": "1" } },
            "spec": { "containers": [{ "env": [{ "value": "0" }, { "value": "1" }, { "value": "2" }] }] },
        });
        let shown = hidden(
            &object,
            &[
                "metadata.managedFields",
                "metadata.annotations[example.com/x.y]",
                "spec.containers[0].env[0]",
                "spec.containers[0].env[2].value",
                "status.x",
            ],
        );
        assert_eq!(
            shown,
            json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "env": [{ "value": "1" }] }] } })
        );
    }

    #[test]
    fn warning_header_parsed() {
        let header = r#"299 - "policy/v1beta1 is \"old\", use v1", 299 - "second""#;
        assert_eq!(warnings(header), [r#"policy/v1beta1 is "old", use v1"#, "second"]);
        assert!(warnings("").is_empty());
    }

    #[test]
    fn list_items_get_kind_and_version() {
        let mut list = json!({ "kind": "PodList", "apiVersion": "v1", "items": [{ "metadata": {} }] });
        name_items(&mut list);
        assert_eq!(items(&list)[0]["kind"], "Pod");
        let mut empty = json!({ "kind": "PodList", "apiVersion": "v1", "items": null });
        name_items(&mut empty);
        assert!(!exists(Some(&empty)) && exists(Some(&list)) && !exists(None));
    }

    #[test]
    fn mappings_merged_recursively() {
        assert_eq!(
            merged(&json!({ "a": { "b": 1 }, "c": [1] }), &json!({ "a": { "d": null }, "c": [2] })),
            json!({ "a": { "b": 1, "d": null }, "c": [2] })
        );
    }
}
