//! Lines of tasks on the screen: which title was printed last, and how much of a command's output was shown live. The
//! stdout callback and the live output share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::printer::Printer;
use crate::settings::Color;

/// Cheap to clone; all clones share the lines.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskLines(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Titles of the play's tasks, by id.
    titles: HashMap<u64, String>,
    /// Task whose title was printed last.
    titled: Option<u64>,
    /// Number of lines that a host's running command has shown live.
    live: HashMap<String, usize>,
}

impl TaskLines {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the titles of the play before.
    pub(super) fn begin_play(&self) {
        let mut inner = self.inner();
        inner.titles.clear();
        inner.titled = None;
    }

    /// Keeps the title of a task until its first line.
    pub(super) fn keep_title(&self, task: u64, title: String) {
        self.inner().titles.insert(task, title);
    }

    /// Prints the title of a task that starts, also if it is the task that was printed last.
    pub(super) fn start(&self, task: u64, printer: &Printer) {
        self.inner().titled = None;
        self.print_title(task, printer);
    }

    /// Prints the title of a task, unless it was the last one printed.
    pub(super) fn print_title(&self, task: u64, printer: &Printer) {
        let mut inner = self.inner();
        if inner.titled == Some(task) {
            return;
        }
        let Some(title) = inner.titles.get(&task).cloned() else { return };
        inner.titled = Some(task);
        drop(inner);
        printer.line(&title, Color::Plain);
    }

    /// Counts a line of a running command that was shown.
    pub(super) fn count_live(&self, host: &str) {
        *self.inner().live.entry(host.to_owned()).or_default() += 1;
    }

    /// Forgets the live output of a host, whose next command starts.
    pub(super) fn forget_live(&self, host: &str) {
        self.inner().live.remove(host);
    }

    /// Removes the output of a command from its result, if all of it was shown live.
    pub(super) fn without_live(&self, host: &str, result: &mut Map<String, Value>) {
        let Some(shown) = self.inner().live.remove(host) else { return };
        let texts = ["stdout", "stderr"];
        let count = |key: &str| result.get(key).and_then(Value::as_str).map_or(0, |text| text.lines().count());
        if texts.iter().map(|key| count(key)).sum::<usize>() <= shown {
            texts.iter().for_each(|key| drop(result.shift_remove(*key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_removed_only_if_all_of_it_was_shown() {
        let lines = TaskLines::default();
        let left = |host: &str| {
            let mut result = json!({"stdout": "one\ntwo", "stderr": "three", "rc": 1}).as_object().unwrap().clone();
            lines.without_live(host, &mut result);
            result.keys().cloned().collect::<Vec<_>>()
        };
        (0..3).for_each(|_| lines.count_live("a"));
        (0..2).for_each(|_| lines.count_live("b"));
        assert_eq!(left("a"), ["rc"]);
        assert_eq!(left("b").len(), 3);
        // The next command of the host has its own output.
        assert_eq!(left("a").len(), 3);
    }
}
