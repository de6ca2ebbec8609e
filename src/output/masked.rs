//! Masked events for callbacks. Masking happens only here, before anything is rendered.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::event::{Event, Recap, ResultEvent};
use super::secrets::Secrets;
use crate::outcome::{CustomStats, TaskResult, Unknown};
use crate::playbook::Task;

/// Maximum length of an unfinished line of live output to hold back, in bytes. The start of a longer one is printed.
const LINE: usize = 64 << 10;

/// A result with its secrets masked. It is rendered at most once, on first use.
#[derive(Debug)]
pub struct Shown {
    result: Arc<TaskResult>,
    secrets: Secrets,
    json: OnceLock<Value>,
}

impl Shown {
    /// The result as JSON, with masked texts and keys.
    pub(crate) fn json(&self) -> &Value {
        self.json.get_or_init(|| {
            let mut json = self.result.to_json();
            self.secrets.mask_json(&mut json);
            json
        })
    }

    /// Whether the result has a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.result.get(key).is_some()
    }

    /// Whether the result is printed in full even without `-v`.
    pub(super) fn is_always_shown(&self) -> bool {
        self.result.is_always_shown()
    }

    /// Whether the result reports a change.
    pub(crate) fn changed(&self) -> bool {
        self.result.changed()
    }

    /// Path that the rendered arguments of the action name, masked.
    pub(super) fn target(&self) -> Option<String> {
        self.result.target().map(|path| self.secrets.mask(path))
    }

    /// Reason why a plan cannot know the result, masked; `None` if it is known.
    pub(crate) fn unknown(&self) -> Option<Unknown> {
        self.result.unknown().map(|why| match why {
            Unknown::NotRun => Unknown::NotRun,
            Unknown::Depends { part, on } => Unknown::Depends { part, on: self.secrets.mask(on) },
            Unknown::Fails(message) => Unknown::Fails(self.secrets.mask(message)),
        })
    }

    /// Whether `changed` is exactly `true`, not another truthy value.
    pub(super) fn is_marked_changed(&self) -> bool {
        self.result.get("changed").is_some_and(|value| windlass_template::to_json(value) == true)
    }
}

/// An event without secrets. Only [`Masker`] creates one.
#[derive(Debug)]
pub struct Masked {
    event: Event<Shown>,
    secrets: Secrets,
}

impl Deref for Masked {
    type Target = Event<Shown>;

    fn deref(&self) -> &Event<Shown> {
        &self.event
    }
}

impl Masked {
    /// Arguments of a task as written: `name=value, name=value`.
    pub(crate) fn arguments_of(&self, task: &Task) -> String {
        self.secrets.mask(&super::event::arguments_of(task, None))
    }

    /// Arguments of a changed result's task as written, but with the rendered path of its change.
    pub(crate) fn arguments_of_change(&self, event: &ResultEvent<Shown>) -> String {
        self.secrets.mask(&super::event::arguments_of(&event.task, event.result.result.target()))
    }

    /// Masks a text that belongs to the event.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.secrets.mask(text)
    }

    /// Masks a value that belongs to the event.
    pub(super) fn mask_json(&self, value: &mut Value) {
        self.secrets.mask_json(value);
    }

    /// Name of a task as written.
    pub(crate) fn label_of(&self, task: &Arc<Task>) -> String {
        let label = crate::playbook::label::of_task(task, None);
        if task.span.source.is_secret() { self.secrets.mask(&label) } else { label }
    }

    /// Result of a task that included something.
    pub(super) fn included(&self, task: &Task, what: &str) -> Value {
        let mut result = super::shown::included(task, what);
        self.secrets.mask_json(&mut result);
        result
    }
}

/// Masks events on their way to the callbacks.
#[derive(Debug)]
pub struct Masker {
    secrets: Secrets,
    /// Names of tasks and actions written literally in the project, which stay unmasked.
    written: HashSet<String>,
    /// Unfinished lines of live output, by host.
    unfinished: HashMap<String, Vec<u8>>,
}

impl Masker {
    /// Creates a masker for these secrets.
    pub fn new(secrets: Secrets) -> Masker {
        Masker { secrets, written: HashSet::new(), unfinished: HashMap::new() }
    }

