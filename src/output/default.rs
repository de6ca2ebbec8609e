//! The default callback: what `ansible-playbook` prints.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::diff::unified;
use super::json::{nice_json, python_json, spaced_json};
use super::printer::{Color, Printer};
use super::{Event, JobState, Output, ResultEvent, Stats, Status};
use crate::strategy::CustomStats;

/// What is shown.
#[derive(Debug, Clone)]
struct Options {
    /// `-v`.
    verbosity: u8,
    /// Skipped hosts are shown.
    skipped: bool,
    /// Hosts that went well are shown.
    ok: bool,
    /// Lines around a change.
    diff_context: usize,
    /// Output of running commands is shown as it comes.
    live: bool,
}

/// Prints as Ansible's default callback does.
#[derive(Debug)]
pub struct DefaultOutput {
    printer: Printer,
    options: Options,
    /// The titles of tasks, which are shown before the first thing that is shown of them.
    titles: HashMap<u64, String>,
    /// The task whose title was shown last.
    titled: Option<u64>,
    warned: HashSet<String>,
}

impl DefaultOutput {
    /// Prints with this printer.
    pub fn new(printer: Printer, settings: &crate::settings::Settings, live: bool) -> DefaultOutput {
        let options = Options {
            verbosity: settings.verbosity,
            skipped: settings.display_skipped_hosts,
            ok: settings.display_ok_hosts,
            diff_context: settings.diff_context,
            live,
        };
        DefaultOutput { printer, options, titles: HashMap::new(), titled: None, warned: HashSet::new() }
    }

    /// Shows something of a task, below its title.
    fn say(&mut self, task: u64, text: &str, color: Color) {
        self.title(task);
        self.printer.line(text, color);
    }

    /// Shows the title of a task, unless it is the last one shown.
    fn title(&mut self, task: u64) {
        if self.titled == Some(task) {
            return;
        }
        if let Some(title) = self.titles.get(&task) {
            self.printer.line(title, Color::Plain);
            self.titled = Some(task);
        }
    }

    fn result(&mut self, event: &ResultEvent) {
        let result = event.result.to_json();
        if event.diff
            && result.get("changed").and_then(Value::as_bool).unwrap_or(false)
            && (event.item.is_some() || !event.looped)
        {
            let text = unified(result.get("diff").unwrap_or(&Value::Null), self.options.diff_context);
            if !text.is_empty() {
                for line in text.lines() {
                    let color = match line.as_bytes().first() {
                        Some(b'+') => Color::Green,
                        Some(b'-') => Color::Red,
                        Some(b'@') => Color::Cyan,
                        _ => Color::Plain,
                    };
                    self.say(event.task, line, color);
                }
            }
        }
        for warning in result.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            self.printer.error_line(&format!("[WARNING]: {warning}"), Color::BrightPurple);
        }
        // What every host would say again is said once.
        if let Some(report) = &event.report
            && self.warned.insert(report.clone())
        {
            self.say(event.task, &format!("[ERROR]: {}\n", report.trim_end()), Color::Red);
        }
        if event.looped {
            return self.summary(event, &result);
        }
        let item = event.item.as_ref().map(|label| format!(" => (item={label})")).unwrap_or_default();
        match event.status {
            Status::Ok => {
                let changed = result.get("changed").and_then(Value::as_bool).unwrap_or(false);
                let (word, color) = if changed { ("changed", Color::Yellow) } else { ("ok", Color::Green) };
                if !changed && !self.options.ok {
                    return;
                }
                let mut line = format!("{word}: [{}]{item}", event.host);
                if self.is_shown(&result) {
                    line.push_str(&format!(" => {}", self.dump(&result, event)));
                }
                self.say(event.task, &line, color);
            }
            Status::Failed { ignored } => {
                let line = match &event.item {
                    Some(label) => format!("failed: [{}] (item={label}) => {}", event.host, self.dump(&result, event)),
                    None => format!("fatal: [{}]: FAILED! => {}", event.host, self.dump(&result, event)),
                };
                self.say(event.task, &line, Color::Red);
                if ignored {
                    self.say(event.task, "...ignoring", Color::Cyan);
                }
            }
            Status::Skipped => {
                if self.options.skipped {
                    let mut line = format!(
                        "skipping: [{}]{}",
                        event.host,
                        event.item.as_ref().map(|label| format!(" => (item={label}) ")).unwrap_or_default()
                    );
                    if self.options.verbosity > 0 {
                        line.push_str(&format!(" => {}", self.dump(&result, event)));
                    }
                    self.say(event.task, &line, Color::Cyan);
                }
            }
            Status::Unreachable { ignored } => {
                let line = format!("fatal: [{}]: UNREACHABLE! => {}", event.host, self.dump(&result, event));
                self.say(event.task, &line, Color::BrightRed);
                if ignored {
                    self.say(event.task, "...ignoring", Color::Cyan);
                }
            }
        }
    }

    /// The line for a whole loop, whose items have been shown.
    fn summary(&mut self, event: &ResultEvent, result: &Value) {
        match event.status {
            Status::Failed { ignored } => {
                let any_item = result.get("results").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
                if !any_item {
                    self.say(
                        event.task,
                        &format!("fatal: [{}]: FAILED! => {}", event.host, self.dump(result, event)),
                        Color::Red,
                    );
                }
                if ignored {
                    self.say(event.task, "...ignoring", Color::Cyan);
                }
            }
            Status::Skipped if self.options.skipped => {
                let mut line = format!("skipping: [{}]", event.host);
                if self.options.verbosity > 0 {
                    line.push_str(&format!(" => {}", self.dump(result, event)));
                }
                self.say(event.task, &line, Color::Cyan);
            }
            _ => {}
        }
    }

    fn is_shown(&self, result: &Value) -> bool {
        self.options.verbosity > 0 || always_shown(result)
    }

    /// A result as JSON, without what is shown otherwise.
    fn dump(&self, result: &Value, event: &ResultEvent) -> String {
        let pretty = self.options.verbosity > 2 || always_shown(result);
        let mut map = result.as_object().cloned().unwrap_or_default();
        map.retain(|key, _| !key.starts_with('_') && !HIDDEN.contains(&key.as_str()));
        if self.options.verbosity < 3 {
            map.retain(|key, _| !matches!(key.as_str(), "invocation" | "diff" | "exception"));
        }
        if event.action == "debug" {
            // A message stands alone; of a variable only its own key is left.
            let message = map.contains_key("msg");
            map.retain(|key, _| if message { key == "msg" } else { !HIDDEN_IN_DEBUG.contains(&key.as_str()) });
        }
        let value = Value::Object(map);
        if pretty { nice_json(&value) } else { python_json(&value) }
    }
}

