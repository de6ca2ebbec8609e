//! The minimal callback, used by ad-hoc commands.

use serde_json::Value;

use super::callbacks::Setup;
use super::footer::Stream;
use super::masked::{Masked, Shown};
use super::printer::Printer;
use super::shown::{Format, clean_debug};
use super::{Event, Output, ResultEvent, Status};
use crate::error::Result;
use crate::settings::Color;

/// Prints only results.
pub(super) struct MinimalOutput {
    printer: Printer,
    format: Format,
}

impl MinimalOutput {
    pub(super) fn new(setup: &Setup<'_>) -> Result<MinimalOutput> {
        Ok(MinimalOutput { printer: setup.printer.clone(), format: Format::new(setup)? })
    }

    fn result(&self, event: &ResultEvent<Shown>) {
        let result = event.result.json();
        if event.diff {
            let text = super::diff::shown(result.get("diff").unwrap_or(&Value::Null), &self.format);
            if !text.is_empty() {
                self.printer.line(text.strip_suffix('\n').unwrap_or(&text), Color::Plain);
            }
        }
        self.printer.result_warnings(result);
        if let Some(report) = &event.report {
            self.printer.report(report, Stream::Stdout);
        }
        let (word, color) = word(event.status, result);
        let host = &event.name;
        let dumped = || {
            let mut map = self.format.abridged(result);
            if event.status == Status::Ok {
                clean_debug(event.task.short_action(), &mut map);
            }
            self.format.text(map, Some(4), super::shown::always_shown(result))
        };
        let text = match event.status {
            Status::Skipped => format!("{host} | SKIPPED"),
            Status::Unreachable { .. } => format!("{host} | UNREACHABLE! => {}", dumped()),
            _ if is_command(event, result) => {
                let part = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
                format!("{host} | {word} | rc={} >>\n{}{}{}", code(result), part("stdout"), part("stderr"), part("msg"))
            }
            Status::Failed { .. } => format!("{host} | FAILED! => {}", dumped()),
            Status::Ok => format!("{host} | {word} => {}", dumped()),
        };
        self.printer.line(&text, color);
    }
}

/// Status word and colour of a result.
pub(super) fn word(status: Status, result: &Value) -> (&'static str, Color) {
    match status {
        Status::Ok if result.get("changed").and_then(Value::as_bool).unwrap_or(false) => ("CHANGED", Color::Changed),
        Status::Ok => ("SUCCESS", Color::Ok),
        Status::Failed { .. } => ("FAILED", Color::Error),
        Status::Skipped => ("SKIPPED", Color::Skip),
        Status::Unreachable { .. } => ("UNREACHABLE!", Color::Unreachable),
    }
}

/// Whether to print a command's output instead of its result.
pub(super) fn is_command(event: &ResultEvent<Shown>, result: &Value) -> bool {
    matches!(event.task.short_action(), "command" | "shell" | "script" | "raw")
        && (event.status != Status::Ok || result.get("ansible_job_id").is_none())
}

/// Exit code of a command; -1 if it has none.
pub(super) fn code(result: &Value) -> String {
    result.get("rc").map_or_else(|| "-1".to_owned(), ToString::to_string)
}

impl Output for MinimalOutput {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::Result(result) if result.item.is_none() => self.result(result),
            Event::Included { task, what, hosts, item: None } => {
                let result = event.included(task, what).as_object().cloned().unwrap_or_default();
                let text = self.format.text(result, Some(4), false);
                for host in hosts {
                    self.printer.line(&format!("{host} | SUCCESS => {text}"), Color::Ok);
                }
            }
            _ => {}
        }
    }
}
