//! `append_hash`: makes a name depend on the content.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::apply::{json_text, sorted};
use crate::Map;

/// The hash of a ConfigMap or Secret in kustomize's format of ten letters and digits; `None` for other kinds.
pub(super) fn of(definition: &Value) -> Option<String> {
    let kind = definition["kind"].as_str()?;
    let name = |key: &str| definition["metadata"][key].as_str().unwrap_or_default();
    let key = if name("name").is_empty() && !name("generateName").is_empty() { "generateName" } else { "name" };
    let content = |key: &str| definition.get(key).map_or(json!(""), sorted);
    let mut content: Map = [("data", content("data")), ("kind", kind.into()), (key, name(key).into())]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
    match kind {
        "ConfigMap" => {}
        "Secret" => _ = content.insert("type".into(), definition.get("type").map_or(json!(""), Value::clone)),
        _ => return None,
    }
    let digest = hex::encode(Sha256::digest(json_text(&content.into())));
    let letters = digest.chars().take(10).map(|digit| match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    });
    Some(letters.collect())
}
