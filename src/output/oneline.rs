//! The oneline callback: prints every result on one line.

use serde_json::Value;

use super::callbacks::Setup;
use super::masked::{Masked, Shown};
use super::minimal::{code, is_command, word};
use super::printer::Printer;
use super::shown::Format;
use super::{Event, Output, ResultEvent, Status};
use crate::settings::Color;

/// Prints one line per result.
pub(super) struct OneLineOutput {
    printer: Printer,
    format: Format,
}

impl OneLineOutput {
    pub(super) fn new(setup: &Setup<'_>) -> OneLineOutput {
        OneLineOutput { printer: setup.printer.clone(), format: Format::json(setup) }
    }

    fn result(&self, event: &ResultEvent<Shown>) {
        let result = event.result.json();
        let (word, color) = word(event.status, result);
        let host = &event.name;
        let part = |key: &str| {
            let text = result.get(key).and_then(Value::as_str).unwrap_or_default();
            text.replace('\n', "\\n").replace('\r', "\\r")
        };
        let command = || {
            let mut line = format!("{host} | {word} | rc={} | (stdout) {}", code(result), part("stdout"));
            if !part("stderr").is_empty() {
                line.push_str(&format!(" (stderr) {}", part("stderr")));
            }
            line
        };
        let dumped = || self.format.dump(result, Some(0)).replace('\n', "");
        match event.status {
            Status::Skipped => self.printer.line(&format!("{host} | SKIPPED"), color),
            Status::Unreachable { .. } => {
                let message = result.get("msg").and_then(Value::as_str).unwrap_or_default();
                self.printer.line(&format!("{host} | UNREACHABLE!: {message}"), color);
            }
            Status::Failed { .. } => {
                if is_command(event, result) {
                    self.printer.line(&command(), color);
                }
                self.printer.line(&format!("{host} | FAILED! => {}", dumped()), color);
            }
            Status::Ok if is_command(event, result) => self.printer.line(&command(), color),
            Status::Ok => self.printer.line(&format!("{host} | {word} => {}", dumped()), color),
        }
    }
}

impl Output for OneLineOutput {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::Result(result) if result.item.is_none() => self.result(result),
            Event::Included { task, what, hosts, item: None } => {
                let text = self.format.dump(&event.included(task, what), Some(0)).replace('\n', "");
                for host in hosts {
                    self.printer.line(&format!("{host} | SUCCESS => {text}"), Color::Ok);
                }
            }
            _ => {}
        }
    }
}
