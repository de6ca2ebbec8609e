//! Facts cached between runs in the format of Ansible's `jsonfile`: one JSON file per host, interchangeable with
//! Ansible.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use windlass_template::Compat;

use super::{HostFacts, World};
use crate::output::{nice_json, python_json};
use crate::settings::Settings;

/// A directory of cached facts.
#[derive(Debug)]
pub struct FactCache<'s> {
    settings: &'s Settings,
    folder: PathBuf,
}

impl FactCache<'_> {
    /// The cache that the settings enable, if any.
    pub fn of(settings: &Settings) -> Option<FactCache<'_>> {
        Some(FactCache { settings, folder: settings.facts.cache.clone()? })
    }

    fn file(&self, host: &str) -> PathBuf {
        // Slashes in a host's name must not lead out of the directory.
        let version = if self.is_wrapped() { "s1_" } else { "" };
        self.folder.join(format!("{}{version}{}", self.settings.facts.cache_prefix, host.replace('/', "_")))
    }

    /// Whether the facts are JSON text inside a JSON document and the file name has a version prefix. This is the
    /// format since ansible-core 2.19.
    fn is_wrapped(&self) -> bool {
        self.settings.compat == Compat::V2_19
    }

    /// Loads a host's facts unless they have expired. They came from the host, so they are not trusted more than its
    /// answers.
    pub fn load(&self, host: &str) -> HostFacts {
        let file = self.file(host);
        let limit = Duration::from_secs(self.settings.facts.cache_timeout);
        let age = std::fs::metadata(&file).and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        let fresh = age.is_ok_and(|age| limit.is_zero() || age.unwrap_or_default() <= limit);
        let text = if fresh { windlass_bounds::read(&file).unwrap_or_default() } else { Vec::new() };
        let kept: Json = serde_json::from_slice(&text).unwrap_or_default();
        let kept = match kept.get("__payload__").and_then(Json::as_str).filter(|_| self.is_wrapped()) {
            Some(payload) => serde_json::from_str(payload).unwrap_or_default(),
            None => kept,
        };
        let Json::Object(facts) = kept else { return HostFacts::default() };
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect();
        HostFacts::of_cache(&windlass_template::from_json(&Json::Object(facts)))
    }

    /// Saves the facts of all hosts whose facts have changed. Returns errors as warnings.
    pub fn update(&self, before: &World, after: &World) -> Vec<String> {
        let mut problems = Vec::new();
        for (host, state) in &after.hosts {
            let former = before.hosts.get(host).map(|former| &former.facts);
            if former.is_some_and(|former| Arc::ptr_eq(former, &state.facts)) {
                continue;
            }
            if former.is_none() && state.facts.is_empty() {
                continue;
            }
            let file = self.file(host);
            let written = if state.facts.is_empty() {
                std::fs::remove_file(&file).or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
            } else {
                self.write(&file, &state.facts)
            };
            if let Err(error) = written {
                problems.push(format!("the facts of {host} cannot be cached in {}: {error}", file.display()));
            }
        }
        problems
    }

    fn write(&self, file: &std::path::Path, facts: &super::facts::Facts) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let entries =
            facts.names().filter_map(|name| Some((name.to_string(), windlass_template::to_json(facts.get(name)?))));
        let facts = Json::Object(entries.collect());
        let text = match self.is_wrapped() {
            true => python_json(&serde_json::json!({"__payload__": ascii(&python_json(&facts))})),
            false => ascii(&nice_json(&facts)),
        };
        // Another run may read the file at any time.
        let staged =
            self.folder.join(format!(".{}.{}", std::process::id(), file.file_name().unwrap_or_default().display()));
        std::fs::write(&staged, text)?;
        std::fs::rename(&staged, file)
    }

    /// Removes a host's facts.
    pub fn forget(&self, host: &str) {
        // A missing file needs no removal.
        let _ = std::fs::remove_file(self.file(host));
    }
}

/// JSON with non-ASCII characters escaped, so that readers with any encoding agree.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character.is_ascii() {
            true => text.push(character),
            false => {
                character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")))
            }
        }
    }
    text
}

/// Removes ansible-core's annotations of origin and type from a value. Ciphertext is dropped.
fn plain(value: Json) -> Option<Json> {
    match value {
        Json::Array(items) => Some(items.into_iter().filter_map(plain).collect()),
        Json::Object(mut fields) => {
            if let Some(text) = fields.remove("__ansible_unsafe") {
                return Some(text);
            }
            if fields.contains_key("__ansible_vault") {
                return None;
            }
            let Some(kind) = fields.remove("__ansible_type") else {
                return Some(fields.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect());
            };
            match (fields.remove("value"), fields.remove("iso8601")) {
                (Some(value), _) => plain(value),
                (None, Some(Json::String(time))) if kind == "AnsibleSerializableDateTime" => {
                    Some(time.replacen('T', " ", 1).into())
                }
                (None, time) => time,
            }
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::plain;

    #[test]
    fn annotations_of_ansible_core_dropped() {
        let origin = json!({"path": "/x.yml", "line_num": 4, "col_num": 9, "__ansible_type": "Origin"});
        let kept = json!({
            "number": {"value": 1, "tags": [origin], "__ansible_type": "_AnsibleTaggedInt"},
            "list": {"value": [{"value": "x", "tags": [origin], "__ansible_type": "_AnsibleTaggedStr"}, null], "__ansible_type": "_AnsibleTaggedList"},
            "date": {"value": {"iso8601": "2020-01-01", "__ansible_type": "AnsibleSerializableDate"}, "__ansible_type": "_AnsibleTaggedDate"},
            "time": {"iso8601": "2020-01-01T10:00:00", "__ansible_type": "AnsibleSerializableDateTime"},
            "secret": {"ciphertext": "$ANSIBLE_VAULT", "__ansible_type": "EncryptedString"},
            "older": {"__ansible_unsafe": "{{ x }}"},
        });
        let facts = json!({"number": 1, "list": ["x", null], "date": "2020-01-01", "time": "2020-01-01 10:00:00", "older": "{{ x }}"});
        assert_eq!(plain(kept), Some(facts));
    }
}
