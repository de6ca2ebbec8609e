//! The table of Kubespray's variables.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;
use windlass_yaml::{DuplicateKeys, Options, Source};

use crate::Failure;

/// Variables of Kubespray, each with its state.
#[derive(Debug)]
pub struct Table {
    /// Kubespray's defaults of variables that decide whether others have an effect.
    pub(super) unset: BTreeMap<String, Value>,
    states: HashMap<String, State>,
    reasons: Vec<Reason>,
}

/// State of a variable. Numbers are indices of reasons.
#[derive(Debug, Clone)]
pub(super) enum State {
    Supported,
    Renamed(String),
    NotNeeded(usize, Option<Vec<Value>>),
    NotSupported(usize, Option<Vec<Value>>),
}

/// Reason why variables are unsupported or not needed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    pub(super) reason: String,
    /// The remedy.
    #[serde(default)]
    pub(super) instead: Option<String>,
    /// Values of other variables that these need to have an effect, also in Kubespray.
    #[serde(default)]
    pub(super) only_with: BTreeMap<String, Vec<Value>>,
    variables: Vec<Row>,
}

/// A name, alone or with values that change nothing.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Row {
    Name(String),
    Accepted(BTreeMap<String, Vec<Value>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    unset: BTreeMap<String, Value>,
    subjects: Vec<Subject>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    /// Heading in the documentation.
    #[serde(rename = "subject")]
    _heading: String,
    #[serde(default)]
    supported: Vec<String>,
    /// Notes on supported variables in the documentation.
    #[serde(default, rename = "notes")]
    _notes: BTreeMap<String, String>,
    #[serde(default)]
    renamed: BTreeMap<String, String>,
    #[serde(default)]
    not_needed: Vec<Reason>,
    #[serde(default)]
    not_supported: Vec<Reason>,
}

impl Table {
    /// Reads the table.
    pub fn read(name: &str, text: &str) -> Result<Table, Failure> {
        let wrong = |what: String| Failure::new(format!("The table {name} cannot be read: {what}"));
        let options = Options { trusted: false, duplicate_keys: DuplicateKeys::Error, ..Options::default() };
        let loaded =
            windlass_yaml::parse(Source::new(name, text), &options).map_err(|error| wrong(error.to_string()))?;
        let document = loaded.documents.first().map(windlass_yaml::Node::to_json).unwrap_or_default();
        let file: File = serde_json::from_value(document).map_err(|error| wrong(format!("{error}.")))?;
        let mut table = Table { unset: file.unset, states: HashMap::new(), reasons: Vec::new() };
        for subject in file.subjects {
            let supported = subject.supported.into_iter().map(|name| (name, State::Supported));
            let renamed = subject.renamed.into_iter().map(|(old, new)| (old, State::Renamed(new)));
            let mut rows: Vec<(String, State)> = supported.chain(renamed).collect();
            rows.extend(table.rows(subject.not_needed, State::NotNeeded));
            rows.extend(table.rows(subject.not_supported, State::NotSupported));
            for (variable, state) in rows {
                if table.states.contains_key(&variable) {
                    return Err(wrong(format!("{variable} occurs twice.")));
                }
                table.states.insert(variable, state);
            }
        }
        Ok(table)
    }

    /// Stores the reasons, and lists their variables with a state that refers to them.
    fn rows(&mut self, reasons: Vec<Reason>, state: fn(usize, Option<Vec<Value>>) -> State) -> Vec<(String, State)> {
        let mut rows = Vec::new();
        for reason in reasons {
            let number = self.reasons.len();
            for row in &reason.variables {
                match row {
                    Row::Name(name) => rows.push((name.clone(), state(number, None))),
                    Row::Accepted(values) => rows.extend(
                        values.iter().map(|(name, accepted)| (name.clone(), state(number, Some(accepted.clone())))),
                    ),
                }
            }
            self.reasons.push(reason);
        }
        rows
    }

    pub(super) fn state(&self, name: &str) -> Option<&State> {
        self.states.get(name)
    }

    pub(super) fn reason(&self, number: usize) -> Option<&Reason> {
        self.reasons.get(number)
    }

    /// Names of all variables in the table.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.states.keys().map(String::as_str)
    }
}
