//! Variables as they are written, and those that must not be shown.

use minijinja::value::ValueKind;
use serde_json::Value as Json;
use windlass_template::{Value, Variable};
use windlass_yaml::{Node, Value as Yaml};

pub(crate) use crate::output::MASK;
use crate::output::Secrets;

/// Variables with passwords, however they are written. Code that uses a variable as a password asserts that it is here.
const PASSWORDS: &[&str] = &[
    "ansible_become_pass",
    "ansible_become_password",
    "ansible_doas_pass",
    "ansible_kubectl_api_key",
    "ansible_kubectl_password",
    "ansible_kubectl_token",
    "ansible_oc_api_key",
    "ansible_oc_password",
    "ansible_oc_token",
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_private_key_passphrase",
    "ansible_su_pass",
    "ansible_sudo_pass",
    "ansible_vault_password",
];

/// Whether a variable is a password.
pub(crate) fn is_password(name: &str) -> bool {
    name.starts_with("ansible_") && PASSWORDS.contains(&name)
}

/// Masks the passwords among variables from now on, before a task uses or shows one. `get` looks a variable up. Returns
/// the names of other variables that such a password consists of.
pub(crate) fn learn(secrets: &Secrets, get: impl Fn(&str) -> Option<Variable>) -> Vec<String> {
    PASSWORDS.iter().filter_map(|name| learn_one(secrets, &get(name)?)).collect()
}

/// Masks a password from now on. One that is a template is masked once it is rendered; if it consists of another
/// variable, the name of that is returned.
pub(crate) fn learn_one(secrets: &Secrets, password: &Variable) -> Option<String> {
    match password {
        Variable::Data(value) => learn_value(secrets, value),
        Variable::Text(node) => match (&node.value, node.scalar_text()) {
            (Yaml::Null, _) => {}
            (Yaml::String(text), _) if ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) => {
                return lone_variable(text).map(str::to_owned);
            }
            (_, Some(text)) => secrets.add_password(&text),
            // A vaulted value is masked when it is decrypted.
            (_, None) => {}
        },
    }
    None
}

/// Masks a rendered password from now on.
pub(crate) fn learn_value(secrets: &Secrets, password: &Value) {
    if matches!(password.kind(), ValueKind::String | ValueKind::Number) {
        secrets.add_password(&windlass_template::text(password));
    }
}

/// Name of the variable if a template is `{{ NAME }}`.
fn lone_variable(template: &str) -> Option<&str> {
    let name = template.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    crate::playbook::is_identifier(name).then_some(name)
}

/// Reason why a definition is secret.
pub(crate) fn secret(name: &str, variable: &Variable) -> Option<&'static str> {
    match variable {
        Variable::Text(node) => secret_node(name, node),
        Variable::Data(_) => is_password(name).then_some("a password"),
    }
}

/// Reason why a definition in a file is secret.
pub(crate) fn secret_node(name: &str, node: &Node) -> Option<&'static str> {
    if is_password(name) {
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
