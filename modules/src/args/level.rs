//! Checks one level of options in Ansible's order and with its messages, which playbooks and their tests may match.

use serde_json::Value;

use super::{SECRET, convert};
use crate::{Failure, Host, Kind, Map, Opt};

/// Options of a module, or suboptions of one of them.
pub(super) struct Level<'a> {
    pub(super) module: &'a str,
    pub(super) options: &'static [Opt],
    /// Names of the enclosing options, outermost first.
    pub(super) inside: Vec<&'static str>,
    /// Whether an enclosing option is secret.
    pub(super) is_secret: bool,
    pub(super) host: &'a Host,
}

impl Level<'_> {
    /// Whether messages do not show the values of an option.
    fn hides(&self, option: &Opt) -> bool {
        self.is_secret || option.no_log
    }

    /// The given values under the options' own names; null counts as not given.
    pub(super) fn named(&self, given: &Map, warnings: &mut Vec<String>) -> Map {
        let mut named = Map::new();
        for option in self.options {
            let mut found: Option<&Value> = None;
            for name in std::iter::once(&option.name).chain(option.aliases) {
                let Some(value) = given.get(*name) else { continue };
                if found.is_some_and(|earlier| earlier != value) {
                    let path: String = self.inside.iter().map(|name| format!("{name}.")).collect();
                    warnings.push(format!("Both option {path}{} and its alias {path}{name} are set.", option.name));
                }
                found = Some(value);
            }
            if let Some(value) = found.filter(|value| !value.is_null()) {
                named.insert(option.name.to_owned(), value.clone());
            }
        }
        named
    }

    /// Fails if a name is unknown.
    pub(super) fn refuse_unknown(&self, given: &Map) -> Result<(), Failure> {
        let is_known = |name: &str| self.options.iter().any(|option| option.is_called(name));
        let path: String = self.inside.iter().map(|name| format!("{name}.")).collect();
        let mut unknown: Vec<_> =
            given.keys().filter(|name| !is_known(name)).map(|name| format!("{path}{name}")).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.sort_unstable();
        let shown = || self.options.iter().filter(|option| !option.name.starts_with('_'));
        let mut names: Vec<_> = shown().map(|option| option.name).collect();
        let mut aliases: Vec<_> = shown().flat_map(|option| option.aliases.iter().copied()).collect();
        names.sort_unstable();
        aliases.sort_unstable();
        let aliases = if aliases.is_empty() { String::new() } else { format!(" ({})", aliases.join(", ")) };
        Err(Failure::new(format!(
            "Unsupported parameters for ({}) module: {}. Supported parameters include: {}{aliases}.",
            self.module,
            unknown.join(", "),
            names.join(", ")
        )))
    }

    /// Fails if a required option is missing.
    pub(super) fn refuse_missing(&self, named: &Map) -> Result<(), Failure> {
        let missing = self
            .options
            .iter()
            .filter(|option| option.required && option.default.is_none() && !named.contains_key(option.name));
        let mut missing: Vec<_> = missing.map(|option| option.name).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        Err(Failure::new(format!("missing required arguments: {}{}", missing.join(", "), self.found_in())))
    }

    /// Converts the values to their types, and adds defaults.
    pub(super) fn convert(&self, named: &Map) -> Result<Map, Failure> {
        let mut values = Map::new();
        for option in self.options {
            let value = match (named.get(option.name), option.default) {
                (Some(value), _) => {
                    let value = word_of_truth(option, self.converted(option, value)?);
                    self.refuse_form(option, &value)?;
                    value
                }
                (None, Some(json)) => serde_json::from_str(json).unwrap_or(Value::Null),
                (None, None) => continue,
            };
            values.insert(option.name.to_owned(), value);
        }
        Ok(values)
    }

    fn converted(&self, option: &Opt, value: &Value) -> Result<Value, Failure> {
        let place = match self.inside.as_slice() {
            [] => String::new(),
            inside => format!(" found in '{}'", inside.join(" -> ")),
        };
        let refuse = |subject: &str, place: &str, value: &Value, kind: &Kind, reason: String| {
            let reason = if self.hides(option) { SECRET.to_owned() } else { reason };
            Failure::new(format!(
                "{subject} '{}' is of type {}{place} and we were unable to convert to {}: {reason}",
                option.name,
                convert::kind_of(value),
                kind.name()
            ))
        };
        let whole = convert::convert(&option.kind, value, self.host).map_err(|reason| {
            let place = if place.is_empty() { String::new() } else { format!("{place}.") };
            refuse("argument", &place, value, &option.kind, reason)
        })?;
        let (Kind::List(inner), Value::Array(items)) = (&option.kind, &whole) else { return Ok(whole) };
        let items = items.iter().map(|item| {
            convert::convert(inner, item, self.host)
                .map_err(|reason| refuse("Elements value for option", &place, item, inner, reason))
        });
        Ok(Value::Array(items.collect::<Result<_, _>>()?))
    }

    /// Fails if a text violates the form that its option declares, such as one word or one line.
    fn refuse_form(&self, option: &Opt, value: &Value) -> Result<(), Failure> {
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for text in items.iter().filter_map(Value::as_str) {
            if let Some(fault) = option.form.fault_of(text) {
                let shown = if self.hides(option) { SECRET.to_owned() } else { format!("{text:?}") };
                let sentence = format!("value of {} {fault}, got: {shown}{}", option.name, self.found_in());
                return Err(Failure::new(sentence));
            }
        }
        Ok(())
    }

    /// Fails if a value is not among its option's choices.
    pub(super) fn refuse_choices(&self, values: &Map) -> Result<(), Failure> {
        for option in self.options.iter().filter(|option| !option.choices.is_empty()) {
            let is_choice = |value: &Value| option.choices.contains(&convert::text_of(value).as_str());
            let choices = option.choices.join(", ");
            let shown = |value: &Value| if self.hides(option) { SECRET.to_owned() } else { convert::text_of(value) };
            let sentence = match values.get(option.name) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(items)) => {
                    let bad: Vec<_> = items.iter().filter(|item| !is_choice(item)).map(shown).collect();
                    if bad.is_empty() {
                        continue;
                    }
                    format!("must be one or more of: {choices}. Got no match for: {}", bad.join(", "))
                }
                Some(value) if is_choice(value) => continue,
                Some(value) => format!("must be one of: {choices}, got: {}", shown(value)),
            };
            return Err(Failure::new(format!("value of {} {sentence}{}", option.name, self.found_in())));
        }
        Ok(())
    }

    /// Applies the checks to suboptions.
    pub(super) fn descend(&self, values: &mut Map, warnings: &mut Vec<String>) -> Result<(), Failure> {
        for option in self.options.iter().filter(|option| !option.options.is_empty()) {
            let inside = self.inside.iter().copied().chain([option.name]).collect();
            let is_secret = self.hides(option);
            let level = Level { module: self.module, options: option.options, inside, is_secret, host: self.host };
            let maps = match values.get_mut(option.name) {
                Some(Value::Array(items)) => items.iter_mut().collect(),
                Some(value) => vec![value],
                None => continue,
            };
            for value in maps {
                if let Value::Object(map) = value {
                    *map = level.complete(map, warnings)?;
                }
            }
        }
        Ok(())
    }

    fn complete(&self, given: &Map, warnings: &mut Vec<String>) -> Result<Map, Failure> {
        self.refuse_unknown(given)?;
        let named = self.named(given, warnings);
        self.refuse_missing(&named)?;
        let mut values = self.convert(&named)?;
        self.refuse_choices(&values)?;
        self.descend(&mut values, warnings)?;
        Ok(values)
    }

    /// Location of these options, for the end of a message.
    fn found_in(&self) -> String {
        match self.inside.as_slice() {
            [] => String::new(),
            inside => format!(" found in {}", inside.join(" -> ")),
        }
    }
}

/// Restores a choice that YAML reads as a boolean, such as `on`.
fn word_of_truth(option: &Opt, value: Value) -> Value {
    let word = match value.as_str() {
        Some(text @ ("True" | "False")) if !option.choices.contains(&text) => text == "True",
        _ => return value,
    };
    let mut words = option.choices.iter().filter(|choice| convert::truth(&Value::from(**choice)) == Some(word));
    match (words.next(), words.next()) {
        (Some(only), None) => Value::from(*only),
        _ => value,
    }
}
