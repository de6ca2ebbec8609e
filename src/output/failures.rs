//! Failures for a person to read: results as text, and a list of failures at the end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::event::path_of;
use super::footer::Stream;
use super::masked::{Masked, Shown};
use super::printable::clipped;
use super::printer::Printer;
use super::{Event, Output, ResultEvent, Status};
use crate::playbook::Task;
use crate::settings::Color;

/// Maximum number of lines of the list.
const LISTED: usize = 50;
/// Maximum number of hosts to name in a line.
const NAMED: usize = 5;
/// Maximum number of lines of a text in a result; of a longer one the last are shown.
const LINES: usize = 20;
/// Maximum length of one listed message, in characters.
const WIDTH: usize = 600;

/// Texts of programs, in the order in which they are shown.
const TEXTS: &[&str] = &["stderr", "stdout", "module_stderr", "module_stdout"];
/// Keys that repeat others, or that nobody reads.
const LEFT_OUT: &[&str] = &[
    "ansible_index_var",
    "ansible_loop_var",
    // The message has the errors of a role's arguments.
    "argument_errors",
    "argument_spec_data",
    "censored",
    "changed",
    "delta",
    "end",
    "failed_when_result",
    "msg",
    "start",
    "stderr_lines",
    "stdout_lines",
    "unreachable",
    "validate_args_context",
];

/// A failed result as text: the message, other keys, then the output of programs.
pub(super) fn text(result: &serde_json::Map<String, Value>) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let message = result.get("msg").or_else(|| result.get("censored"));
    let mut lines: Vec<String> = message.map(shown).unwrap_or_default().lines().map(str::to_owned).collect();
    if lines.is_empty() {
        lines.push(String::new());
    }
    // The line above has the item.
    let item = result.get("ansible_loop_var").and_then(Value::as_str);
    for (key, value) in result.iter().filter(|(key, _)| Some(key.as_str()) != item) {
        let is_text = TEXTS.contains(&key.as_str());
        if is_text || LEFT_OUT.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        // A command is shown as it was typed.
        let words = value.as_array().filter(|_| key == "cmd");
        let words = words.map(|words| words.iter().map(shown).collect::<Vec<_>>().join(" "));
        section(key, &words.unwrap_or_else(|| shown(value)), &mut lines);
    }
    for key in TEXTS {
        let text = result.get(*key).map(shown).unwrap_or_default();
        if !text.trim().is_empty() {
            lines.push(format!("  {key}:"));
            block(&text, &mut lines);
        }
    }
    lines.join("\n")
}

/// The message of `debug` as lines of text: a list of texts, such as a table, or a text of several lines. Without a
/// message of that form, `None`.
pub(super) fn message_lines(result: &serde_json::Map<String, Value>) -> Option<String> {
    let lines: Vec<&str> = match result.get("msg")? {
        Value::Array(texts) => texts.iter().map(Value::as_str).collect::<Option<_>>()?,
        Value::String(text) if text.contains('\n') => text.lines().collect(),
        _ => return None,
    };
    // Templates of tables often end with a line feed.
    let used = lines.iter().rposition(|line| !line.trim().is_empty())? + 1;
    let indented =
        lines[..used].iter().flat_map(|line| line.split('\n')).map(|line| format!("    {}", line.trim_end()));
    Some(indented.fold(String::new(), |text, line| text + "\n" + line.trim_end()))
}

fn section(key: &str, text: &str, lines: &mut Vec<String>) {
    if text.contains('\n') {
        lines.push(format!("  {key}:"));
        block(text, lines);
    } else {
        lines.push(format!("  {key}: {text}"));
    }
}

fn block(text: &str, lines: &mut Vec<String>) {
    let all: Vec<&str> = text.trim_end().lines().collect();
    let hidden = all.len().saturating_sub(LINES);
    if hidden > 0 {
        lines.push(format!("    ({hidden} earlier lines; -v or `windlass report` shows all)"));
    }
    lines.extend(all.iter().skip(hidden).map(|line| format!("    {}", line.trim_end()).trim_end().to_owned()));
}

/// Lists the failures of a run after its recap.
pub(super) struct Failures {
    printer: Printer,
    /// Stream of the list.
    stream: Stream,
    current: PathBuf,
    found: Vec<Failure>,
    /// Message of the first failed item of a running loop, by host and task.
    items: HashMap<(Arc<str>, u64), String>,
    /// Names of tasks as shown.
    names: HashMap<u64, String>,
}

