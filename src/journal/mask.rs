//! Masks secrets in texts and results before they are written.

use std::borrow::Cow;
use std::cell::Cell;

use minijinja::value::ValueKind;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value as Json;
use windlass_template::{Edited, Value};

use crate::outcome::TaskResult;
use crate::output::{MASK, Secrets, WORDS};

/// Maximum size of a fact in the journal, as JSON in bytes.
const FACT: usize = 1 << 10;

/// Maximum size of all facts of a task in the journal, as JSON in bytes.
const FACTS: usize = 64 << 10;

/// Maximum size of a new host or group in the journal, as JSON in bytes.
const CHANGE: usize = 64 << 10;

/// Facts that may hold secrets that nobody declared: the environment, and files of the host's owner.
const PRIVATE: &[&str] = &["ansible_cmdline", "ansible_env", "ansible_local", "ansible_proc_cmdline"];

/// Masks the secrets in a text.
pub(super) fn text(text: &str, secrets: &Secrets) -> String {
    secrets.mask(text)
}

/// JSON text of an object, from fields whose values are JSON texts. Empty without fields.
#[derive(Default)]
struct Object(String);

impl Object {
    fn add(&mut self, name: &str, value: &str) {
        let begin = if self.0.is_empty() { "{" } else { "," };
        self.0.extend([begin, &Json::from(name).to_string(), ":", value]);
    }

    fn finish(mut self) -> String {
        if !self.0.is_empty() {
            self.0.push('}');
        }
        self.0
    }
}

/// JSON text of the new group, new host and small facts of a result, with every secret masked. Facts with a secret are
/// left out.
pub(super) fn effect(result: &TaskResult, secrets: &Secrets) -> String {
    let mut effect = Object::default();
    for name in ["add_group", "parent_groups", "add_host"] {
        let Some(value) = result.get(name) else { continue };
        let mut json = windlass_template::to_json(value);
        // A password among them may not be known as a secret yet.
        if let Some(host) = json.as_object_mut() {
            host.remove("host_vars");
        }
        secrets.mask_json(&mut json);
        let text = json.to_string();
        if text.len() <= CHANGE {
            effect.add(name, &text);
        }
    }
    let facts = result.get("ansible_facts").and_then(Value::as_object);
    let mut known = Object::default();
    let mut left = FACTS;
    let mut room = [0; FACT];
    for (key, value) in facts.iter().filter_map(|facts| facts.try_iter_pairs()).flatten() {
        let Some(name) = key.as_str().filter(|name| !PRIVATE.contains(name)) else { continue };
        let is_masked = Cell::new(false);
        let mask = |text: &str| {
            let Cow::Owned(masked) = secrets.masked(text) else { return None };
            is_masked.set(true);
            Some(masked)
        };
        // A host may report large facts, which are not copied.
        let most = FACT.min(left).saturating_sub(name.len());
        let text = room.get_mut(..most).and_then(|room| text_within(&Edited::new(&value, &mask), room));
        if let Some(text) = text.filter(|_| !is_masked.get()) {
            left -= name.len() + text.len();
            known.add(name, text);
        }
    }
    let known = known.finish();
    if !known.is_empty() {
        effect.add("ansible_facts", &known);
    }
    effect.finish()
}

/// JSON text of a value, if the room is enough for it.
fn text_within<'a>(value: &impl Serialize, room: &'a mut [u8]) -> Option<&'a str> {
    let mut left = &mut *room;
    // A writer to a slice fails once that is full.
    serde_json::to_writer(&mut left, value).ok()?;
    let left = left.len();
    std::str::from_utf8(room.get(..room.len() - left)?).ok()
}

/// Serialises a result with every secret masked, in keys, texts and numbers.
pub(super) struct Fields<'a> {
    result: &'a TaskResult,
    secrets: &'a Secrets,
    masked: Cell<bool>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(result: &'a TaskResult, secrets: &'a Secrets) -> Fields<'a> {
        Fields { result, secrets, masked: Cell::new(false) }
    }

    /// Whether serialisation met a secret.
    pub(super) fn is_masked(&self) -> bool {
        self.masked.get()
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mask = |text: &str| {
            let Cow::Owned(masked) = self.secrets.masked(text) else { return None };
            self.masked.set(true);
            Some(masked)
        };
        let mut map = serializer.serialize_map(None)?;
        // No task can read the arguments.
        for (key, value) in self.result.iter().filter(|(key, _)| &***key != "invocation") {
            let name = mask(key).map_or(Cow::Borrowed(&**key), Cow::Owned);
            if &**key == "results" && is_loop(self.result) {
                // Items have their own records.
                map.serialize_entry(&name, &())?;
            } else if let Some(words) = self.words(key, value) {
                self.masked.set(true);
                map.serialize_entry(&name, &words)?;
            } else {
                map.serialize_entry(&name, &Edited::new(value, &mask))?;
            }
        }
        map.end()
    }
}

