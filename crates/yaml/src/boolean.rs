//! Ansible's words for true and false, as its `boolean()` reads them. YAML's own booleans are in `resolve`.
//!
//! Modules have a copy of the words: the executor that is sent first is built without this crate.

use crate::{Node, Value};

/// Value of a word for true or false, in any case and with blanks around it; `None` for any other text.
pub fn word(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" | "y" => Some(true),
        "false" | "no" | "off" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Whether a text is a word for true. Any other text counts as false.
pub fn is_true(text: &str) -> bool {
    word(text) == Some(true)
}

impl Node {
    /// Meaning of the value as a boolean: a boolean, the numbers 0 and 1, or a word of [`word`]; `None` for any other
    /// value.
    pub fn truth(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(value) => Some(*value),
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            Value::Float(number) if *number == 0.0 => Some(false),
            Value::Float(number) if *number == 1.0 => Some(true),
            _ => self.as_str().and_then(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Source, load_one};

    #[test]
    fn words_in_any_case_with_blanks_are_booleans_and_others_are_not() {
        for (text, expected) in [
            ("y", Some(true)),
            (" Yes ", Some(true)),
            ("T", Some(true)),
            ("oN\n", Some(true)),
            ("1", Some(true)),
            ("n", Some(false)),
            ("OFF", Some(false)),
            ("0", Some(false)),
            ("", None),
            ("1.0", None),
            ("maybe", None),
        ] {
            assert_eq!(word(text), expected, "{text:?}");
            assert_eq!(is_true(text), expected == Some(true), "{text:?}");
        }
    }

    #[test]
    fn values_that_ansible_converts_have_a_truth_and_others_have_none() {
        let truth = |text: &str| load_one(Source::new("test.yml", text), &Options::default()).unwrap().truth();
        assert_eq!(["true", "1", "1.0", "y", "'t'", "!unsafe 'on'"].map(truth), [Some(true); 6]);
        assert_eq!(["no", "0", "0.0", "n", "' F '"].map(truth), [Some(false); 5]);
        assert_eq!(["~", "2", "'1.0'", "''", "maybe", "[]", "{}", "'{{ x }}'"].map(truth), [None; 8]);
    }
}
