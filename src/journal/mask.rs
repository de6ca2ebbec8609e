//! Masks secrets in texts and results before they are written.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use minijinja::value::ValueKind;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value as Json};
use windlass_template::{Edited, Value, to_exact};

use super::limit;
use super::record::Withheld;
use crate::outcome::{Arguments, TaskResult};
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

/// JSON text of a result's new group, new host and small facts, with every secret masked; empty if there are none.
/// Facts with a secret are left out.
pub(super) fn effect(result: &TaskResult, secrets: &Secrets) -> String {
    let mut parts = Vec::new();
    for name in ["add_group", "parent_groups", "add_host"] {
        let Some(value) = result.get(name) else { continue };
        let mut json = windlass_template::to_json(value);
        // A password among them may not be known as a secret yet.
        if let Some(host) = json.as_object_mut() {
            host.remove("host_vars");
        }
        secrets.mask_json(&mut json);
        parts.extend(limit::text(&json, CHANGE).map(|text| format!("\"{name}\":{text}")));
    }
    let facts = result.get("ansible_facts").and_then(Value::as_object);
    let known = facts.map(|facts| small_facts(facts.try_iter_pairs().into_iter().flatten(), secrets));
    parts.extend(known.filter(|text| !text.is_empty()).map(|text| format!("\"ansible_facts\":{{{text}}}")));
    if parts.is_empty() { String::new() } else { format!("{{{}}}", parts.join(",")) }
}

/// Members of a JSON object: the facts that are small and hold no secret.
fn small_facts(facts: impl Iterator<Item = (Value, Value)>, secrets: &Secrets) -> String {
    let mut known = Vec::new();
    let mut left = FACTS;
    for (key, value) in facts {
        let Some(name) = key.as_str().filter(|name| !PRIVATE.contains(name)) else { continue };
        let is_masked = Cell::new(false);
        let mask = |text: &str| {
            let Cow::Owned(masked) = secrets.masked(text) else { return None };
            is_masked.set(true);
            Some(masked)
        };
        let before = known.len();
        if before > 0 {
            known.push(b',');
        }
        // A host may report large facts, which are not copied.
        let most = FACT.min(left).saturating_sub(name.len());
        let is_named = serde_json::to_writer(&mut known, name).is_ok();
        known.push(b':');
        let start = known.len();
        let is_small = limit::append(&mut known, &Edited::new(&value, &mask), most).is_ok();
        if is_named && is_small && !is_masked.get() {
            left -= name.len() + known.len() - start;
        } else {
            known.truncate(before);
        }
    }
    String::from_utf8(known).unwrap_or_default()
}

