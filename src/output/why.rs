//! Explains a change in a few lines (`--why`).

use serde_json::Value;

use super::ResultEvent;
use super::change::{Change, changes, command};
use super::masked::Shown;
use super::printable::clipped;

/// Number of lines before the rest is counted.
const LINES: usize = 8;
/// Length of a line in characters before the rest is cut.
const WIDTH: usize = 160;

/// Lines that say what a changed result changed: attributes with their values before and after, contents with their
/// number of lines, the command, or, if the module reports nothing, the task's arguments.
pub(super) fn lines(event: &ResultEvent<Shown>, arguments: &str) -> Vec<String> {
    if event.no_log {
        return vec!["hidden by no_log".to_owned()];
    }
    let mut lines: Vec<String> = changes(event).iter().map(line).filter(|line| !line.is_empty()).collect();
    if let Some(command) = command(event.result.json()).filter(|_| lines.is_empty()) {
        lines.push(format!("ran: {command}"));
    }
    if lines.is_empty() && !arguments.is_empty() {
        lines.push(format!("with: {arguments}"));
    }
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        lines.truncate(LINES);
        lines.push(format!("and {more} more"));
    }
    lines.iter().map(|line| one_line(line)).collect()
}

fn line(change: &Change) -> String {
    match change {
        Change::Attribute { name, from, to } => format!("{name}: {} -> {}", value(from), value(to)),
        Change::Content { path, text } => {
            let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
            let count = |sign: char| text.lines().filter(|line| line.starts_with(sign)).count();
            match (count('+'), count('-')) {
                (0, 0) if text.trim().is_empty() => String::new(),
                (0, 0) => format!("{place}{}", text.trim()),
                (added, 0) => format!("{place}{} added", of_lines(added)),
                (0, removed) => format!("{place}{} removed", of_lines(removed)),
                (added, removed) => format!("{place}{} added, {removed} removed", of_lines(added)),
            }
        }
    }
}

fn of_lines(count: usize) -> String {
    format!("{count} line{}", if count == 1 { "" } else { "s" })
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A text on one line.
fn one_line(text: &str) -> String {
    let text = text.trim().replace('\n', "\u{23ce}");
    clipped(&text, WIDTH)
}
