//! The json callback: prints the whole run as one JSON document at the end.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::callbacks::{Ids, Setup};
use super::event::path_of;
use super::json::indented_json;
use super::masked::Masked;
use super::printer::Printer;
use super::{Event, Output, Recap, ResultEvent, Shown, Status};
use crate::error::Result;
use crate::settings::Color;

/// Keys that are internal or already expressed by the status.
const HIDDEN: &[&str] = &["_ansible_facts_cacheable", "failed", "skipped"];

/// Collects plays, tasks and results, and prints them at the end of the run.
pub(super) struct Document {
    printer: Printer,
    indent: Option<usize>,
    show_custom_stats: bool,
    ids: Ids,
    plays: Vec<StartedPlay>,
}

struct StartedPlay {
    about: Map<String, Value>,
    /// Tasks in the order they started.
    tasks: Vec<StartedTask>,
}

struct StartedTask {
    id: u64,
    about: Map<String, Value>,
    hosts: IndexMap<String, Value>,
}

/// Current time in UTC, with microseconds.
pub(super) fn now() -> String {
    format!("{}Z", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6f"))
}

/// Fields common to plays and tasks.
pub(super) fn about(name: &str, id: String, path: Option<String>) -> Map<String, Value> {
    let about = json!({"name": name, "id": id, "path": path, "duration": {"start": now()}});
    about.as_object().cloned().unwrap_or_default()
}

/// Sets the end of a play or task.
pub(super) fn end(about: &mut Map<String, Value>, time: &str) {
    if let Some(duration) = about.get_mut("duration").and_then(Value::as_object_mut) {
        duration.insert("end".into(), time.into());
    }
}

impl Document {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Document> {
        Ok(Document {
            printer: setup.printer.clone(),
            indent: usize::try_from(setup.number("json_indent")?).ok().filter(|indent| *indent > 0),
            show_custom_stats: setup.flag("show_custom_stats"),
            ids: Ids::new(),
            plays: Vec::new(),
        })
    }

    /// Adds a result to its task, or to the task that started last.
    fn file(&mut self, id: u64, host: &str, result: Value) {
        let Some(play) = self.plays.last_mut() else { return };
        let index = play.tasks.iter().rposition(|task| task.id == id).or(play.tasks.len().checked_sub(1));
        let Some(task) = index.and_then(|index| play.tasks.get_mut(index)) else { return };
        task.hosts.insert(host.to_owned(), result);
        let time = now();
        end(&mut task.about, &time);
        end(&mut play.about, &time);
    }

    fn text(&self, recap: &Recap) -> String {
        let plays: Vec<Value> = self
            .plays
            .iter()
            .map(|play| {
                let tasks: Vec<Value> =
                    play.tasks.iter().map(|task| json!({"task": task.about, "hosts": task.hosts})).collect();
                json!({"play": play.about, "tasks": tasks})
            })
            .collect();
        let mut document = statistics(recap, self.show_custom_stats);
        document["plays"] = plays.into();
        indented_json(&document, self.indent)
    }
}

/// Counts of each host, and custom statistics.
pub(super) fn statistics(recap: &Recap, show_custom_stats: bool) -> Value {
    let (custom, global) = match show_custom_stats {
        true => (json!(recap.custom.hosts), json!(recap.custom.run)),
        false => (json!({}), json!({})),
    };
    let stats: Map<String, Value> =
        recap.hosts.iter().map(|(host, stats)| (host.to_string(), stats.to_json())).collect();
    json!({"stats": stats, "custom_stats": custom, "global_custom_stats": global})
}

/// Result of a task as the JSON callbacks print it.
pub(super) fn value_of(result: &ResultEvent<Shown>) -> Value {
    let mut value = result.result.json().clone();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !HIDDEN.contains(&key.as_str()));
        map.insert("action".into(), result.task.action.as_str().into());
        // An empty loop is reported like a task without one, but has the keys of a loop.
        if !result.looped && !map.contains_key("skipped_reason") {
            map.insert("_ansible_no_log".into(), result.no_log.into());
        }
        match result.status {
            Status::Failed { .. } => map.insert("failed".into(), true.into()),
            Status::Skipped => map.insert("skipped".into(), true.into()),
            Status::Ok | Status::Unreachable { .. } => None,
        };
    }
    value
}

/// The same JSON with non-ASCII characters escaped.
pub(super) fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

impl Output for Document {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlayStart { name, path, batch, .. } => {
                let about = about(name, self.ids.play(*batch), path.clone());
                self.plays.push(StartedPlay { about, tasks: Vec::new() });
            }
            Event::TaskStart { task, name, .. } => {
                let about = about(name, self.ids.task(task), path_of(task));
                if let Some(play) = self.plays.last_mut() {
                    play.tasks.push(StartedTask { id: task.id, about, hosts: IndexMap::new() });
                }
            }
            Event::Result(result) | Event::IncludeResult(result) if result.item.is_none() => {
                self.file(result.task.id, &result.name, value_of(result));
            }
            Event::Recap(recap) => {
                self.printer.line(&in_ascii(&self.text(recap)), Color::Plain);
            }
            _ => {}
        }
    }
}
