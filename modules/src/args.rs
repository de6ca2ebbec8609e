use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Failure, Host, Kind, Map, Opt, Spec, accounts};

/// The arguments of a module: known names only, aliases resolved, defaults filled in, values of the declared types.
#[derive(Debug, Clone)]
pub struct Args {
    values: Map,
    warnings: Vec<String>,
}

impl Args {
    /// Checks arguments against a spec and coerces them.
    pub fn validate(spec: &'static Spec, arguments: &Value, host: &Host) -> Result<Args, Failure> {
        let empty = Map::new();
        let given = match arguments {
            Value::Object(map) => map,
            Value::Null => &empty,
            other => {
                return Err(Failure::new(format!(
                    "the arguments of {} must be a mapping, not {}",
                    spec.name,
                    kind_of(other)
                )));
            }
        };
        let has = |name: &str| given_value(spec, given, name);
        if let Some(missing) = spec.missing
            && spec.options.iter().any(|option| option.required && !has(option.name))
        {
            return Err(Failure::new(missing));
        }
        let mut warnings = Vec::new();
        if spec.others.is_none() {
            refuse_unknown(spec.name, spec.options, given, "")?;
        }
        let values = coerce_all(spec.name, spec.options, given, host, &mut warnings, "")?;
        for set in spec.mutually_exclusive {
            let both: Vec<_> = set.iter().filter(|name| has(name)).copied().collect();
            if both.len() > 1 {
                return Err(Failure::new(format!("parameters are mutually exclusive: {}", set.join("|"))));
            }
        }
        for set in spec.required_together {
            let count = set.iter().filter(|name| has(name)).count();
            if count > 0 && count < set.len() {
                return Err(Failure::new(format!("parameters are required together: {}", set.join(", "))));
            }
        }
        for set in spec.required_one_of {
            if !set.iter().any(|name| has(name)) {
                return Err(Failure::new(format!("one of the following is required: {}", set.join(", "))));
            }
        }
        for (option, value, needed) in spec.required_if {
            let matches = values.get(*option).is_some_and(|found| text_of(found) == *value);
            let missing: Vec<_> = needed.iter().filter(|name| !has(name)).copied().collect();
            if matches && !missing.is_empty() {
                return Err(Failure::new(format!(
                    "{option} is {value} but all of the following are missing: {}",
                    missing.join(", ")
                )));
            }
        }
        for (option, needed) in spec.required_by {
            let missing: Vec<_> = needed.iter().filter(|name| !has(name)).copied().collect();
            if has(option) && !missing.is_empty() {
                return Err(Failure::new(format!(
                    "missing parameter(s) required by '{option}': {}",
                    missing.join(", ")
                )));
            }
        }
        Ok(Args { values, warnings })
    }