struct Failure {
    name: Arc<str>,
    task: u64,
    /// Label of the host.
    host: String,
    /// The task with its place.
    title: String,
    message: String,
}

impl Failures {
    pub(super) fn new(printer: &Printer, stream: Stream) -> Failures {
        Failures {
            printer: printer.clone(),
            stream,
            current: std::env::current_dir().unwrap_or_default(),
            found: Vec::new(),
            items: HashMap::new(),
            names: HashMap::new(),
        }
    }

    fn result(&mut self, event: &ResultEvent<Shown>, label: String) {
        let ignored = match event.status {
            Status::Failed { ignored } | Status::Unreachable { ignored } => ignored,
            Status::Ok | Status::Skipped => {
                if event.item.is_none() {
                    self.items.remove(&(Arc::clone(&event.name), event.task.id));
                }
                return;
            }
        };
        let key = (Arc::clone(&event.name), event.task.id);
        let message = first_line(event.result.json());
        if let Some(item) = &event.item {
            self.items.entry(key).or_insert_with(|| format!("item {item}: {message}"));
            return;
        }
        let message = self.items.remove(&key).unwrap_or(message);
        if ignored {
            return;
        }
        let place = self.place(&event.task).map(|place| format!(" ({place})")).unwrap_or_default();
        let label = self.names.get(&event.task.id).cloned().unwrap_or(label);
        self.found.push(Failure {
            name: Arc::clone(&event.name),
            task: event.task.id,
            host: event.host.clone(),
            title: format!("{label}{place}"),
            message: clipped(&message, WIDTH),
        });
    }

    /// Position of a task, relative to the current directory.
    fn place(&self, task: &Task) -> Option<String> {
        let path = path_of(task)?;
        let below = path.strip_prefix(&*self.current.to_string_lossy()).and_then(|rest| rest.strip_prefix('/'));
        Some(below.map_or_else(|| path.clone(), str::to_owned))
    }

    fn list(&mut self) {
        let found = std::mem::take(&mut self.found);
        if found.is_empty() {
            return;
        }
        let say = |text: &str, color: Color| self.printer.line_to(self.stream, text, color);
        say(&format!("FAILURES: {}", found.len()), Color::Error);
        let groups = alike(&found);
        for (first, hosts) in groups.iter().take(LISTED) {
            say(&format!("  {}", line(&first.title, &first.message, hosts)), Color::Plain);
        }
        let more: usize = groups.iter().skip(LISTED).map(|(_, hosts)| hosts.len()).sum();
        if more > 0 {
            say(&format!("  and {more} more; `windlass runs show` lists all"), Color::Plain);
        }
        say("", Color::Plain);
    }
}

/// The first failure of those that differ in the names of their hosts alone, with these names.
fn alike(found: &[Failure]) -> Vec<(&Failure, Vec<&str>)> {
    let mut groups: IndexMap<(&str, String), (&Failure, Vec<&str>)> = IndexMap::new();
    for failure in found {
        let key = (&*failure.title, without_name(&failure.message, &failure.name));
        groups.entry(key).or_insert_with(|| (failure, Vec::new())).1.push(&failure.host);
    }
    groups.values_mut().for_each(|(_, hosts)| hosts.sort_unstable());
    groups.into_values().collect()
}

/// The message with a mark in place of a host's name, where the name is not part of another word.
fn without_name(message: &str, name: &str) -> String {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let (mut text, mut end) = (String::new(), 0);
    for (at, _) in message.match_indices(name) {
        let (before, after) =
            (message.get(..at).unwrap_or_default(), message.get(at + name.len()..).unwrap_or_default());
        if !before.ends_with(is_of_word) && !after.starts_with(is_of_word) {
            text.push_str(message.get(end..at).unwrap_or_default());
            text.push('\0');
            end = at + name.len();
        }
    }
    text + message.get(end..).unwrap_or_default()
}

/// Line of hosts that failed alike.
fn line(title: &str, message: &str, hosts: &[&str]) -> String {
    match hosts {
        [host] => format!("{host}: {title}: {message}"),
        [first, .., _] if hosts.len() > NAMED => format!("{title}: {message}: {} hosts ({first} ...)", hosts.len()),
        _ => format!("{title}: {message}: {} hosts ({})", hosts.len(), hosts.join(", ")),
    }
}