    /// Converts an event to the masked events to display.
    pub fn mask(&mut self, event: Event) -> impl Iterator<Item = Masked> {
        let before: Vec<Event<Shown>> = match &event {
            Event::TaskStart { .. } => {
                let note = self.secrets.trivial_note();
                note.map(|text| Event::Verbose { level: 1, text }).into_iter().collect()
            }
            Event::Result(result) => self.rest_of(&result.name).into_iter().collect(),
            Event::End => {
                let hosts: Vec<String> = self.unfinished.keys().cloned().collect();
                hosts.iter().filter_map(|host| self.rest_of(host)).collect()
            }
            _ => Vec::new(),
        };
        let events = before.into_iter().chain(self.masked(event));
        let secrets = self.secrets.clone();
        events.map(move |event| Masked { event, secrets: secrets.clone() })
    }

    fn masked(&mut self, event: Event) -> Option<Event<Shown>> {
        let text = |text: String| self.secrets.mask(&text);
        Some(match event {
            Event::PlaybookStart { path, plays, ready } => {
                Event::PlaybookStart { path, plays: plays.into_iter().map(text).collect(), ready }
            }
            Event::PlayStart { name, path, check, batch, hosts } => {
                Event::PlayStart { name: text(name), path, check, batch, hosts }
            }
            Event::NoHostsMatched => Event::NoHostsMatched,
            Event::NoHostsLeft => Event::NoHostsLeft,
            Event::TaskStart { task, name, check, lazy } => {
                // A name written in an unencrypted file of the project is not a secret.
                if !task.span.source.is_secret() && crate::playbook::label::of_task(&task, None) == name {
                    self.written.insert(name.clone());
                }
                if !self.written.contains(&task.action) {
                    self.written.insert(task.action.clone());
                }
                Event::TaskStart { task, name: self.name(name), check, lazy }
            }
            Event::HostStart { host, name, handler, task } => {
                Event::HostStart { host, name: self.name(name), handler, task: self.task(task) }
            }
            Event::Result(result) => Event::Result(self.result(result)),
            Event::IncludeResult(result) => Event::IncludeResult(self.result(result)),
            Event::Rescued { host, task } => Event::Rescued { host, task },
            Event::Notified { host, handler } => Event::Notified { host, handler },
            Event::Spent { host, task, start, on } => Event::Spent { host, task: self.task(task), start, on },
            Event::Retry { of, host, task, left, result } => {
                Event::Retry { of: self.task(of), host, task: self.name(task), left, result: self.shown(result) }
            }
            Event::Job { task, host, id, state } => Event::Job { task: self.task(task), host, id, state },
            Event::Included { task, what, hosts, item } => {
                let (what, item) = (text(what), item.map(text));
                Event::Included { task, what, hosts, item }
            }
            Event::Live { host, bytes } => {
                let bytes = self.finished_lines(&host, bytes)?;
                Event::Live { host, bytes }
            }
            Event::Lock { host, waits } => Event::Lock { host, waits },
            Event::Printed { host, line } => Event::Printed { host, line: text(line) },
            Event::Warning(sentence) => Event::Warning(text(sentence)),
            Event::Deprecation(sentence) => Event::Deprecation(text(sentence)),
            Event::Notice(notice) => Event::Notice(text(notice)),
            Event::Verbose { level, text: line } => Event::Verbose { level, text: text(line) },
            Event::Banner(line) => Event::Banner(text(line)),
            Event::Prompt { text: question, shown } => Event::Prompt { text: text(question), shown },
            Event::Interrupted { signal } => Event::Interrupted { signal },
            Event::Recorded { run } => Event::Recorded { run },
            Event::Forecast(forecast) => Event::Forecast(forecast),
            Event::Recap(recap) => Event::Recap(self.recap(recap)),
            Event::Error { message, place } => Event::Error { message: text(message), place },
            Event::Exit { code } => Event::Exit { code },
            Event::End => Event::End,
        })
    }

