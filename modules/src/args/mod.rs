//! Arguments of a module: checked against its [`Spec`], converted, and read by name.
//!
//! The checks are the same for all modules and have Ansible's messages, so a module sees valid values only.

mod convert;
mod level;
mod paths;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

#[cfg(feature = "all")]
pub(crate) use convert::bytes;
pub(crate) use convert::is_true;
use level::Level;
pub(crate) use paths::{expand_path, home_of};

use crate::{Failure, Host, Kind, Map, Spec};

/// Replacement for a secret in a message.
pub const SECRET: &str = "a secret value";

/// Reason why a value written in a playbook does not suit an option's type; `None` if it does.
pub fn type_fault(kind: &Kind, value: &Value) -> Option<String> {
    match (kind, convert::convert_unexpanded(kind, value)) {
        (_, Err(reason)) => Some(reason),
        (Kind::List(inner), Ok(Value::Array(items))) => items.iter().find_map(|item| type_fault(inner, item)),
        _ => None,
    }
}

/// Validated arguments of a module: known names, aliases resolved, defaults added, values converted. Further options of
/// a module that takes any are as the task gives them.
#[derive(Debug, Clone)]
pub struct Args {
    values: Map,
    warnings: Vec<String>,
}

impl Args {
    /// Validates arguments against a spec and converts them.
    pub fn validate(spec: &'static Spec, arguments: &Value, host: &Host) -> Result<Args, Failure> {
        Args::validate_as(&spec.called(host.written.as_deref()), spec, arguments, host)
    }

    /// Like [`Args::validate`], with the name of the module in messages.
    pub(crate) fn validate_as(
        called: &str,
        spec: &'static Spec,
        arguments: &Value,
        host: &Host,
    ) -> Result<Args, Failure> {
        let empty = Map::new();
        let given = match arguments {
            Value::Object(map) => map,
            Value::Null => &empty,
            other => {
                return Err(Failure::new(format!(
                    "the arguments of {} must be a mapping, not {}",
                    spec.name,
                    convert::kind_of(other)
                )));
            }
        };
        let level = Level { module: called, options: spec.options, inside: Vec::new(), is_secret: false, host };
        let mut warnings = Vec::new();
        let named = level.named(given, &mut warnings);
        if let Some(missing) = spec.missing
            && spec.options.iter().any(|option| option.required && !named.contains_key(option.name))
        {
            return Err(Failure::new(missing));
        }
        if spec.others.is_none() {
            if let Some(text) = given.get("_raw_params").filter(|_| spec.option("_raw_params").is_none()) {
                return Err(Failure::new(format!("invalid or malformed argument: '{}'", convert::text_of(text))));
            }
            level.refuse_unknown(given)?;
        }
        refuse_exclusive(spec, &named)?;
        level.refuse_missing(&named)?;
        let mut values = level.convert(&named)?;
        level.refuse_choices(&values)?;
        refuse_incomplete(spec, &values)?;
        level.descend(&mut values, &mut warnings)?;
        if spec.others.is_some() {
            let others = given.iter().filter(|(name, _)| spec.option(name).is_none());
            values.extend(others.map(|(name, value)| (name.clone(), value.clone())));
        }
        Ok(Args { values, warnings })
    }

    /// All values as a typed structure, whose fields have the options' names.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(self.values.clone().into())
            .map_err(|error| Failure::new(format!("an argument has an unexpected value: {error}")))
    }

    /// A text.
    pub fn str(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// A text, unless it is empty.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.str(name).filter(|text| !text.is_empty())
    }

    /// A text that is required or has a default.
    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.str(name).ok_or_else(|| Failure::new(format!("missing required arguments: {name}")))
    }

    /// A boolean; false if not given.
    pub fn bool(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A boolean, if given.
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

    /// A duration in seconds; `usual` if not given. Negative numbers count as zero. The maximum is a century, so that
    /// adding it to the current time cannot overflow.
    pub fn seconds(&self, name: &str, usual: u64) -> Duration {
        const CENTURY: u64 = 100 * 365 * 24 * 3600;
        let given = self.int(name).map(|seconds| u64::try_from(seconds).unwrap_or(0));
        Duration::from_secs(given.unwrap_or(usual).min(CENTURY))
    }

    /// The texts of a list; empty if not given.
    pub fn list(&self, name: &str) -> Vec<&str> {
        self.values
            .get(name)
            .and_then(Value::as_array)
            .map(|items| items.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    /// Any value, if given and not null.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// All values except one, for another module.
    pub(crate) fn without(&self, name: &str) -> Value {
        let mut values = self.values.clone();
        values.remove(name);
        values.into()
    }

    /// Warnings about the arguments.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Fails if mutually exclusive options were given.
fn refuse_exclusive(spec: &Spec, named: &Map) -> Result<(), Failure> {
    let is_given = |name: &&&str| named.contains_key(**name);
    let sets = spec.mutually_exclusive.iter().filter(|set| set.iter().filter(is_given).count() > 1);
    let sets: Vec<_> = sets.map(|set| set.join("|")).collect();
    match sets.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("parameters are mutually exclusive: {}", sets.join(", ")))),
    }
}

