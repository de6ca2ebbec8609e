//! `validate_argument_spec`: checks variables against a role's argument specification.

use windlass_modules::SECRET;
use windlass_template::{Compat, Value};

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;

/// Checks the variables that the specification names.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(options) = context.arg("argument_spec") else {
        return Err("missing required arguments: argument_spec".into());
    };
    let provided = context.arg("provided_arguments");
    let compat = context.world.run.settings.compat;
    let mut errors = problems(options, compat, &|name| match provided
        .and_then(|map| map.get_attr(name).ok())
        .filter(|value| !value.is_undefined())
    {
        Some(value) => Ok(Some(value)),
        None => context.context.variable(name).map_err(|error| error.to_string()),
    });
    let supported: Vec<String> =
        options.try_iter().into_iter().flatten().map(|name| windlass_template::text(&name)).collect();
    let given = provided.and_then(|map| map.try_iter().ok()).into_iter().flatten();
    let unknown: Vec<String> =
        given.map(|name| windlass_template::text(&name)).filter(|name| !supported.contains(name)).collect();
    if !unknown.is_empty() {
        errors.push(format!("{}. Supported parameters include: {}.", unknown.join(", "), supported.join(", ")));
    }
    let described = context.arg("validate_args_context").cloned();
    let described = described.unwrap_or_else(|| Value::from_pairs(std::iter::empty::<(Value, Value)>()));
    if errors.is_empty() {
        return Ok(TaskResult::unchanged()
            .with("msg", "The arg spec validation passed")
            .with("validate_args_context", described));
    }
    let mut result = TaskResult::failure(format!("Validation of arguments failed:\n{}", errors.join("\n")));
    result.set("argument_errors", errors.iter().map(|error| Value::from(error.as_str())).collect::<Value>());
    result.set("argument_spec_data", options.clone());
    result.set("validate_args_context", described);
    // The task of a role is at the place that calls it.
    let written = context.task.args.get("argument_spec").map(|node| &node.span);
    let elsewhere = written.filter(|span| span.is_located() && span.source.name != context.task.span.source.name);
    Ok(match elsewhere {
        Some(span) => result.with_advice(Some(&format!("{span} specifies the arguments"))),
        None => result,
    })
}

/// Errors in the values that `lookup` finds for the options of a specification, one sentence each.
pub(crate) fn problems(options: &Value, compat: Compat, lookup: Lookup<'_>) -> Vec<String> {
    let mut found = Found::default();
    check(options, Place { path: "", is_secret: false }, &mut found, compat, lookup);
    found.errors.append(&mut found.unsupported);
    found.errors
}

type Lookup<'a> = &'a dyn Fn(&str) -> Result<Option<Value>, String>;

/// Errors found so far.
#[derive(Default)]
struct Found {
    errors: Vec<String>,
    /// Reported last, whatever their level.
    unsupported: Vec<String>,
}

/// A level of options.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Names of the enclosing options: `outer -> inner`.
    path: &'a str,
    /// Whether one of them is secret.
    is_secret: bool,
}

/// An option of a specification that has a value.
struct Given {
    name: String,
    option: Value,
    kind: String,
    value: Value,
    /// Whether errors do not show the value.
    is_secret: bool,
}

impl Given {
    fn field(&self, key: &str) -> Option<Value> {
        field(&self.option, key)
    }

    /// The value, or the items of a list.
    fn entries(&self) -> Vec<Value> {
        match self.kind == "list" {
            true => self.value.try_iter().into_iter().flatten().collect(),
            false => vec![self.value.clone()],
        }
    }

    /// Ansible's reason why the value, or an item of it, does not match a type.
    fn unfit(&self, value: &Value, kind: &str) -> String {
        if self.is_secret { SECRET.to_owned() } else { unfit(value, kind) }
    }
}