/// Serialises a result with every secret masked, in keys, texts and numbers.
pub(super) struct Fields<'a> {
    result: &'a TaskResult,
    /// Whether it is a loop's, whose items have records of their own.
    looped: bool,
    secrets: &'a Secrets,
    masked: Cell<bool>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(result: &'a TaskResult, looped: bool, secrets: &'a Secrets) -> Fields<'a> {
        Fields { result, looped, secrets, masked: Cell::new(false) }
    }

    /// Whether serialisation met a secret.
    pub(super) fn is_masked(&self) -> bool {
        self.masked.get()
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mask = |text: &str| {
            // A longer text does not fit, so it is not searched.
            if text.len() > limit::RESULT {
                return None;
            }
            let Cow::Owned(masked) = self.secrets.masked(text) else { return None };
            self.masked.set(true);
            Some(masked)
        };
        let mut map = serializer.serialize_map(None)?;
        // No task can read the arguments.
        for (key, value) in self.result.iter().filter(|(key, _)| &***key != "invocation") {
            let name = mask(key).map_or(Cow::Borrowed(&**key), Cow::Owned);
            if &**key == "results" && self.looped {
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

/// JSON text of the values that JSON lacks, by name, in a form that keeps them; empty if there are none. The result
/// must contain no secret. Items of a loop have records of their own.
pub(super) fn exact(result: &TaskResult, looped: bool) -> Result<String, Withheld> {
    let is_kept = |(key, value): &(&Arc<str>, &Value)| {
        let is_recorded = &***key != "invocation" && !(&***key == "results" && looped);
        is_recorded && !windlass_template::is_json(value)
    };
    let entries = result.iter().filter(is_kept).map(|(key, value)| (key.to_string(), to_exact(value)));
    let entries: Map<String, Json> = entries.collect();
    let mut text = Vec::new();
    if !entries.is_empty() {
        limit::append(&mut text, &entries, limit::RESULT)?;
    }
    Ok(String::from_utf8(text).unwrap_or_default())
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

/// Maximum size of a task's arguments in the journal, as JSON in bytes.
const ARGUMENTS: usize = 16 << 10;

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

/// Arguments of a task for the journal.
pub(crate) enum Given<'a> {
    /// Rendered values without secret options.
    Values(&'a Arguments),
    /// An object in which the values of secret options are replaced.
    Object(Json),
}

/// JSON text of a task's arguments, with secrets masked and long texts cut. `None` if they are too large or nest too
/// deeply.
pub(super) fn arguments(given: Given<'_>, secrets: &Secrets) -> Option<String> {
    match given {
        // Most tasks have a few texts and flags, for which a tree would take longer than the rest.
        Given::Values(values) if values.values().all(is_scalar) => limit::text(&Scalars { values, secrets }, ARGUMENTS),
        Given::Values(values) => {
            let entries = values.iter().map(|(name, value)| (name.to_string(), windlass_template::to_json(value)));
            arguments(Given::Object(Json::Object(entries.collect())), secrets)
        }
        Given::Object(mut object) => {
            // Masked first: a cut secret would not be found.
            secrets.mask_json(&mut object);
            hide(&mut object);
            limit::text(&object, ARGUMENTS)
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
}

/// Serialises arguments none of which has members, with secrets masked and long texts cut.
struct Scalars<'a> {
    values: &'a Arguments,
    secrets: &'a Secrets,
}

impl Serialize for Scalars<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mask = |text: &str| match self.secrets.masked(text) {
            Cow::Owned(masked) => Some(cut(&masked).unwrap_or(masked)),
            Cow::Borrowed(text) => cut(text),
        };
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (name, value) in self.values {
            let name = self.secrets.masked(name);
            let is_flag = matches!(value.kind(), ValueKind::None | ValueKind::Undefined | ValueKind::Bool);
            if is_secret(&name) && !is_flag {
                map.serialize_entry(&name, MASK)?;
            } else {
                map.serialize_entry(&name, &Edited::new(value, &mask))?;
            }
        }
        map.end()
    }
}

/// The start of a text that is too long; `None` if it is not.
fn cut(text: &str) -> Option<String> {
    let left_out = text.len().checked_sub(TEXT).filter(|left_out| *left_out > 0)?;
    let start = text.get(..text.floor_char_boundary(TEXT)).unwrap_or_default();
    Some(format!("{start}... ({left_out} bytes more)"))
}

/// Whether the values of this name are secret.
fn is_secret(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let name = if is_plain { Cow::Borrowed(name) } else { name.to_lowercase().replace('-', "_").into() };
    SECRET.iter().any(|part| name.contains(part))
}

fn hide(value: &mut Json) {
    match value {
        Json::String(text) => {
            if let Some(start) = cut(text) {
                *text = start;
            }
        }
        Json::Array(values) => values.iter_mut().for_each(hide),
        Json::Object(fields) => {
            for (name, value) in fields {
                match is_secret(name) && !value.is_null() && !value.is_boolean() {
                    true => *value = Json::from(MASK),
                    false => hide(value),
                }
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
    fn secret_with_quotes_in_nested_value_is_masked_whole() {
        let secrets = Secrets::default();
        secrets.add("pa\"ss\\word");
        let nested = windlass_template::from_json(&json!([{"b": "x pa\"ss\\word y"}]));
        let result = TaskResult::new().with("a", nested).with("n", 1);
        let fields = Fields::new(&result, false, &secrets);
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
        assert_eq!(effect(&result, &secrets), r#"{"ansible_facts":{"ansible_os_family":"Debian"}}"#);
        let group = TaskResult::new().with("add_group", "hunter2-secret").with("changed", true);
        assert_eq!(effect(&group, &secrets), r#"{"add_group":"********"}"#);
        assert_eq!(effect(&TaskResult::unchanged(), &secrets), "");
    }

    #[test]
    fn arguments_hide_secrets_by_value_and_by_name_and_are_cut() {
        let secrets = Secrets::default();
        secrets.add("correct horse");
        let long = "x".repeat(TEXT + 5);
        let cut = format!("{}... (5 bytes more)", "x".repeat(TEXT));
        let body = json!({"api_token": "abc", "text": "a correct horse", "credentials": {"a": ["b"]}, "tokens": false});
        let hidden = json!({"api_token": MASK, "text": "a ********", "credentials": MASK, "tokens": false});
        let shown = |args: Json| {
            let args = args.as_object().unwrap().iter();
            let values: Arguments =
                args.map(|(name, value)| (name.as_str().into(), windlass_template::from_json(value))).collect();
            serde_json::from_str::<Json>(&arguments(Given::Values(&values), &secrets).unwrap()).unwrap()
        };
        let args = json!({"body": body, "headers": {"X-Api-Key": "abc"}, "content": long, "mode": 420});
        let expected = json!({"body": hidden, "headers": {"X-Api-Key": MASK}, "content": cut, "mode": 420});
        assert_eq!(shown(args), expected);
        let args =
            json!({"X-Api-Key": "abc", "content": long, "mode": 420, "token": null, "secret": 1, "a": "correct horse"});
        let expected =
            json!({"X-Api-Key": MASK, "content": cut, "mode": 420, "token": null, "secret": MASK, "a": MASK});
        assert_eq!(shown(args), expected, "without members");
    }

    #[test]
    fn secret_split_into_words_of_a_command_is_masked() {
        let secrets = Secrets::default();
        secrets.add("correct horse battery");
        let command = windlass_template::from_json(&json!(["login", "correct", "horse", "battery"]));
        let result = TaskResult::new().with("cmd", command);
        let fields = Fields::new(&result, false, &secrets);
        let masked = json!({"cmd": ["login", "********", "********", "********"]});
        assert_eq!(serde_json::to_value(&fields).unwrap(), masked);
        assert!(fields.is_masked());
    }
}
