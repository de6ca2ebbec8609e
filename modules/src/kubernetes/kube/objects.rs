//! Texts from and for kubectl: objects in JSON, the lines that `apply` and `delete` print, definitions for its input.

use serde_json::{Value, json};

use crate::Failure;

/// Parses the output of `kubectl get -o json`: one object, a list, or nothing.
pub(super) fn of_json(text: &str) -> Result<Vec<Value>, Failure> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Failure::new(format!("The output of kubectl is not JSON: {error}.")))?;
    match value {
        Value::Object(mut map) if map.contains_key("items") => match map.remove("items") {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(Vec::new()),
        },
        value => Ok(vec![value]),
    }
}

/// A line of output from `kubectl apply` or `delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) action: String,
}

impl Line {
    pub(super) fn changed(&self) -> bool {
        self.action != "unchanged"
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "kind": self.kind, "name": self.name, "action": self.action })
    }
}

/// Parses output lines: `deployment.apps/web configured`, `pod "web" deleted`, with or without `(server dry run)`.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let actions = ["created", "configured", "unchanged", "deleted", "replaced", "serverside-applied", "pruned"];
    let one = |line: &str| {
        let line = line.trim().trim_end_matches("(server dry run)").trim_end_matches("(dry run)").trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| actions.contains(word) || *word == "force")?;
        let action = words.get(at..)?.iter().find(|word| actions.contains(word))?;
        let (kind, name) = match words.get(..at)? {
            [single] => single.split_once('/')?,
            [kind, name, ..] => (*kind, name.trim_matches('"')),
            [] => return None,
        };
        Some(Line { kind: kind.to_owned(), name: name.to_owned(), action: (*action).to_owned() })
    };
    text.lines().filter_map(one).collect()
}

/// A definition as text for kubectl: mappings become JSON documents, which are valid YAML. A list begins with the mark
/// of a document, because kubectl takes a text that begins with a brace for JSON alone.
pub(super) fn definition(value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(_) => Ok(value.to_string()),
        Value::Array(items) => {
            let documents = items.iter().map(definition).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("---\n{}", documents.join("\n---\n")))
        }
        _ => Err(Failure::new("definition must be a text, a mapping or a list of mappings.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_and_delete_output_parsed() {
        // Printed by kubectl 1.20.2.
        let text = "namespace/demo created\ndeployment.apps/web configured\nservice/web unchanged\nconfigmap/c created (server dry run)\npod \"old\" deleted\npod \"stuck\" force deleted\ndeployment.apps \"web\" deleted (server dry run)\nconfigmap/s serverside-applied\nWarning: something else\n";
        let lines = lines(text);
        let shown: Vec<String> =
            lines.iter().map(|line| format!("{}/{}={}", line.kind, line.name, line.action)).collect();
        assert_eq!(
            shown,
            [
                "namespace/demo=created",
                "deployment.apps/web=configured",
                "service/web=unchanged",
                "configmap/c=created",
                "pod/old=deleted",
                "pod/stuck=deleted",
                "deployment.apps/web=deleted",
                "configmap/s=serverside-applied",
            ]
        );
        assert_eq!(lines.iter().filter(|line| !line.changed()).count(), 1);
    }

    #[test]
    fn json_object_list_and_empty_output_parsed() {
        assert!(of_json("").unwrap().is_empty());
        assert_eq!(of_json(r#"{"kind":"Node","metadata":{}}"#).unwrap().len(), 1);
        assert_eq!(of_json(r#"{"kind":"List","items":[{"kind":"Pod"},{"kind":"Pod"}]}"#).unwrap().len(), 2);
        assert!(of_json("error").is_err());
    }

    #[test]
    fn list_of_mappings_is_no_json_to_kubectl() {
        assert_eq!(definition(&json!([{"a": 1}, "b: 2"])).unwrap(), "---\n{\"a\":1}\n---\nb: 2");
        assert!(definition(&json!(3)).is_err());
    }
}
