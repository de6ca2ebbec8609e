//! Renders a plan for a terminal.

use std::path::Path;

use serde_json::Value;

use super::document::{Attribute, Difference, Document, Part, Planned, Status};
use crate::output::{Printer, clipped};
use crate::settings::Color;

/// Number of lines of a difference before the rest is folded.
const LINES: usize = 20;
/// Number of hosts in a title before the rest is counted.
const HOSTS: usize = 8;
/// Number of items before the rest is counted.
const ITEMS: usize = 20;
/// Length of a value in characters before the rest is cut.
const VALUE: usize = 200;

/// Layout of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// Whether to print everything that is otherwise folded (`-v`).
    pub whole: bool,
    /// Directory that places are relative to.
    pub directory: &'a Path,
}

/// Prints a plan: changes by play, totals, and a line for each host.
pub fn print(document: &Document, layout: &Layout<'_>, printer: &Printer) {
    let line = |text: &str, color: Color| printer.line(text, color);
    let mut play = None;
    for task in &document.tasks {
        if play != Some(&task.play) {
            line(&format!("{}Play: {}", if play.is_some() { "\n" } else { "" }, task.play), Color::Plain);
            play = Some(&task.play);
        }
        print_task(task, layout, printer);
    }
    if document.tasks.is_empty() {
        line("Nothing to change.", Color::Ok);
    }
    let totals = &document.totals;
    let hosts = match document.hosts.len() {
        1 => "1 host".to_owned(),
        count => format!("{count} hosts"),
    };
    let not_run = match totals.not_run {
        0 => String::new(),
        count => format!(" Not run, changes nothing: {count}."),
    };
    let summary = format!(
        "\nPlan: {hosts}, {} to change, {} unchanged, {} unknown, {} failed.{not_run}",
        totals.change, totals.unchanged, totals.unknown, totals.failed
    );
    line(&summary, if totals.failed > 0 { Color::Error } else { Color::Plain });
    let width = document.hosts.keys().map(|host| host.chars().count()).max().unwrap_or_default();
    for (host, counts) in &document.hosts {
        let color = match counts {
            counts if counts.failed > 0 => Color::Error,
            counts if counts.change + counts.unknown > 0 => Color::Changed,
            _ => Color::Ok,
        };
        let not_run = if counts.not_run > 0 { format!(" not_run={}", counts.not_run) } else { String::new() };
        let text = format!(
            "  {host:width$} : change={} unchanged={} unknown={} failed={} skipped={}{not_run}",
            counts.change, counts.unchanged, counts.unknown, counts.failed, counts.skipped
        );
        line(&text, color);
    }
}

fn print_task(task: &Planned, layout: &Layout<'_>, printer: &Printer) {
    let (mark, color) = match task.status {
        Status::Failed => ('!', Color::Error),
        Status::Unknown => ('?', Color::Skip),
        _ => ('~', Color::Changed),
    };
    let names: Vec<&str> = task.hosts.iter().map(String::as_str).collect();
    let shown = if layout.whole { names.len() } else { HOSTS };
    let mut hosts = names.get(..shown.min(names.len())).unwrap_or_default().join(", ");
    if names.len() > shown {
        hosts.push_str(&format!(" and {} more", names.len() - shown));
    }
    printer.line(&format!("  {mark} {}  [{hosts}]", task.task), color);
    let place = Path::new(&task.place);
    let place = place.strip_prefix(layout.directory).unwrap_or(place);
    printer.line(&format!("      {} at {}", task.action, place.display()), Color::Plain);
    if task.ran {
        printer.line("      has run already: the task has `check_mode: false`", Color::Warn);
    }
    let shown = if layout.whole { task.parts.len() } else { ITEMS };
    for part in task.parts.iter().take(shown) {
        print_part(part, layout, printer);
    }
    if task.parts.len() > shown {
        printer.line(&format!("      {} more items; -v shows them", task.parts.len() - shown), Color::Plain);
    }
    if task.status == Status::Unknown && !task.notifies.is_empty() {
        printer.line(&format!("      may notify: {}", task.notifies.join(", ")), Color::Plain);
    }
}

fn print_part(part: &Part, layout: &Layout<'_>, printer: &Printer) {
    let margin = if part.item.is_some() { " ".repeat(8) } else { " ".repeat(6) };
    if let Some(item) = &part.item {
        printer.line(&format!("      item {item}"), Color::Plain);
    }
    for (line, color) in lines_of(part, layout) {
        printer.line(&format!("{margin}{line}"), color);
    }
}

/// Lines of an entry, in which two plans are compared.
pub(super) fn entry(task: &Planned, layout: &Layout<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for part in &task.parts {
        lines.extend(part.item.iter().map(|item| format!("item {item}")));
        lines.extend(lines_of(part, layout).into_iter().map(|(line, _)| line));
    }
    if !task.notifies.is_empty() {
        lines.push(format!("notifies: {}", task.notifies.join(", ")));
    }
    lines
}

/// Lines of a part, without its item.
fn lines_of(part: &Part, layout: &Layout<'_>) -> Vec<(String, Color)> {
    let mut lines = Vec::new();
    let mut say = |text: &str, color: Color| lines.extend(text.lines().map(|line| (line.to_owned(), color)));
    if let Some(command) = &part.command {
        say(&labelled("runs: ", command), Color::Plain);
    }
    if let Some(arguments) = &part.arguments {
        say(&labelled("with: ", arguments), Color::Plain);
    }
    if let Some(reason) = &part.reason {
        let label = if part.status == Status::Failed { "fails: " } else { "unknown: " };
        say(&labelled(label, reason), Color::Plain);
    }
    for Attribute { name, from, to } in &part.attributes {
        say(&format!("{name}: {} -> {}", value(from), value(to)), Color::Plain);
    }
    for difference in &part.differences {
        print_difference(difference, layout, &mut say);
    }
    lines
}

/// A text with a label; its further lines are indented by the width of the label.
fn labelled(label: &str, text: &str) -> String {
    let indent = format!("\n{}", " ".repeat(label.len()));
    format!("{label}{}", text.trim_end().replace('\n', &indent))
}

fn print_difference(difference: &Difference, layout: &Layout<'_>, say: &mut impl FnMut(&str, Color)) {
    let Difference { path, text, omitted, .. } = difference;
    if !path.is_empty() {
        say(path, Color::Plain);
    }
    let count = text.lines().count();
    let shown = if layout.whole { count } else { LINES };
    for line in text.lines().take(shown) {
        let color = match line.as_bytes().first() {
            Some(b'+') => Color::DiffAdd,
            Some(b'-') => Color::DiffRemove,
            Some(b'@') => Color::DiffLines,
            _ => Color::Plain,
        };
        say(&format!("  {line}"), color);
    }
    if count > shown {
        say(&format!("  {} more lines; -v shows them", count - shown + omitted), Color::Plain);
    } else if *omitted > 0 {
        say(&format!("  {omitted} more lines"), Color::Plain);
    }
}

/// A value on one line.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        other => clipped(&other.to_string(), VALUE),
    }
}