/// First line of a result's message, and the next one if the first leads to it. Programs that failed without a message
/// have one on standard error.
pub(crate) fn first_line(result: &Value) -> String {
    let line = |key: &str| {
        let text = result.get(key).and_then(Value::as_str)?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        Some(match lines.next() {
            Some(next) if first.ends_with(':') => format!("{first} {next}"),
            _ => first.to_owned(),
        })
    };
    if let Some(censored) = line("censored") {
        return censored;
    }
    match (line("msg").or_else(|| line("reason")), line("stderr").or_else(|| line("module_stderr"))) {
        (Some(message), Some(error)) if message == "non-zero return code" => format!("{message}: {error}"),
        (Some(message), _) if message == "Assertion failed" => match line("assertion") {
            Some(assertion) => format!("{message}: {assertion}"),
            None => message,
        },
        // The report of the task has the list of all.
        (Some(message), _) => message.split(". Supported parameters include").next().unwrap_or(&message).to_owned(),
        (None, error) => error.or_else(|| line("stdout")).unwrap_or_else(|| "no message".to_owned()),
    }
}

impl Output for Failures {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::TaskStart { task, name, .. } => {
                self.names.insert(task.id, name.trim().to_owned());
            }
            Event::PlayStart { .. } => {
                self.items.clear();
                self.names.clear();
            }
            Event::Result(result) => self.result(result, event.label_of(&result.task)),
            Event::Rescued { host, task } => {
                if let Some(at) = self.found.iter().rposition(|one| one.name == *host && one.task == *task) {
                    self.found.remove(at);
                }
            }
            Event::Recap(_) => self.list(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn output_of_programs_shown_as_lines() {
        let result = json!({
            "changed": true, "cmd": ["ls", "/x"], "rc": 2, "msg": "non-zero return code", "stdout": "",
            "stderr": "ls: cannot access\nsecond\n", "stderr_lines": ["ls"], "start": "now",
        });
        let expected = "non-zero return code\n  cmd: ls /x\n  rc: 2\n  stderr:\n    ls: cannot access\n    second";
        assert_eq!(text(result.as_object().unwrap()), expected);
        assert_eq!(first_line(&result), "non-zero return code: ls: cannot access");
    }

    #[test]
    fn hosts_that_fail_alike_share_a_line() {
        let of = |hosts: &[&str]| line("fail (m.yml:4)", "non-zero return code", hosts);
        assert_eq!(of(&["a"]), "a: fail (m.yml:4): non-zero return code");
        assert_eq!(of(&["a", "b"]), "fail (m.yml:4): non-zero return code: 2 hosts (a, b)");
        assert_eq!(of(&["n0"; 120]), "fail (m.yml:4): non-zero return code: 120 hosts (n0 ...)");
    }

    #[test]
    fn messages_that_differ_in_the_name_of_the_host_alone_share_a_line() {
        let failure = |host: &str, message: &str| Failure {
            name: host.into(),
            task: 1,
            host: host.to_owned(),
            title: "check (m.yml:4)".to_owned(),
            message: message.to_owned(),
        };
        let found = [failure("b", "b has no swap"), failure("a", "a has no swap"), failure("c", "c is off")];
        let groups: Vec<_> = alike(&found).into_iter().map(|(first, hosts)| (&*first.message, hosts)).collect();
        assert_eq!(groups, [("b has no swap", vec!["a", "b"]), ("c is off", vec!["c"])]);
    }

    #[test]
    fn message_that_ends_with_a_colon_is_followed_by_its_next_line() {
        let result = json!({"msg": "Validation of arguments failed:\n\nvalue of port is 'x'\nmore"});
        assert_eq!(first_line(&result), "Validation of arguments failed: value of port is 'x'");
    }

    #[test]
    fn debug_message_of_lines_becomes_text_and_other_messages_do_not() {
        let lines = |message: serde_json::Value| message_lines(json!({"msg": message}).as_object().unwrap());
        let table = json!(["NODE  STATE", "", "  a   \"ok\"  ", ""]);
        assert_eq!(lines(table).as_deref(), Some("\n    NODE  STATE\n\n      a   \"ok\""));
        assert_eq!(lines(json!("first\nsecond\n")).as_deref(), Some("\n    first\n    second"));
        for other in [json!("one line"), json!(["a", 1]), json!([]), json!([""]), json!({"a": ["b"]}), json!(null)] {
            assert_eq!(lines(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn long_output_is_cut_at_its_beginning() {
        let long: String = (0..100).map(|number| format!("{number}\n")).collect();
        let shown = text(json!({"msg": "m", "stdout": long}).as_object().unwrap());
        let cut = "(80 earlier lines; -v or `windlass report` shows all)\n    80\n";
        assert!(shown.contains(cut) && shown.ends_with("\n    99"), "{shown}");
    }
}
