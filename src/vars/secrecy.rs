//! Variables as they are written, and those that must not be shown.

use serde_json::Value as Json;
use windlass_template::{Value, Variable};
use windlass_yaml::{Node, Value as Yaml};

/// Replacement for a secret value.
pub(crate) const MASK: &str = "********";

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
pub(crate) fn secret(name: &str, variable: &Variable) -> Option<&'static str> {
    match variable {
        Variable::Text(node) => secret_node(name, node),
        Variable::Data(_) => PASSWORDS.contains(&name).then_some("a password"),
    }
}

/// Reason why a definition in a file is secret.
pub(crate) fn secret_node(name: &str, node: &Node) -> Option<&'static str> {
    if PASSWORDS.contains(&name) {
        return Some("a password");
    }
    is_encrypted(node).then_some("encrypted in its file")
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

/// A definition as JSON, not rendered. `None` if only a run knows it.
pub(crate) fn written(variable: &Variable) -> Option<Json> {
    match variable {
        Variable::Text(node) => Some(node.to_json()),
        Variable::Data(value) => known(value),
    }
}

/// A value as JSON; `None` if it is not known.
pub(crate) fn known(value: &Value) -> Option<Json> {
    (!is_unknown(value)).then(|| windlass_template::to_json(value))
}

/// Whether only a run knows a value.
fn is_unknown(value: &Value) -> bool {
    windlass_template::unknown_reason(value).is_some()
}