    /// All values as a typed structure; the fields are named as the options.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(self.values.clone().into())
            .map_err(|error| Failure::new(format!("an argument has an unexpected value: {error}")))
    }

    /// A text.
    pub fn str(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// A text that the spec requires or gives a default.
    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.str(name).ok_or_else(|| Failure::new(format!("missing required arguments: {name}")))
    }

    /// A boolean; false if it was not given.
    pub fn bool(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A boolean, if it was given.
    pub fn maybe_bool(&self, name: &str) -> Option<bool> {
        self.values.get(name).and_then(Value::as_bool)
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.values.get(name).and_then(Value::as_i64)
    }

    /// A number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.values.get(name).and_then(Value::as_f64)
    }

    /// The texts of a list; empty if it was not given.
    pub fn list(&self, name: &str) -> Vec<&str> {
        self.values
            .get(name)
            .and_then(Value::as_array)
            .map(|items| items.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    /// Any value, if it was given and is not null.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// What the user should know about the arguments.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn given_value(spec: &Spec, given: &Map, name: &str) -> bool {
    let Some(option) = spec.option(name) else { return false };
    let names = std::iter::once(&option.name).chain(option.aliases);
    names.into_iter().any(|name| given.get(*name).is_some_and(|value| !value.is_null()))
}

/// Fails if a name is none of the options'.
fn refuse_unknown(module: &str, options: &'static [Opt], given: &Map, path: &str) -> Result<(), Failure> {
    let unknown: Vec<_> = given
        .keys()
        .filter(|name| {
            !options.iter().any(|option| option.name == name.as_str() || option.aliases.contains(&name.as_str()))
        })
        .map(|name| format!("{path}{name}"))
        .collect();
    if let (Some(text), "") =
        (given.get("_raw_params").filter(|_| unknown.iter().any(|name| name == "_raw_params")), path)
    {
        return Err(Failure::new(format!("invalid or malformed argument: '{}'", text_of(text))));
    }
    if !unknown.is_empty() {
        let supported: Vec<_> =
            options.iter().map(|option| option.name).filter(|name| !name.starts_with('_')).collect();
        return Err(Failure::new(format!(
            "Unsupported parameters for ({module}) module: {}. Supported parameters include: {}.",
            unknown.join(", "),
            supported.join(", ")
        )));
    }
    Ok(())
}

fn coerce_all(
    module: &str,
    options: &'static [Opt],
    given: &Map,
    host: &Host,
    warnings: &mut Vec<String>,
    path: &str,
) -> Result<Map, Failure> {
    let mut values = Map::new();
    let mut missing = Vec::new();
    for option in options {
        let names = std::iter::once(&option.name).chain(option.aliases);
        let mut found: Option<&Value> = None;
        for name in names {
            if let Some(value) = given.get(*name) {
                if found.is_some_and(|earlier| earlier != value) {
                    warnings.push(format!("Both option {path}{} and its alias {path}{name} are set.", option.name));
                }
                found = Some(value);
            }
        }
        let value = match found {
            Some(Value::Null) | None => match option.default {
                Some(json) => serde_json::from_str(json).unwrap_or(Value::Null),
                None if option.required => {
                    missing.push(format!("{path}{}", option.name));
                    continue;
                }
                None => continue,
            },
            Some(value) => coerce(module, option, &option.kind, value, host, warnings, path)?,
        };
        check_choice(option, &value, path)?;
        values.insert(option.name.to_owned(), value);
    }
    if missing.is_empty() {
        Ok(values)
    } else {
        missing.sort_unstable();
        Err(Failure::new(format!("missing required arguments: {}", missing.join(", "))))
    }
}

fn check_choice(option: &Opt, value: &Value, path: &str) -> Result<(), Failure> {
    if option.choices.is_empty() || value.is_null() {
        return Ok(());
    }
    let values = value.as_array().map(Vec::as_slice).unwrap_or(std::slice::from_ref(value));
    match values.iter().map(text_of).find(|text| !option.choices.contains(&text.as_str())) {
        None => Ok(()),
        Some(bad) => Err(Failure::new(format!(
            "value of {path}{} must be one of: {}, got: {bad}",
            option.name,
            option.choices.join(", ")
        ))),
    }
}

fn coerce(
    module: &str,
    option: &'static Opt,
    kind: &Kind,
    value: &Value,
    host: &Host,
    warnings: &mut Vec<String>,
    path: &str,
) -> Result<Value, Failure> {
    let refuse = |wanted: &str| {
        let shown = if option.no_log { "a secret value".to_owned() } else { text_of(value) };
        Failure::new(format!(
            "argument '{path}{}' is of type {} and we were unable to convert to {wanted}: {shown}",
            option.name,
            kind_of(value)
        ))
    };
    Ok(match kind {
        Kind::Raw => value.clone(),
        Kind::Str => text_of(value).into(),
        Kind::Path if value.is_array() || value.is_object() => return Err(refuse("path")),
        Kind::Path => expand_path(&text_of(value), host).into(),
        Kind::Bool => truth(value).ok_or_else(|| refuse("bool"))?.into(),
        Kind::Int => integer(value).ok_or_else(|| refuse("int"))?.into(),
        Kind::Float => match value {
            Value::Number(_) => value.clone(),
            Value::String(text) => text.trim().parse::<f64>().map_err(|_| refuse("float"))?.into(),
            _ => return Err(refuse("float")),
        },
        Kind::Bytes => bytes(value).ok_or_else(|| refuse("bytes"))?.into(),
        Kind::Json => match value {
            Value::String(text) => text.trim().into(),
            other => other.to_string().into(),
        },
        Kind::List(inner) => {
            let items: Vec<Value> = match value {
                Value::Array(items) => items.clone(),
                Value::String(text)
                    if !matches!(inner, Kind::Dict | Kind::Raw) || !text.trim_start().starts_with(['[', '{']) =>
                {
                    text.split(',').map(|part| Value::from(part.trim())).collect()
                }
                Value::String(text) => match serde_json::from_str(text) {
                    Ok(Value::Array(items)) => items,
                    Ok(other) => vec![other],
                    Err(_) => return Err(refuse("list")),
                },
                Value::Number(_) | Value::Bool(_) | Value::Object(_) => vec![value.clone()],
                Value::Null => Vec::new(),
            };
            let items = items.iter().map(|item| coerce(module, option, inner, item, host, warnings, path));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Kind::Dict => {
            let map = match value {
                Value::Object(map) => map.clone(),
                Value::String(text) => match serde_json::from_str(text) {
                    Ok(Value::Object(map)) => map,
                    _ => key_values(text).ok_or_else(|| refuse("dict"))?,
                },
                _ => return Err(refuse("dict")),
            };
            if option.options.is_empty() {
                map.into()
            } else {
                let path = format!("{path}{}.", option.name);
                refuse_unknown(module, option.options, &map, &path)?;
                coerce_all(module, option.options, &map, host, warnings, &path)?.into()
            }
        }
    })
}

/// A value as Ansible turns it into text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => String::new(),
        other => crate::foreign::python_text(other),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Whether a value means yes, as options that are switches understand it.
pub(crate) fn is_true(value: &Value) -> bool {
    truth(value) == Some(true)
}

fn truth(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(value) => return Some(*value),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => return Some(true),
            Some(0.0) => return Some(false),
            _ => return None,
        },
        Value::String(text) => text.trim().to_ascii_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "y" | "yes" | "on" | "1" | "true" | "t" | "1.0" => Some(true),
        "n" | "no" | "off" | "0" | "false" | "f" | "0.0" => Some(false),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A size in bytes such as `10M`.
pub(crate) fn bytes(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Number(_) => return integer(value),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let number: f64 = digits.parse().ok()?;
    let unit = text.get(digits.len()..)?.trim().to_ascii_uppercase();
    let factor = match unit.chars().next() {
        None | Some('B') => 1u64,
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some('T') => 1 << 40,
        Some('P') => 1 << 50,
        Some('E') => 1 << 60,
        Some(_) => return None,
    };
    Some((number * factor as f64) as i64)
}

fn key_values(text: &str) -> Option<Map> {
    let words = shell_words::split(&text.replace(',', " ")).ok()?;
    words.iter().map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value)))).collect()
}