    /// Masks the name of a task, unless it is written in the project.
    fn name(&self, name: String) -> String {
        if self.written.contains(&name) { name } else { self.secrets.mask(&name) }
    }

    /// The task, with the name of its action masked if a template has produced it.
    fn task(&self, task: Arc<Task>) -> Arc<Task> {
        if crate::builtin::is_known(&task.action) || self.written.contains(&task.action) {
            return task;
        }
        match self.secrets.masked(&task.action) {
            Cow::Owned(action) => Arc::new(Task { action, ..Task::clone(&task) }),
            Cow::Borrowed(_) => task,
        }
    }

    /// Masks a host that a task was delegated to, and its address. The host of the task itself is structure.
    fn label(&self, name: &str, label: String) -> String {
        let Some(delegate) = label.strip_prefix(name).and_then(|rest| rest.strip_prefix(" -> ")) else { return label };
        let (other, address) = delegate.split_at(delegate.find('(').unwrap_or(delegate.len()));
        format!("{name} -> {}{}", self.secrets.mask_name(other), self.secrets.mask(address))
    }

    fn result(&self, event: ResultEvent) -> ResultEvent<Shown> {
        let ResultEvent { task, name, host, status, result, item, looped, diff, no_log, report } = event;
        let text = |text: String| self.secrets.mask(&text);
        let (item, report) = (item.map(text), report.map(text));
        let (task, host) = (self.task(task), self.label(&name, host));
        let result = self.shown(result);
        ResultEvent { task, name, host, status, result, item, looped, diff, no_log, report }
    }

    fn shown(&self, result: Arc<TaskResult>) -> Shown {
        Shown { result, secrets: self.secrets.clone(), json: OnceLock::new() }
    }

    fn recap(&self, recap: Recap) -> Recap {
        if recap.custom.is_empty() {
            return recap;
        }
        let mut custom = CustomStats::clone(&recap.custom);
        self.secrets.mask_map(&mut custom.run);
        custom.hosts.values_mut().for_each(|stats| self.secrets.mask_map(stats));
        Recap { custom: Arc::new(custom), ..recap }
    }

    /// Live output ready to be searched for secrets: whole lines, and the start of a long unfinished one.
    fn finished_lines(&mut self, host: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut all = self.unfinished.remove(host).unwrap_or_default();
        all.extend(bytes);
        let line_end = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let found = self.secrets.find(&all);
        let end = if all.len() - line_end < LINE {
            line_end
        } else {
            // Text that may start a secret is held back, and a secret is never split.
            let end = all.len().saturating_sub(self.secrets.longest());
            found.iter().find(|range| range.start < end && end < range.end).map_or(end, |range| range.start)
        };
        let rest = all.split_off(end);
        if !rest.is_empty() {
            self.unfinished.insert(host.to_owned(), rest);
        }
        let text = self.secrets.mask(&String::from_utf8_lossy(&all));
        (!text.is_empty()).then(|| text.into_bytes())
    }

    /// Remaining live output of a host.
    fn rest_of(&mut self, host: &str) -> Option<Event<Shown>> {
        let rest = self.unfinished.remove(host)?;
        let bytes = self.secrets.mask(&String::from_utf8_lossy(&rest)).into_bytes();
        Some(Event::Live { host: host.to_owned(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(masker: &mut Masker, bytes: &str) -> String {
        let event = Event::Live { host: "web1".to_owned(), bytes: bytes.as_bytes().to_vec() };
        let text = |masked: Masked| match &*masked {
            Event::Live { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        masker.mask(event).map(text).collect()
    }

    #[test]
    fn secret_in_two_pieces_of_live_output_is_masked() {
        let secrets = Secrets::default();
        secrets.add("hunter2");
        let mut masker = Masker::new(secrets);
        assert_eq!(live(&mut masker, "first\nit is hun"), "first\n");
        assert_eq!(live(&mut masker, "ter2.\nnext hunt"), "it is ********.\n");
        let endless = "-".repeat(LINE);
        assert!(!live(&mut masker, &format!("er2{endless}hunt")).contains("hunt"));
        assert!(!live(&mut masker, "er2\n").contains("hunt"));
    }
}