/// Keys of results that are shown in other ways.
const HIDDEN: &[&str] = &["failed", "skipped", "warnings", "deprecations"];

/// Keys that `debug` does not repeat when it shows a variable.
const HIDDEN_IN_DEBUG: &[&str] =
    &["changed", "invocation", "skip_reason", "ansible_loop_var", "ansible_index_var", "ansible_loop"];

/// Whether a result is shown without `-v` too.
fn always_shown(result: &Value) -> bool {
    result.get("_ansible_verbose_always").is_some()
}

/// A title with stars to the width of 79, at least three.
fn banner(text: &str) -> String {
    let width = text.chars().count();
    format!("\n{text} {}", "*".repeat(79usize.saturating_sub(width).max(3)))
}

impl Output for DefaultOutput {
    fn event(&mut self, event: &Event) {
        match event {
            Event::PlaybookStart { path } => {
                if self.options.verbosity > 1 {
                    let name = path.rsplit('/').next().unwrap_or(path);
                    self.printer.line(&banner(&format!("PLAYBOOK: {name}")), Color::Plain);
                }
            }
            Event::PlayStart { name } => {
                self.titles.clear();
                self.titled = None;
                let title = if name.is_empty() { "PLAY".to_owned() } else { format!("PLAY [{name}]") };
                self.printer.line(&banner(&title), Color::Plain);
            }
            Event::NoHostsMatched => self.printer.line("skipping: no hosts matched", Color::Cyan),
            Event::NoHostsLeft => self.printer.line(&banner("NO MORE HOSTS LEFT"), Color::Plain),
            Event::TaskStart { id, name, handler, path, lazy, .. } => {
                let kind = if *handler { "RUNNING HANDLER" } else { "TASK" };
                let mut text = banner(&format!("{kind} [{name}]"));
                if let (Some(path), true) = (path, self.options.verbosity >= 2) {
                    text.push_str(&format!("\ntask path: {path}"));
                }
                self.titles.insert(*id, text);
                if self.options.skipped && self.options.ok && !lazy {
                    self.titled = None;
                    self.title(*id);
                }
            }
            Event::Result(result) => self.result(result),
            Event::Retry { host, task, left, result } => {
                let mut line = format!("FAILED - RETRYING: [{host}]: {task} ({left} retries left).");
                let result = result.to_json();
                if self.options.verbosity > 1 || always_shown(&result) {
                    let shown: serde_json::Map<String, Value> = result
                        .as_object()
                        .into_iter()
                        .flatten()
                        .filter(|(key, _)| !key.starts_with('_') && !HIDDEN.contains(&key.as_str()))
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect();
                    line.push_str(&format!("Result was: {}", nice_json(&Value::Object(shown))));
                }
                self.printer.line(&line, Color::Plain);
            }
            Event::Job { host, id, state } => {
                let line = match state {
                    JobState::Polled { started, finished } => {
                        format!("ASYNC POLL on {host}: jid={id} started={started} finished={finished}")
                    }
                    JobState::Ok => format!("ASYNC OK on {host}: jid={id}"),
                    JobState::Failed => format!("ASYNC FAILED on {host}: jid={id}"),
                };
                self.printer.line(&line, Color::DarkGray);
            }
            Event::Included { task, what, hosts, item } => {
                let item = item.as_ref().map(|label| format!(" => (item={label})")).unwrap_or_default();
                self.say(*task, &format!("included: {what} for {}{item}", hosts.join(", ")), Color::Cyan);
            }
            Event::Live { host, bytes } => {
                if self.options.live {
                    for line in String::from_utf8_lossy(bytes).lines() {
                        self.printer.error_line(&format!("[{host}] {line}"), Color::Blue);
                    }
                }
            }
            Event::Warning(sentence) => {
                // Every host may have the same to say.
                if self.warned.insert(sentence.clone()) {
                    self.printer.error_line(&format!("[WARNING]: {sentence}"), Color::BrightPurple);
                }
            }
            Event::End => {}
            Event::Notice(text) => self.printer.line(text, Color::Plain),
            Event::Verbose { level, text } => {
                if self.options.verbosity >= *level {
                    self.printer.line(text, Color::Blue);
                }
            }
            Event::Banner(text) => self.printer.line(&banner(text), Color::Plain),
            Event::Prompt { text, .. } => self.printer.prompt(text),
            Event::Recap(hosts) => {
                self.printer.line(&banner("PLAY RECAP"), Color::Plain);
                let mut names: Vec<_> = hosts.iter().collect();
                names.sort_by_key(|(name, _)| *name);
                for (name, stats) in names {
                    self.recap(name, stats);
                }
                self.printer.line("", Color::Plain);
            }
            Event::CustomStats(stats) => self.custom_stats(stats),
        }
    }
}

