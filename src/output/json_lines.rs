//! The jsonl callback: prints each event as a line of JSON, and keeps no results.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::callbacks::{Ids, Setup};
use super::document::{about, end, in_ascii, now, statistics, value_of};
use super::event::path_of;
use super::json::dense_json;
use super::masked::{Masked, Shown};
use super::printer::Printer;
use super::{Event, Output, ResultEvent, Status};
use crate::error::Result;
use crate::settings::Color;

/// Prints the events of a run.
pub(super) struct JsonLines {
    printer: Printer,
    indent: Option<usize>,
    show_custom_stats: bool,
    ids: Ids,
    /// Whether hosts do not wait for each other; then each host starts its tasks by itself.
    is_free: bool,
    /// Task that started last on all hosts together.
    task: Map<String, Value>,
    /// Task that started last on each host by itself.
    own_tasks: HashMap<Arc<str>, Map<String, Value>>,
}

impl JsonLines {
    pub(super) fn new(setup: &Setup<'_>) -> Result<JsonLines> {
        Ok(JsonLines {
            printer: setup.printer.clone(),
            indent: usize::try_from(setup.number("json_indent")?).ok().filter(|indent| *indent > 0),
            show_custom_stats: setup.flag("show_custom_stats"),
            ids: Ids::new(),
            is_free: false,
            task: Map::new(),
            own_tasks: HashMap::new(),
        })
    }

    fn write(&self, event: &str, mut document: Value) {
        document["_event"] = event.into();
        document["_timestamp"] = now().into();
        self.printer.line(&in_ascii(&dense_json(&document, self.indent)), Color::Plain);
    }

    fn result(&self, result: &ResultEvent<Shown>) {
        let mut task = self.own_tasks.get(&result.name).unwrap_or(&self.task).clone();
        end(&mut task, &now());
        let event = match result.status {
            Status::Ok => "v2_runner_on_ok",
            Status::Failed { .. } => "v2_runner_on_failed",
            Status::Skipped => "v2_runner_on_skipped",
            Status::Unreachable { .. } => "v2_runner_on_unreachable",
        };
        self.write(event, json!({"task": task, "hosts": {&*result.name: value_of(result)}}));
    }
}

impl Output for JsonLines {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlayStart { name, path, batch, .. } => {
                self.own_tasks.clear();
                let play = about(name, self.ids.play(*batch), path.clone());
                self.write("v2_playbook_on_play_start", json!({"play": play, "tasks": []}));
            }
            Event::TaskStart { lazy: true, .. } => self.is_free = true,
            Event::TaskStart { task, name, .. } => {
                self.is_free = false;
                self.task = about(name, self.ids.task(task), path_of(task));
                let event = match task.handler {
                    true => "v2_playbook_on_handler_task_start",
                    false => "v2_playbook_on_task_start",
                };
                self.write(event, json!({"task": self.task, "hosts": {}}));
            }
            Event::HostStart { host, name, task, .. } if self.is_free => {
                let about = about(name, self.ids.task(task), path_of(task));
                self.write("v2_runner_on_start", json!({"task": about, "hosts": {}}));
                self.own_tasks.insert(Arc::clone(host), about);
            }
            Event::Result(result) | Event::IncludeResult(result) if result.item.is_none() => self.result(result),
            Event::Recap(recap) => self.write("v2_playbook_on_stats", statistics(recap, self.show_custom_stats)),
            _ => {}
        }
    }
}