/// Fails if options that need each other were not given together.
fn refuse_incomplete(spec: &Spec, values: &Map) -> Result<(), Failure> {
    let has = |name: &str| values.get(name).is_some_and(|value| !value.is_null());
    let missing_of =
        |names: &[&'static str]| -> Vec<&'static str> { names.iter().copied().filter(|name| !has(name)).collect() };
    for set in spec.required_together {
        let missing = missing_of(set);
        if !missing.is_empty() && missing.len() < set.len() {
            return Err(Failure::new(format!("parameters are required together: {}", set.join(", "))));
        }
    }
    for set in spec.required_one_of {
        if missing_of(set).len() == set.len() {
            return Err(Failure::new(format!("one of the following is required: {}", set.join(", "))));
        }
    }
    let matches = |option: &str, value: &str| values.get(option).is_some_and(|found| convert::text_of(found) == value);
    for (option, value, needed) in spec.required_if {
        let missing = missing_of(needed);
        if !missing.is_empty() && matches(option, value) {
            return Err(Failure::new(format!(
                "{option} is {value} but all of the following are missing: {}",
                missing.join(", ")
            )));
        }
    }
    for (option, value, needed) in spec.required_if_any {
        if missing_of(needed).len() == needed.len() && matches(option, value) {
            return Err(Failure::new(format!(
                "{option} is {value} but any of the following are missing: {}",
                needed.join(", ")
            )));
        }
    }
    for (option, needed) in spec.required_by {
        let missing = missing_of(needed);
        if !missing.is_empty() && has(option) {
            return Err(Failure::new(format!("missing parameter(s) required by '{option}': {}", missing.join(", "))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::{Kind, Opt};

    #[cfg(feature = "all")]
    #[test]
    fn boolean_words_equal_the_controllers() {
        for word in ["y", "Yes", " on ", "1", "true", "T", "n", "no", "OFF", "0", "false", "f", "", "1.0", "maybe"] {
            assert_eq!(convert::truth(&word.into()), windlass_yaml::boolean::word(word), "{word:?}");
        }
    }

    #[test]
    fn refused_value_of_a_secret_option_is_in_no_message() {
        const INNER: &[Opt] = &[
            Opt::new("number", Kind::Int, ""),
            Opt::new("one", Kind::Str, "").choices(&["a"]),
            Opt::new("word", Kind::Str, "").word(),
        ];
        static SPEC: Spec = Spec {
            name: "x",
            options: &[
                Opt::new("number", Kind::Int, "").secret(),
                Opt::new("numbers", Kind::List(&Kind::Int), "").secret(),
                Opt::new("one", Kind::Str, "").choices(&["a"]).secret(),
                Opt::new("many", Kind::List(&Kind::Str), "").choices(&["a"]).secret(),
                Opt::new("outer", Kind::Dict, "").options(INNER).secret(),
            ],
            ..Spec::EMPTY
        };
        for arguments in [
            json!({"number": "hunter2"}),
            json!({"number": ["hunter2"]}),
            json!({"numbers": [1, "hunter2"]}),
            json!({"one": "hunter2"}),
            json!({"many": ["a", "hunter2"]}),
            json!({"outer": {"number": "hunter2"}}),
            json!({"outer": {"one": "hunter2"}}),
            json!({"outer": {"word": "-hunter2"}}),
        ] {
            let message = Args::validate(&SPEC, &arguments, &Host::alone()).unwrap_err().message;
            assert!(message.contains("a secret value") && !message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn huge_duration_does_not_overflow() {
        static SPEC: Spec = Spec { name: "x", options: &[Opt::new("timeout", Kind::Int, "Seconds.")], ..Spec::EMPTY };
        let seconds = |timeout: Option<i64>| {
            let args = Args::validate(&SPEC, &json!({ "timeout": timeout }), &Host::alone()).unwrap();
            args.seconds("timeout", 7)
        };
        assert_eq!([seconds(None), seconds(Some(-1)), seconds(Some(5))].map(|time| time.as_secs()), [7, 0, 5]);
        assert!(Instant::now().checked_add(seconds(Some(i64::MAX))).is_some());
    }
}
