//! Values as they are shown, and those that are secret.

use serde_json::Value as Json;
use windlass_template::{Value, Variable};
use windlass_yaml::{Node, Value as Yaml};

use crate::output::clipped;

/// Replacement for a secret value.
pub(super) const MASK: &str = "********";

/// Maximum length of a value on one line, in characters.
const WIDTH: usize = 100;
/// Maximum number of lines of a longer value.
const LINES: usize = 40;

/// Variables with passwords, however they are written.
const PASSWORDS: &[&str] = &[
    "ansible_become_pass",
    "ansible_become_password",
    "ansible_doas_pass",
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_private_key_passphrase",
    "ansible_su_pass",
    "ansible_sudo_pass",
    "ansible_vault_password",
];

/// Reason why a definition is secret.
pub(super) fn secret(name: &str, variable: &Variable) -> Option<&'static str> {
    if PASSWORDS.contains(&name) {
        return Some("a password");
    }
    match variable {
        Variable::Text(node) if is_encrypted(node) => Some("encrypted in its file"),
        Variable::Text(_) | Variable::Data(_) => None,
    }
}

/// Whether a value, or a part of it, is encrypted or comes from an encrypted file.
fn is_encrypted(node: &Node) -> bool {
    let inner = match &node.value {
        Yaml::Vault(_) => true,
        Yaml::List(items) => items.iter().any(is_encrypted),
        Yaml::Map(map) => map.values().any(is_encrypted),
        _ => false,
    };
    inner || node.span.source.is_secret()
}

/// Whether a value contains a template.
pub(super) fn is_template(node: &Node) -> bool {
    match &node.value {
        Yaml::String(text) => ["{{", "{%", "{#"].iter().any(|start| text.contains(start)),
        Yaml::List(items) => items.iter().any(is_template),
        Yaml::Map(map) => map.values().any(is_template),
        _ => false,
    }
}

/// A definition as JSON, not rendered. `None` if only a run knows it.
pub(super) fn written(variable: &Variable) -> Option<Json> {
    match variable {
        Variable::Text(node) => Some(node.to_json()),
        Variable::Data(value) => known(value),
    }
}

/// A value as JSON; `None` if it is not known.
pub(super) fn known(value: &Value) -> Option<Json> {
    (!is_unknown(value)).then(|| windlass_template::to_json(value))
}

/// Whether only a run knows a value.
pub(super) fn is_unknown(value: &Value) -> bool {
    windlass_template::unknown_reason(value).is_some()
}

/// A value as text: on one line if it is short, otherwise as several lines.
pub(super) fn lines(value: &Json) -> Vec<String> {
    let short = value.to_string();
    if short.chars().count() <= WIDTH {
        return vec![short];
    }
    if let Json::String(text) = value
        && text.contains('\n')
    {
        return cut(text.lines().map(str::to_owned).collect());
    }
    match value {
        Json::Array(_) | Json::Object(_) => {
            cut(serde_json::to_string_pretty(value).unwrap_or(short).lines().map(str::to_owned).collect())
        }
        _ => vec![short],
    }
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("... ({more} more lines; `--format json` shows all)"));
    }
    lines
}

/// A value on one line, cut if it is long.
pub(super) fn short(value: &Json) -> String {
    let text = value.to_string();
    clipped(&text, WIDTH)
}
