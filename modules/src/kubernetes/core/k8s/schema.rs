//! `validate`: checks definitions against the server's schema.

use serde_json::Value;

use super::super::client::{ApiError, Client};
use crate::Host;

/// The schema of all kinds that the server publishes.
pub(super) struct Schemas {
    api: Value,
}

impl Schemas {
    pub(super) fn of(client: &Client, host: &Host) -> Result<Schemas, ApiError> {
        Ok(Schemas { api: client.get("/openapi/v2", &[], host)? })
    }

    /// The errors of a definition; `None` if the schema lacks the kind.
    pub(super) fn errors(&self, definition: &Value, strict: bool) -> Option<Vec<String>> {
        let version = definition["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let is_it = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice).unwrap_or_default();
            kinds
                .iter()
                .any(|kind| kind["group"] == group && kind["version"] == version && kind["kind"] == definition["kind"])
        };
        let schema = self.api["definitions"].as_object()?.values().find(is_it)?;
        let mut errors = Vec::new();
        self.check(definition, schema, strict, "", &mut errors);
        Some(errors)
    }

    fn check(&self, value: &Value, schema: &Value, strict: bool, place: &str, errors: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap_or_default();
            return self.check(value, &self.api["definitions"][name], strict, place, errors);
        }
        let shown = || if place.is_empty() { "it".to_owned() } else { format!("{place} ({value})") };
        let wanted = schema["type"].as_str().unwrap_or_default();
        let fits = match wanted {
            // The type of an int-or-string field is string.
            "string" => value.is_string() || (schema["format"] == "int-or-string" && value.is_number()),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        // A null removes a field.
        if !fits && !value.is_null() {
            errors.push(format!("{} is not of type '{wanted}'", shown()));
            return;
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check(item, &schema["items"], strict, &format!("{place}[{index}]"), errors);
                }
            }
            Value::Object(fields) => {
                for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if !fields.contains_key(name) {
                        errors.push(format!("{} has no '{name}', which is a required property", place_of(place)));
                    }
                }
                for (name, field) in fields {
                    let inner = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                    if let Some(known) = schema["properties"].get(name) {
                        self.check(field, known, strict, &inner, errors);
                    } else if schema["additionalProperties"].is_object() {
                        self.check(field, &schema["additionalProperties"], strict, &inner, errors);
                    } else if strict
                        && schema["properties"].is_object()
                        && schema["x-kubernetes-preserve-unknown-fields"] != true
                    {
                        errors.push(format!("{} has '{name}', which is not a property of it", place_of(place)));
                    }
                }
            }
            _ => {}
        }
    }
}

fn place_of(place: &str) -> &str {
    if place.is_empty() { "the object" } else { place }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_validated_against_server_schema() {
        let api = json!({ "definitions": {
            "deployment": {
                "type": "object",
                "properties": { "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "spec": { "$ref": "#/definitions/spec" } },
                "x-kubernetes-group-version-kind": [{ "group": "apps", "version": "v1", "kind": "Deployment" }],
            },
            "spec": {
                "type": "object",
                "required": ["selector"],
                "properties": {
                    "replicas": { "type": "integer" },
                    "selector": { "type": "object", "additionalProperties": { "type": "string" } },
                    "ports": { "type": "array", "items": { "type": "string", "format": "int-or-string" } },
                },
            },
        } });
        let schemas = Schemas { api };
        let errors = |spec: Value, strict| {
            schemas.errors(&json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec }), strict).unwrap()
        };
        assert!(errors(json!({ "replicas": 1, "selector": { "a": "b" }, "ports": [80, "http"] }), true).is_empty());
        let wrong = json!({ "replicas": "1", "selector": { "a": 1 }, "replica": 2, "ports": [true] });
        assert_eq!(
            errors(wrong.clone(), true),
            [
                "spec.replicas (\"1\") is not of type 'integer'",
                "spec.selector.a (1) is not of type 'string'",
                "spec has 'replica', which is not a property of it",
                "spec.ports[0] (true) is not of type 'string'",
            ]
        );
        assert_eq!(errors(wrong, false).len(), 3);
        assert_eq!(errors(json!({}), true), ["spec has no 'selector', which is a required property"]);
        assert!(schemas.errors(&json!({ "apiVersion": "v1", "kind": "Nothing" }), true).is_none());
    }
}