impl Fields<'_> {
    /// Masked words of a command line that was split within a secret.
    fn words(&self, key: &str, value: &Value) -> Option<Json> {
        if !WORDS.contains(&key) || value.kind() != ValueKind::Seq || !self.secrets.is_any_known() {
            return None;
        }
        let Json::Array(mut words) = windlass_template::to_json(value) else { return None };
        if !self.secrets.mask_words(&mut words) {
            return None;
        }
        let mut words = Json::Array(words);
        self.secrets.mask_json(&mut words);
        Some(words)
    }
}

/// Maximum size of one text of the arguments in the journal, in bytes.
const TEXT: usize = 1 << 10;

/// Parts of names whose values are secret, where a module does not declare them so: in bodies of requests, for example.
const SECRET: &[&str] = &[
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "passphrase",
    "passw",
    "private_key",
    "privatekey",
    "psk",
    "secret",
    "token",
];

/// Masks arguments of a task and cuts long texts.
pub(super) fn arguments(args: &mut Json, secrets: &Secrets) {
    // Masked first: a cut secret would not be found.
    secrets.mask_json(args);
    hide(args);
}

fn hide(value: &mut Json) {
    match value {
        Json::String(text) if text.len() > TEXT => {
            let left_out = text.len() - TEXT;
            text.truncate(text.floor_char_boundary(TEXT));
            text.push_str(&format!("... ({left_out} bytes more)"));
        }
        Json::Array(values) => values.iter_mut().for_each(hide),
        Json::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase().replace('-', "_");
                match SECRET.iter().any(|part| name.contains(part)) && !value.is_null() && !value.is_boolean() {
                    true => *value = Json::from(MASK),
                    false => hide(value),
                }
            }
        }
        _ => {}
    }
}

/// Whether `results` contains the items of a loop.
fn is_loop(result: &TaskResult) -> bool {
    result.get("results").is_some_and(|results| {
        results.try_iter().is_ok_and(|mut items| {
            items.next().is_some_and(|first| first.get_attr("ansible_loop_var").is_ok_and(|name| !name.is_undefined()))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_with_quotes_in_nested_value_is_masked_whole() {
        let secrets = Secrets::default();
        secrets.add("pa\"ss\\word");
        let nested = windlass_template::from_json(&json!([{"b": "x pa\"ss\\word y"}]));
        let result = TaskResult::new().with("a", nested).with("n", 1);
        let fields = Fields::new(&result, &secrets);
        assert_eq!(serde_json::to_value(&fields).unwrap(), json!({"a": [{"b": "x ******** y"}], "n": 1}));
        assert!(fields.is_masked());
    }

    #[test]
    fn effect_has_small_facts_without_secrets() {
        let secrets = Secrets::default();
        secrets.add("hunter2-secret");
        let facts = json!({
            "ansible_os_family": "Debian",
            "ansible_env": {"TOKEN": "x"},
            "ansible_motd": "hunter2-secret",
            "ansible_long": "x".repeat(2000),
        });
        let result = TaskResult::new().with("ansible_facts", windlass_template::from_json(&facts));
        let expected = json!({"ansible_facts": {"ansible_os_family": "Debian"}});
        let read = |result| serde_json::from_str::<Json>(&effect(result, &secrets)).unwrap();
        assert_eq!(read(&result), expected);
        let group = TaskResult::new().with("add_group", "hunter2-secret").with("changed", true);
        assert_eq!(read(&group), json!({"add_group": "********"}));
        assert_eq!(effect(&TaskResult::new(), &secrets), "");
    }

    #[test]
    fn arguments_hide_secrets_by_value_and_by_name_and_are_cut() {
        let secrets = Secrets::default();
        secrets.add("correct horse");
        let long = "x".repeat(TEXT + 5);
        let body = json!({"api_token": "abc", "text": "a correct horse", "credentials": {"a": ["b"]}, "tokens": false});
        let mut args = json!({"body": body, "headers": {"X-Api-Key": "abc"}, "content": long, "mode": 420});
        arguments(&mut args, &secrets);
        let cut = format!("{}... (5 bytes more)", "x".repeat(TEXT));
        let body = json!({"api_token": MASK, "text": "a ********", "credentials": MASK, "tokens": false});
        assert_eq!(args, json!({"body": body, "headers": {"X-Api-Key": MASK}, "content": cut, "mode": 420}));
    }

    #[test]
    fn secret_split_into_words_of_a_command_is_masked() {
        let secrets = Secrets::default();
        secrets.add("correct horse battery");
        let command = windlass_template::from_json(&json!(["login", "correct", "horse", "battery"]));
        let result = TaskResult::new().with("cmd", command);
        let fields = Fields::new(&result, &secrets);
        let masked = json!({"cmd": ["login", "********", "********", "********"]});
        assert_eq!(serde_json::to_value(&fields).unwrap(), masked);
        assert!(fields.is_masked());
    }
}
