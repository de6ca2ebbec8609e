//! What the ad-hoc command prints: the minimal and the oneline callback.

use serde_json::Value;

use super::json::{nice_json, python_json};
use super::printer::{Color, Printer};
use super::{Event, Output, ResultEvent, Status};

/// How compact it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinimalStyle {
    /// The result below the host.
    Minimal,
    /// The result on the host's line (`--one-line`).
    OneLine,
}

/// Prints results and nothing else.
#[derive(Debug)]
pub struct MinimalOutput {
    printer: Printer,
    style: MinimalStyle,
    diff_context: usize,
    live: bool,
}

impl MinimalOutput {
    /// Prints with this printer.
    pub fn new(printer: Printer, style: MinimalStyle, diff_context: usize, live: bool) -> MinimalOutput {
        MinimalOutput { printer, style, diff_context, live }
    }

    fn result(&self, event: &ResultEvent) {
        let mut result = event.result.to_json();
        if event.diff {
            let text = super::unified(result.get("diff").unwrap_or(&Value::Null), self.diff_context);
            if !text.is_empty() {
                self.printer.line(text.trim_end_matches('\n'), Color::Plain);
            }
        }
        let changed = result.get("changed").and_then(Value::as_bool).unwrap_or(false);
        let (word, color) = match event.status {
            Status::Ok if changed => ("CHANGED", Color::Yellow),
            Status::Ok => ("SUCCESS", Color::Green),
            Status::Failed { .. } => ("FAILED", Color::Red),
            Status::Skipped => ("SKIPPED", Color::Cyan),
            Status::Unreachable { .. } => ("UNREACHABLE!", Color::BrightRed),
        };
        if let Some(map) = result.as_object_mut() {
            map.retain(|key, _| {
                !key.starts_with("_ansible")
                    && key != "invocation"
                    && key != "exception"
                    && key != "diff"
                    && key != "warnings"
                    && key != "failed"
            });
        }
        let host = &event.host;
        let is_command =
            matches!(event.action.as_str(), "command" | "shell" | "script" | "raw") && result.get("rc").is_some();
        let text = match (self.style, is_command) {
            (_, _) if matches!(event.status, Status::Unreachable { .. } | Status::Skipped) => {
                format!("{host} | {word} => {}", nice_json(&result))
            }
            (MinimalStyle::Minimal, true) => {
                let part = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
                let mut text = format!("{host} | {word} | rc={} >>\n", result.get("rc").unwrap_or(&Value::Null));
                let out: Vec<&str> = [
                    part("stdout"),
                    part("stderr"),
                    if matches!(event.status, Status::Failed { .. }) { part("msg") } else { "" },
                ]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
                text.push_str(&out.join("\n"));
                text
            }
            (MinimalStyle::OneLine, true) => {
                let part = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().replace('\n', "\\n");
                let mut text = format!(
                    "{host} | {word} | rc={} | (stdout) {}",
                    result.get("rc").unwrap_or(&Value::Null),
                    part("stdout")
                );
                if !part("stderr").is_empty() {
                    text.push_str(&format!(" (stderr) {}", part("stderr")));
                }
                text
            }
            (MinimalStyle::Minimal, false) => {
                format!("{host} | {word}{} => {}", if word == "FAILED" { "!" } else { "" }, nice_json(&result))
            }
            (MinimalStyle::OneLine, false) => {
                format!("{host} | {word}{} => {}", if word == "FAILED" { "!" } else { "" }, python_json(&result))
            }
        };
        self.printer.line(&text, color);
    }
}

impl Output for MinimalOutput {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Result(result) if result.item.is_none() => self.result(result),
            Event::Warning(sentence) => self.printer.error_line(&format!("[WARNING]: {sentence}"), Color::BrightPurple),
            Event::Live { host, bytes } if self.live => {
                for line in String::from_utf8_lossy(bytes).lines() {
                    self.printer.error_line(&format!("[{host}] {line}"), Color::Blue);
                }
            }
            _ => {}
        }
    }
}
