//! Tests of the JSON schemas: complete in keywords and modules, and without dangling references.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use super::*;

#[test]
fn every_keyword_has_a_schema() {
    for (name, _) in KEYWORDS {
        assert!(keywords::shape(name).is_some(), "{name} has no shape");
    }
}

#[test]
fn every_reference_resolves() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    for file in [File::Playbook, File::Tasks] {
        let schema = schema(file, &[]);
        let mut found = Vec::new();
        references(&schema, &mut found);
        assert!(found.len() > 500);
        for reference in found {
            assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{reference} leads nowhere");
        }
    }
}

#[test]
fn task_accepts_every_name_of_every_module() {
    let schema = schema(File::Tasks, &["site_module".to_owned()]);
    let properties = &schema["definitions"]["task"]["properties"];
    for spec in builtin::specs() {
        for name in spec.full_names().chain([spec.name.to_owned()]) {
            assert!(properties.get(&name).is_some(), "{name} is missing");
        }
    }
    assert!(properties.get("site_module").is_some() && properties.get("when").is_some());
    assert_eq!(schema["definitions"]["task"]["additionalProperties"], false);
}

#[test]
fn options_have_the_types_and_choices_of_the_module() {
    let schema = schema(File::Playbook, &[]);
    let file = &schema["definitions"]["ansible.builtin.file"]["anyOf"][0];
    let state = &file["properties"]["state"]["allOf"][0]["anyOf"][0]["enum"];
    assert!(state.as_array().unwrap().contains(&json!("directory")), "{state}");
    assert_eq!(file["properties"]["recurse"]["allOf"][0]["$ref"], "#/definitions/boolean");
    // The required option `path` may be given as `dest` or `name`.
    let needed = file["allOf"][0]["anyOf"].as_array().unwrap();
    assert!(needed.contains(&json!({"required": ["path"]})) && needed.contains(&json!({"required": ["dest"]})));
    assert_eq!(file["additionalProperties"], false);
    let set_fact = &schema["definitions"]["ansible.builtin.set_fact"]["anyOf"][0];
    assert_eq!(set_fact["additionalProperties"], true);
}