/// Expands `~`, `~user` and `$VARIABLE` as the user the executor runs as.
pub(crate) fn expand_path(text: &str, host: &Host) -> String {
    let mut path = text.to_owned();
    if let Some(rest) = text.strip_prefix('~') {
        let (user, tail) =
            rest.split_once('/').map_or((rest, ""), |(user, _)| (user, rest.get(user.len()..).unwrap_or_default()));
        let home = if user.is_empty() { host.variable("HOME").or_else(|| home_of(None)) } else { home_of(Some(user)) };
        if let Some(home) = home {
            path = format!("{home}{tail}");
        }
    }
    let mut expanded = String::new();
    let mut rest = path.as_str();
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        expanded.push_str(before);
        let after = dollar.get(1..).unwrap_or_default();
        let (name, tail) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, tail)) => (name, tail),
            None => after.split_at(after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())),
        };
        match host.variable(name).filter(|_| !name.is_empty()) {
            Some(value) => {
                expanded.push_str(&value);
                rest = tail;
            }
            None => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The home directory of a user, or of the executor's own.
pub(crate) fn home_of(user: Option<&str>) -> Option<String> {
    let found = match user {
        Some(user) => accounts::user_by_name(user),
        None => accounts::user_by_id(rustix::process::geteuid().as_raw()),
    };
    found.map(|user| user.home)
}