fn field(option: &Value, key: &str) -> Option<Value> {
    option.get_attr(key).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// Checks the options of one level in Ansible's order: missing ones, types, choices, then nested levels.
fn check(options: &Value, place: Place<'_>, found: &mut Found, compat: Compat, lookup: Lookup<'_>) {
    let (found_in, found_at) = match place.path {
        "" => (String::new(), String::new()),
        path => (format!(" found in '{path}'."), format!(" found in {path}")),
    };
    let mut missing = Vec::new();
    let mut all = Vec::new();
    for key in options.try_iter().into_iter().flatten() {
        let name = windlass_template::text(&key);
        let Ok(option) = options.get_item(&key) else { continue };
        let value = match lookup(&name) {
            Ok(value) => value.filter(|value| !value.is_undefined()),
            Err(error) => {
                found.errors.push(format!("{name}{found_at}: {error}"));
                continue;
            }
        };
        let truth = |key: &str| field(&option, key).is_some_and(|value| crate::outcome::truth(&value));
        let (required, is_secret) = (truth("required"), place.is_secret || truth("no_log"));
        let kind = field(&option, "type").map_or_else(|| "str".to_owned(), |kind| windlass_template::text(&kind));
        match value {
            None if required => missing.push(name),
            // A required option may be null if its type allows that.
            Some(value) if required || !value.is_none() => {
                all.push(Given { name, option, kind, value, is_secret });
            }
            _ => {}
        }
    }
    if !missing.is_empty() {
        missing.sort_unstable();
        found.errors.push(format!("missing required arguments: {}{found_at}", missing.join(", ")));
    }
    all.retain(|given| {
        let Given { name, kind, value, .. } = given;
        let is_text = matches!(kind.as_str(), "str" | "path");
        let is_no_text = is_text && value.is_none() && compat.refuses_null_arguments();
        if is_no_text || !fits(value, kind) {
            let (class, reason) = (class_of(value, compat), given.unfit(value, kind));
            found.errors.push(format!(
                "argument '{name}' is of type {class}{found_in} and we were unable to convert to {kind}: {reason}"
            ));
            return false;
        }
        if let Some(elements) = given.field("elements").filter(|_| kind == "list") {
            let elements = windlass_template::text(&elements);
            if let Some(bad) = given.entries().iter().find(|item| !fits(item, &elements)) {
                let (class, reason) = (class_of(bad, compat), given.unfit(bad, &elements));
                found.errors.push(format!(
                    "Elements value for option '{name}' is of type {class}{found_in} and we were unable to convert to {elements}: {reason}"
                ));
            }
        }
        true
    });
    for given in &all {
        let Some(choices) = given.field("choices") else { continue };
        let allowed: Vec<String> =
            choices.try_iter().into_iter().flatten().map(|choice| windlass_template::text(&choice)).collect();
        if let Some(bad) = given.entries().iter().map(windlass_template::text).find(|text| !allowed.contains(text)) {
            let (name, bad) = (&given.name, if given.is_secret { SECRET } else { bad.as_str() });
            found.errors.push(format!("value of {name} must be one of: {}, got: {bad}{found_at}", allowed.join(", ")));
        }
    }
    for given in &all {
        let Some(inner) = given.field("options") else { continue };
        let path = match place.path {
            "" => given.name.clone(),
            path => format!("{path} -> {}", given.name),
        };
        let within = Place { path: &path, is_secret: given.is_secret };
        for entry in given.entries() {
            unsupported(&inner, &path, &entry, &mut found.unsupported);
            check(&inner, within, found, compat, &|name| Ok(entry.get_attr(name).ok()));
        }
    }
}

/// Reports keys that are not options of this level.
fn unsupported(options: &Value, path: &str, given: &Value, errors: &mut Vec<String>) {
    let names = |value: &Value| -> Vec<String> {
        value.try_iter().into_iter().flatten().map(|name| windlass_template::text(&name)).collect()
    };
    if given.kind() != minijinja::value::ValueKind::Map {
        return;
    }
    let supported = names(options);
    let around = path.replace(" -> ", ".");
    let unknown = names(given).into_iter().filter(|name| !supported.contains(name));
    let unknown: Vec<String> = unknown.map(|name| format!("{around}.{name}")).collect();
    if !unknown.is_empty() {
        errors.push(format!("{}. Supported parameters include: {}.", unknown.join(", "), supported.join(", ")));
    }
}

/// Type of a value as error messages name it.
fn class_of(value: &Value, compat: Compat) -> String {
    let name = windlass_template::type_name(value);
    if compat.names_classes_of_arguments() { format!("<class '{name}'>") } else { name.to_owned() }
}

/// Ansible's reason why a value does not match a type.
fn unfit(value: &Value, kind: &str) -> String {
    let (class, shown) = (windlass_template::type_name(value), windlass_template::repr(value));
    match kind {
        "str" | "path" => format!("'{shown}' is not a string and conversion is not allowed"),
        "int" => format!("\"{shown}\" cannot be converted to an int"),
        "dict" if value.as_str().is_some_and(|text| text.starts_with('{')) => {
            "unable to evaluate string as dictionary".to_owned()
        }
        "dict" if value.as_str().is_some() => "dictionary requested, could not parse JSON or key=value".to_owned(),
        "json" | "jsonarg" => format!("<class '{class}'> cannot be converted to a json string"),
        other => format!("<class '{class}'> cannot be converted to a {other}"),
    }
}

/// Whether a value can be converted to a type. Any value has a text, so `str` and `path` accept all.
fn fits(value: &Value, kind: &str) -> bool {
    use minijinja::value::ValueKind::{Bool, Map, Number, Seq, String};
    let found = value.kind();
    // Python reads `1_000` as a number.
    let number = || value.as_str().and_then(|text| text.trim().replace('_', "").parse::<f64>().ok());
    match kind {
        "list" => matches!(found, Seq | String | Number | Bool),
        "dict" => found == Map || value.as_str().is_some_and(is_dict),
        "bool" => {
            found == Bool
                || value.as_str().is_some_and(|text| windlass_yaml::boolean::word(text).is_some())
                || matches!(i64::try_from(value.clone()), Ok(0 | 1))
        }
        "int" => {
            i64::try_from(value.clone()).is_ok()
                || number().is_some_and(|number| number.is_finite() && number.fract() == 0.0)
        }
        "float" => matches!(found, Number | Bool) || number().is_some(),
        "json" | "jsonarg" => matches!(found, Seq | Map | String),
        _ => true,
    }
}

/// Whether a text is a mapping: JSON, a Python literal, or `key=value` words.
fn is_dict(text: &str) -> bool {
    match text.starts_with('{') {
        true => {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
                || matches!(windlass_yaml::PythonLiteral::read(text), Some(windlass_yaml::PythonLiteral::Dict(_)))
        }
        false => text.contains('='),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refused_value_of_a_secret_variable_is_in_no_error() {
        let inner = json!({
            "number": {"type": "int"},
            "one": {"choices": ["a"]},
            "words": {"type": "list", "elements": "int"},
            "deep": {"type": "dict", "options": {"number": {"type": "int"}}},
        });
        let options = json!({
            "token": {"type": "int", "no_log": true},
            "file": {"type": "float", "no_log": true},
            "number": {"type": "int", "no_log": "yes"},
            "one": {"choices": ["a"], "no_log": true},
            "numbers": {"type": "list", "elements": "int", "no_log": true},
            "outer": {"type": "dict", "no_log": true, "options": inner},
            "users": {"type": "list", "elements": "dict", "options": {"token": {"type": "int", "no_log": true}}},
        });
        let refused =
            json!({"number": "hunter2", "one": "hunter2", "words": [["hunter2"]], "deep": {"number": "hunter2"}});
        let given = json!({
            "token": ["hunter2"],
            "file": {"x": "hunter2"},
            "number": "hunter2",
            "one": "hunter2",
            "numbers": [1, "hunter2"],
            "outer": refused,
            "users": [{"token": ["hunter2"]}],
        });
        for compat in [Compat::V2_18, Compat::V2_19] {
            let options = windlass_template::from_json(&options);
            let errors = problems(&options, compat, &|name| Ok(given.get(name).map(windlass_template::from_json)));
            assert_eq!(errors.len(), 10, "{errors:?}");
            for error in errors {
                assert!(error.contains("a secret value") && !error.contains("hunter2"), "{error}");
            }
        }
    }

    #[test]
    fn values_fit_the_types_that_ansible_converts_them_to() {
        let fit = |kind: &str, value: serde_json::Value| fits(&windlass_template::from_json(&value), kind);
        let accepted = [
            ("str", json!({"a": 1})),
            ("path", json!(["a"])),
            ("int", json!("1.0")),
            ("int", json!("1_0")),
            ("int", json!("1e3")),
            ("float", json!(true)),
            ("bool", json!(" yes")),
            ("dict", json!("{'a': 1}")),
            ("dict", json!("{\"a\": true}")),
            ("dict", json!("a=1")),
            ("json", json!([1])),
        ];
        accepted.into_iter().for_each(|(kind, value)| assert!(fit(kind, value.clone()), "{kind}: {value}"));
        let refused = [("int", json!("1.5")), ("dict", json!("{a: 1}")), ("json", json!(5)), ("bool", json!("maybe"))];
        refused.into_iter().for_each(|(kind, value)| assert!(!fit(kind, value.clone()), "{kind}: {value}"));
    }
}
