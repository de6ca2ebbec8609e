//! Texts of results, within limits.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::{first_line, nice_json_as_is, plain_diff, python_json_as_is};

/// Maximum size of one text of a failure, in bytes.
const FAILED: usize = 64 << 10;
/// Maximum size of one text of another result, in bytes.
const OTHER: usize = 16 << 10;
/// Maximum number of texts of one result.
const TEXTS: usize = 50;
/// Maximum size of a message or a label, in bytes.
const MESSAGE: usize = 4 << 10;

/// Maximum length of a key, in characters.
const NAME: usize = 100;

/// Texts of programs, shown after all others.
const OUTPUT: &[&str] = &["stderr", "stdout", "module_stderr", "module_stdout"];
/// Keys that repeat others, that the flags express, or that nobody reads.
const LEFT_OUT: &[&str] = &[
    "ansible_index_var",
    "ansible_loop",
    "ansible_loop_var",
    "censored",
    "changed",
    "delta",
    "diff",
    "end",
    "failed",
    "failed_when_result",
    "msg",
    "results",
    "skip_reason",
    "skipped",
    "start",
    "stderr_lines",
    "stdout_lines",
    "unreachable",
];

/// A named text of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// Key in the result.
    pub name: String,
    /// The text, perhaps only a part.
    pub text: String,
    /// Number of bytes left out: at the beginning of a program's output, at the end of other texts.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Part of a long text that a report shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Beginning,
    End,
}

/// Limits the texts of a report.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes left.
    left: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Budget {
        Budget { left: bytes }
    }

    /// Cuts a text to a size, and to the rest of the budget. Also returns the number of bytes left out.
    fn cut(&mut self, text: String, size: usize, kept: Kept) -> (String, usize) {
        let size = size.min(self.left);
        let cut = if text.len() <= size {
            (text, 0)
        } else if kept == Kept::End {
            let from = text.ceil_char_boundary(text.len() - size);
            (text.get(from..).unwrap_or_default().to_owned(), from)
        } else {
            let to = text.floor_char_boundary(size);
            (text.get(..to).unwrap_or_default().to_owned(), text.len() - to)
        };
        self.left -= cut.0.len();
        cut
    }

    /// A short text, cut at its end.
    pub(super) fn short(&mut self, text: String) -> String {
        let (mut text, left_out) = self.cut(text, MESSAGE, Kept::Beginning);
        if left_out > 0 {
            text.push_str("...");
        }
        text
    }

    /// A text of the journal that is not a key of a result.
    pub(super) fn named(&mut self, text: String) -> String {
        self.cut(text, FAILED, Kept::Beginning).0
    }

    /// Texts of a result: all keys with information, then the output of programs.
    pub(super) fn texts(&mut self, result: &Map<String, Value>, failed: bool) -> Vec<Text> {
        let limit = if failed { FAILED } else { OTHER };
        let item = result.get("ansible_loop_var").and_then(Value::as_str);
        let is_shown = |key: &str| Some(key) != item && !LEFT_OUT.contains(&key) && !key.starts_with("_");
        let others = result.iter().filter(|(key, _)| is_shown(key) && !OUTPUT.contains(&key.as_str()));
        let output = OUTPUT.iter().filter_map(|key| result.get_key_value(*key));
        let mut texts = Vec::new();
        for (key, value) in others.chain(output) {
            let text = shown(key, value);
            if text.trim().is_empty() || texts.len() >= TEXTS {
                continue;
            }
            // The end of an output says most.
            let kept = if OUTPUT.contains(&key.as_str()) { Kept::End } else { Kept::Beginning };
            let (text, left_out) = self.cut(text.trim_end().to_owned(), limit, kept);
            texts.push(Text { name: key.chars().take(NAME).collect(), text, left_out });
        }
        texts
    }

    /// Differences of a result.
    pub(super) fn diff(&mut self, result: &Map<String, Value>) -> Option<String> {
        let diff = plain_diff(result.get("diff")?);
        (!diff.trim().is_empty()).then(|| self.cut(diff.trim_end().to_owned(), FAILED, Kept::Beginning).0)
    }
}

/// Message of a result that failed.
pub(crate) fn message(result: &Map<String, Value>) -> String {
    for key in ["msg", "censored", "reason"] {
        match result.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() && text != "non-zero return code" => {
                return text.trim_end().to_owned();
            }
            Some(Value::String(_)) | None | Some(Value::Null) => {}
            Some(other) => return other.to_string(),
        }
    }
    first_line(&Value::Object(result.clone()))
}

/// Label of a loop's item.
pub(crate) fn label(result: &Map<String, Value>, index: u32) -> String {
    let name = result.get("ansible_loop_var").and_then(Value::as_str).unwrap_or("item");
    match result.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => python_json_as_is(value),
        None => format!("item {index}"),
    }
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        // A command is shown as it was typed.
        Value::Array(words) if key == "cmd" && words.iter().all(Value::is_string) => {
            shell_words::join(words.iter().filter_map(Value::as_str))
        }
        Value::Array(_) | Value::Object(_) => nice_json_as_is(value),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn output_keeps_its_end_and_other_texts_their_beginning() {
        let long = "\u{e9}".repeat(OTHER);
        let result = map(json!({"stdout": format!("{long}end"), "note": format!("start{long}"), "changed": true}));
        let texts = Budget::new(1 << 20).texts(&result, false);
        assert_eq!(texts.iter().map(|text| text.name.as_str()).collect::<Vec<_>>(), ["note", "stdout"]);
        assert!(texts[0].text.starts_with("start") && texts[1].text.ends_with("end"));
        assert!(texts.iter().all(|text| text.text.len() <= OTHER && text.left_out > 0));
    }

    #[test]
    fn spent_budget_leaves_texts_empty() {
        let texts = Budget::new(4).texts(&map(json!({"a": "12345", "b": "67"})), true);
        assert_eq!((texts[0].text.as_str(), texts[0].left_out), ("1234", 1));
        assert_eq!((texts[1].text.as_str(), texts[1].left_out), ("", 2));
    }

    #[test]
    fn command_without_message_is_described_by_its_error() {
        let result = map(json!({"msg": "non-zero return code", "stderr": "\nls: no\n", "rc": 2}));
        assert_eq!(message(&result), "non-zero return code: ls: no");
        assert_eq!(label(&map(json!({"ansible_loop_var": "x", "x": {"a": 1}})), 0), "{\"a\": 1}");
    }
}
