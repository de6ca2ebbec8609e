//! Formats results for callbacks: selects keys, and writes JSON or YAML.

use serde_json::{Map, Value};
use windlass_yaml::emit::{DumpOptions, Item, dump};
use windlass_yaml::{Node, Span};

use super::callbacks::Setup;
use super::json::indented_json;
use crate::error::{Error, Result};
use crate::playbook::Task;

/// Result of a task that included something. All callbacks except the default one print it for each host.
pub(super) fn included(task: &Task, what: &str) -> Value {
    let mut result = Map::from_iter([("changed".to_owned(), Value::Bool(false))]);
    let mut arguments = Map::new();
    for (key, node) in task.args.iter() {
        let text = node.scalar_text().unwrap_or_default();
        match key.to_text().as_str() {
            // A templated name is shown rendered.
            "_raw_params" | "file" => {
                let shown = if text.contains("{{") { what } else { text.as_str() };
                result.insert("include".to_owned(), shown.into());
            }
            "apply" => {}
            other => {
                arguments.insert(other.to_owned(), node.to_json());
            }
        }
    }
    result.insert("include_args".to_owned(), arguments.into());
    result.into()
}

/// Format of results.
#[derive(Debug, Clone)]
pub(super) struct Format {
    pub(super) verbosity: u8,
    yaml: bool,
    pretty: Option<bool>,
    /// Lines of context around a change in diffs.
    pub(super) diff_context: usize,
}

/// Keys of results that are displayed in other ways.
const HIDDEN: &[&str] = &["failed", "skipped", "warnings", "deprecations"];

/// Keys that `debug` omits when it prints a variable.
const HIDDEN_IN_DEBUG: &[&str] =
    &["changed", "invocation", "skip_reason", "ansible_loop_var", "ansible_index_var", "ansible_loop"];

impl Format {
    /// Format from the options `result_format` and `pretty_results`.
    pub(super) fn new(setup: &Setup<'_>) -> Result<Format> {
        let yaml = match setup.text("result_format").as_deref() {
            None | Some("json") => false,
            Some("yaml") => true,
            Some(other) => {
                return Err(Error::usage(format!("callback_result_format must be json or yaml, not '{other}'")));
            }
        };
        let pretty = setup.given("pretty_results").map(|text| crate::settings::is_true(&text));
        Ok(Format {
            verbosity: setup.settings.verbosity,
            yaml,
            pretty,
            diff_context: setup.settings.output.diff_context,
        })
    }

    /// JSON, ignoring the options.
    pub(super) fn json(setup: &Setup<'_>) -> Format {
        Format {
            verbosity: setup.settings.verbosity,
            yaml: false,
            pretty: None,
            diff_context: setup.settings.output.diff_context,
        }
    }

    /// JSON without any options.
    pub(super) fn plain() -> Format {
        Format { verbosity: 0, yaml: false, pretty: None, diff_context: 3 }
    }

    /// Selects the keys of a result to display.
    pub(super) fn abridged(&self, result: &Value) -> Map<String, Value> {
        let mut map = result.as_object().cloned().unwrap_or_default();
        map.retain(|key, _| !key.starts_with('_') && !HIDDEN.contains(&key.as_str()));
        map.values_mut().for_each(strip);
        if self.verbosity < 3 {
            map.retain(|key, _| !matches!(key.as_str(), "invocation" | "diff" | "exception"));
        }
        map
    }

    /// A result as text. `indent` is the callback's default.
    pub(super) fn dump(&self, result: &Value, indent: Option<usize>) -> String {
        let always = always_shown(result);
        self.text(self.abridged(result), indent, always)
    }

    /// Selected keys of a result as text.
    pub(super) fn text(&self, mut map: Map<String, Value>, indent: Option<usize>, always: bool) -> String {
        let wanted = always || (self.pretty.is_none() && self.yaml) || self.pretty == Some(true) || self.verbosity > 2;
        let indent = match (self.pretty, indent) {
            (Some(false), _) => None,
            (_, None | Some(0)) if wanted => Some(4),
            (_, indent) => indent,
        };
        if !self.yaml {
            return indented_json(&Value::Object(map), indent);
        }
        let lossy = self.pretty != Some(false);
        if lossy {
            omit_lines(&mut map);
        }
        let options = DumpOptions {
            indent: indent.unwrap_or(2) as i32,
            allow_unicode: true,
            text_blocks: true,
            ..DumpOptions::default()
        };
        let text = yaml(Value::Object(map), &options, lossy);
        format!("\n{}", indented(text.trim_end_matches('\n'), indent.unwrap_or(4)))
    }