impl DefaultOutput {
    fn custom_stats(&self, stats: &CustomStats) {
        self.printer.line(&banner("CUSTOM STATS:"), Color::Plain);
        let shown = |values: &serde_json::Map<String, Value>| spaced_json(&Value::from(values.clone()));
        for (host, values) in &stats.hosts {
            self.printer.line(&format!("\t{host}: {}", shown(values)), Color::Plain);
        }
        if !stats.run.is_empty() {
            self.printer.line("", Color::Plain);
            self.printer.line(&format!("\tRUN: {}", shown(&stats.run)), Color::Plain);
        }
        self.printer.line("", Color::Plain);
    }

    fn recap(&self, name: &str, stats: &Stats) {
        let color = match stats {
            Stats { failed: 1.., .. } | Stats { unreachable: 1.., .. } => Color::Red,
            Stats { changed: 1.., .. } => Color::Yellow,
            _ => Color::Green,
        };
        let field = |key: &str, value: u32, color: Color| {
            let text = format!("{key}={value:<4}");
            if value == 0 { text } else { self.printer.paint(&text, color) }
        };
        let host = format!("{:<26}", self.printer.paint(name, color));
        let line = format!(
            "{host} : {} {} {} {} {} {} {}",
            field("ok", stats.ok, Color::Green),
            field("changed", stats.changed, Color::Yellow),
            field("unreachable", stats.unreachable, Color::BrightRed),
            field("failed", stats.failed, Color::Red),
            field("skipped", stats.skipped, Color::Cyan),
            field("rescued", stats.rescued, Color::Yellow),
            field("ignored", stats.ignored, Color::BrightPurple),
        );
        self.printer.line_as_is(&line);
    }
}
