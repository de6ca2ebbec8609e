//! Variables that a page gives to the run that it starts, over the run's standard input.
//!
//! So they are neither on the command line nor in a file. They are data, and never templates.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// Maximum size of the variables, as JSON in bytes. A form is smaller.
pub(crate) const SIZE: u64 = 1 << 20;

/// Variables of a form.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// Values by name.
    pub(crate) variables: Map<String, Json>,
    /// Names of the variables whose texts must not be shown.
    pub(crate) secret: Vec<String>,
}

impl Given {
    /// All texts and numbers of secret variables.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        let values = self.secret.iter().filter_map(|name| self.variables.get(name));
        values.for_each(|value| leaves(value, &mut found));
        found
    }
}

fn leaves(value: &Json, found: &mut Vec<String>) {
    match value {
        Json::String(text) => {
            found.push(text.clone());
            // A playbook may trim it.
            if text.trim() != text {
                found.push(text.trim().to_owned());
            }
        }
        Json::Number(number) => found.push(number.to_string()),
        Json::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Json::Object(map) => map.values().for_each(|item| leaves(item, found)),
        Json::Null | Json::Bool(_) => {}
    }
}