    /// One side of a diff that is not text.
    pub(super) fn side(&self, value: &Value) -> String {
        if !self.yaml {
            return indented_json(value, Some(4)) + "\n";
        }
        let options = DumpOptions { indent: 4, allow_unicode: true, text_blocks: true, ..DumpOptions::default() };
        indented(&yaml(value.clone(), &options, self.pretty != Some(false)), 4) + "\n"
    }
}

/// Reduces a result of `debug` to its message or variable.
pub(super) fn clean_debug(action: &str, map: &mut Map<String, Value>) {
    if action == "debug" {
        let message = map.contains_key("msg");
        map.retain(|key, _| if message { key == "msg" } else { !HIDDEN_IN_DEBUG.contains(&key.as_str()) });
    }
}

/// Whether a result is printed even without `-v`.
pub(super) fn always_shown(result: &Value) -> bool {
    result.get("_ansible_verbose_always").is_some()
}

/// Omits `stdout_lines` and `stderr_lines` if the whole text is present.
pub(super) fn omit_lines(map: &mut Map<String, Value>) {
    for name in ["stdout", "stderr"] {
        let lines = format!("{name}_lines");
        if map.contains_key(name) && map.contains_key(&lines) {
            map.insert(lines, "<omitted>".into());
        }
    }
}

/// A value as YAML. `lossy` makes multi-line texts readable by dropping invisible whitespace.
pub(super) fn yaml(mut value: Value, options: &DumpOptions, lossy: bool) -> String {
    if lossy {
        readable(&mut value);
    }
    let node = Node::from_json(&value, &Span::none());
    dump(&Item::from(&node), options).unwrap_or_else(|_| indented_json(&value, Some(4)) + "\n")
}

/// Removes internal keys.
pub(super) fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with("_ansible_"));
            map.values_mut().for_each(strip);
        }
        _ => {}
    }
}

/// Prepares a multi-line text for a YAML block, which allows neither tabs, trailing blanks nor control characters.
fn readable(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(readable),
        Value::Object(map) => map.values_mut().for_each(readable),
        Value::String(text) if text.contains(is_break) => {
            let mut kept = String::with_capacity(text.len());
            let mut column = 0;
            for c in text.trim_end().chars() {
                match c {
                    '\t' => {
                        let width = 8 - column % 8;
                        kept.extend(std::iter::repeat_n(' ', width));
                        column += width;
                    }
                    c if is_break(c) => {
                        kept.truncate(kept.trim_end_matches(' ').len());
                        // A carriage return before a line feed does not end another line.
                        if c == '\n' || c == '\u{85}' || c > '\u{2000}' {
                            kept.push(c);
                        }
                        column = 0;
                    }
                    c if c.is_control() || c == '\u{feff}' => {}
                    c => {
                        kept.push(c);
                        column += 1;
                    }
                }
            }
            *text = kept;
        }
        _ => {}
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{1c}' | '\u{1d}' | '\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Indents every line that is not empty.
fn indented(text: &str, width: usize) -> String {
    let margin = " ".repeat(width);
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| if line.trim().is_empty() { line.to_owned() } else { format!("{margin}{line}") })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn yaml_format(pretty: Option<bool>) -> Format {
        Format { yaml: true, pretty, ..Format::plain() }
    }

    #[test]
    fn multiline_texts_are_blocks_and_line_lists_omitted() {
        let result = json!({"stdout": "a\tb  \nc   ", "stdout_lines": ["a"], "changed": true, "failed": false});
        assert_eq!(
            yaml_format(None).dump(&result, None),
            "\n    changed: true\n    stdout: |-\n        a       b\n        c\n    stdout_lines: <omitted>"
        );
    }

    #[test]
    fn plain_results_are_lossless() {
        let result = json!({"stdout": "a\tb  \nc"});
        assert_eq!(yaml_format(Some(false)).dump(&result, None), "\n    stdout: \"a\\tb  \\nc\"");
    }
}
