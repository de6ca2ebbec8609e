//! The invocation of a module, as results show it with `-vvv`.

use serde_json::{Value, json};

use crate::{
    Map, Opt, Spec,
    args::is_true,
    secrets::{SECRET, without_passwords},
};

/// Suffix of a boolean option that, if true, makes the value of the option without the suffix secret.
const FLAG: &str = "_no_log";

/// The arguments completed with defaults, without values that pass between the two halves of an action.
pub fn invocation(spec: &Spec, given: &Value) -> Value {
    let empty = Map::new();
    json!({ "module_args": shown(spec.options, given.as_object().unwrap_or(&empty)) })
}

/// Passes every value of a secret option to `found`.
pub fn secret_values(spec: &Spec, given: &Value, found: &mut dyn FnMut(&str)) {
    find(spec.options, given, found);
}

/// Replaces every value of a secret option.
pub fn hide_secrets(spec: &Spec, given: &mut Value) {
    hide(spec.options, given);
}

/// Whether a module has secret options.
pub fn has_secrets(spec: &Spec) -> bool {
    fn any(options: &[Opt]) -> bool {
        options.iter().any(|option| option.no_log || option.name.ends_with(FLAG) || any(option.options))
    }
    any(spec.options)
}

/// Whether a task declares the value of an option secret, by another option.
fn is_flagged(option: &Opt, given: &Map) -> bool {
    given.iter().any(|(name, value)| name.strip_suffix(FLAG) == Some(option.name) && is_true(value))
}

fn hide(options: &[Opt], given: &mut Value) {
    match given {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(options, item)),
        Value::Object(map) => {
            for option in options {
                let is_flagged = is_flagged(option, map);
                for name in std::iter::once(&option.name).chain(option.aliases) {
                    match map.get_mut(*name) {
                        Some(Value::Null) | None => {}
                        Some(value) if is_flagged || option.hides(value) => *value = SECRET.into(),
                        Some(value) => hide(option.options, value),
                    }
                }
            }
        }
        _ => {}
    }
}

fn find(options: &[Opt], given: &Value, found: &mut dyn FnMut(&str)) {
    match given {
        Value::Array(items) => items.iter().for_each(|item| find(options, item, found)),
        Value::Object(map) => {
            for option in options {
                for name in std::iter::once(&option.name).chain(option.aliases) {
                    match map.get(*name) {
                        Some(value) if option.hides(value) => texts(value, found),
                        Some(value) if is_flagged(option, map) => texts(value, &mut |text| {
                            found(text);
                            // A message may contain only one of the assignments.
                            text.split(',').filter(|part| part.contains('=')).for_each(&mut *found);
                        }),
                        Some(value) => find(option.options, value, found),
                        None => {}
                    }
                }
            }
        }
        _ => {}
    }
}

fn texts(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => map.values().for_each(|item| texts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shown(options: &[Opt], given: &Map) -> Map {
    let mut all = given.clone();
    all.retain(|name, _| !name.starts_with('_') || name == "_raw_params");
    for option in options.iter().filter(|option| !option.name.starts_with('_')) {
        let names = || std::iter::once(&option.name).chain(option.aliases);
        let found = names().find_map(|name| given.get(*name)).cloned();
        let default = || option.default.and_then(|text| serde_json::from_str(text).ok());
        let value = match is_flagged(option, given) {
            true => SECRET.into(),
            false => masked(option, found.or_else(default).unwrap_or_default()),
        };
        for name in names().filter(|name| **name == option.name || given.contains_key(**name)) {
            all.insert((*name).to_owned(), value.clone());
        }
    }
    all
}

fn masked(option: &Opt, value: Value) -> Value {
    match value {
        Value::Null => Value::Null,
        value if option.hides(&value) => SECRET.into(),
        Value::String(text) if option.address => without_passwords(&text).into(),
        Value::Object(map) if !option.options.is_empty() => shown(option.options, &map).into(),
        Value::Array(items) => items.into_iter().map(|item| masked(option, item)).collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn path_of_a_kubeconfig_is_no_secret_and_its_content_is() {
        const OPTIONS: &[Opt] = &[Opt::new("kubeconfig", Kind::Raw, "").secret_unless_path()];
        let spec = Spec { options: OPTIONS, ..Spec::EMPTY };
        let found = |given: &Value| {
            let mut found = Vec::new();
            secret_values(&spec, given, &mut |text| found.push(text.to_owned()));
            found
        };
        assert_eq!(found(&json!({"kubeconfig": "/etc/kubernetes/admin.conf"})), [""; 0]);
        assert_eq!(found(&json!({"kubeconfig": {"users": [{"user": {"token": "abc"}}]}})), ["abc"]);
    }

    #[test]
    fn value_that_a_flag_declares_secret_is_hidden_whole_and_in_parts() {
        const OPTIONS: &[Opt] = &[Opt::new("opts", Kind::Str, ""), Opt::new("opts_no_log", Kind::Bool, "")];
        let spec = Spec { options: OPTIONS, ..Spec::EMPTY };
        assert!(has_secrets(&spec));
        for (flag, expected) in [("yes", &["rw,user=a,password=b", "user=a", "password=b"][..]), ("no", &[][..])] {
            let mut given = json!({"opts": "rw,user=a,password=b", "opts_no_log": flag});
            let mut found = Vec::new();
            secret_values(&spec, &given, &mut |text| found.push(text.to_owned()));
            assert_eq!(found, expected);
            let is_shown = invocation(&spec, &given).to_string().contains("password=b");
            hide_secrets(&spec, &mut given);
            assert_eq!((is_shown, given["opts"] == SECRET), (flag == "no", flag == "yes"));
        }
    }

    #[test]
    fn secrets_masked_under_every_alias() {
        const INNER: &[Opt] = &[Opt::new("token", Kind::Str, "").secret(), Opt::new("name", Kind::Str, "")];
        const OPTIONS: &[Opt] = &[
            Opt::new("state", Kind::Str, "").default("\"present\""),
            Opt::new("password", Kind::Str, "").aliases(&["pass"]).secret(),
            Opt::new("accounts", Kind::List(&Kind::Dict), "").options(INNER),
            Opt::new("_content", Kind::Int, ""),
        ];
        let spec = Spec { options: OPTIONS, ..Spec::EMPTY };
        let given = json!({"pass": "a", "_content": 0, "accounts": [{"token": "b", "name": "c"}]});
        let expected = json!({"module_args": {
            "state": "present",
            "password": SECRET,
            "pass": SECRET,
            "accounts": [{"token": SECRET, "name": "c"}],
        }});
        assert_eq!(invocation(&spec, &given), expected);
    }
}
