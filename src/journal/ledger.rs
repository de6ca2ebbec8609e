//! The ledger of handlers: notifications whose handlers have not run on their hosts.
//!
//! Each set of playbooks and inventory sources has one append-only file. It outlives the journals of its runs. When no
//! other run has it open, it is rewritten with the outstanding entries.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::error::{Error, Result};

/// Maximum size of a ledger, in bytes.
const FILE: u64 = 64 << 20;
/// Seconds to wait for another run that rewrites the ledger.
const PATIENCE: u32 = 10;

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "lowercase")]
pub(super) enum Event {
    /// A task was sent that notifies the handler if it changes something.
    Maybe(Entry),
    /// The task answered and did not notify it.
    Not(Entry),
    /// The handler was notified.
    Notified(Entry),
    /// The handler has run.
    Ran(Entry),
    /// The notification was discarded, by the user or because the play has no such handler.
    Dismissed(Entry),
}

/// A handler on a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) host: String,
    pub(super) play: String,
    pub(super) handler: String,
    /// Task that notified it, or may have.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) task: String,
    pub(super) run: String,
    /// Run that notified it, if `run` took it over.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) origin: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) when: String,
}

/// A handler that was notified and has not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Host on which the handler is pending.
    pub host: String,
    /// Play of the handler.
    pub play: String,
    /// Name in `notify`.
    pub handler: String,
    /// Task that notified it.
    pub task: String,
    /// Id of the run that notified it, or that took it over last.
    pub run: String,
    /// Id of the run that notified it.
    pub origin: String,
    /// Time of the notification, in UTC.
    pub when: String,
    /// Whether the task answered. If not, the run ended before the answer, and the task's changes are unknown.
    pub certain: bool,
}

/// Outstanding notifications.
#[derive(Debug, Default)]
pub struct Ledger {
    handlers: BTreeMap<(String, String, String), Outstanding>,
    lines: usize,
    /// Numbers of the lines that are not valid entries.
    pub damaged: Vec<usize>,
}

#[derive(Debug, Default)]
struct Outstanding {
    certain: Option<Entry>,
    /// By task and run, because an answer settles only the notification of its own run.
    possible: BTreeMap<(String, String), Entry>,
}

impl Ledger {
    /// Reads a ledger. Invalid lines are recorded and skipped.
    pub fn read(bytes: &[u8]) -> Ledger {
        let mut ledger = Ledger::default();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            ledger.lines += 1;
            match serde_json::from_slice(line) {
                Ok(event) => ledger.take(event),
                Err(_) => ledger.damaged.push(index + 1),
            }
        }
        ledger
    }

    /// Reads the ledger of a project, identified as in [`RunFile`](super::RunFile).
    pub fn of_project(state: &State, project: &str) -> Ledger {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(state.ledger_file(project)) {
            // An unreadable ledger has nothing to report.
            let _ = file.take(FILE).read_to_end(&mut bytes);
        }
        Ledger::read(&bytes)
    }

    fn take(&mut self, event: Event) {
        let key = |entry: &Entry| (entry.host.clone(), entry.play.clone(), entry.handler.clone());
        match event {
            Event::Maybe(entry) => {
                let outstanding = self.handlers.entry(key(&entry)).or_default();
                outstanding.possible.insert((entry.task.clone(), entry.run.clone()), entry);
            }
            Event::Not(entry) => {
                let key = key(&entry);
                let Some(outstanding) = self.handlers.get_mut(&key) else { return };
                outstanding.possible.remove(&(entry.task, entry.run));
                if outstanding.certain.is_none() && outstanding.possible.is_empty() {
                    self.handlers.remove(&key);
                }
            }
            Event::Notified(entry) => {
                let outstanding = self.handlers.entry(key(&entry)).or_default();
                outstanding.certain = Some(entry);
            }
            Event::Ran(entry) | Event::Dismissed(entry) => _ = self.handlers.remove(&key(&entry)),
        }
    }

    /// Outstanding handlers, except handlers of runs that are still active.
    pub fn pending(&self, is_alive: impl Fn(&str) -> bool) -> Vec<Pending> {
        let found = self.handlers.values().filter_map(|outstanding| {
            let possible = outstanding.possible.values().next_back().map(|entry| (entry, false));
            let (entry, certain) = outstanding.certain.as_ref().map(|entry| (entry, true)).or(possible)?;
            let Entry { host, play, handler, task, run, origin, when } = entry.clone();
            let origin = if origin.is_empty() { run.clone() } else { origin };
            Some(Pending { host, play, handler, task, run, origin, when, certain })
        });
        found.filter(|pending| !is_alive(&pending.run)).collect()
    }

    /// Handlers of runs that have ended, and of `own`, the run that asks.
    pub(super) fn left_behind(&self, state: &State, own: Option<&str>) -> Vec<Pending> {
        let runs = state.runs();
        self.pending(|name| Some(name) != own && runs.iter().any(|run| run.run == name && run.is_alive()))
    }

    /// Opens the ledger of a project for appending. The file's lock prevents other runs from rewriting it.
    pub(super) fn open(state: &State, project: &str) -> Result<(Ledger, File)> {
        let path = state.ledger_file(project);
        let fail = |error: std::io::Error| {
            Error::new(format!("the ledger of handlers {} cannot be used: {error}", path.display()))
                .hint("set WINDLASS_JOURNAL_DIR to another directory, or use --no-journal")
        };
        for _ in 0..PATIENCE * 10 {
            let mut file =
                OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path).map_err(fail)?;
            let is_alone = file.try_lock().is_ok();
            if !is_alone && file.try_lock_shared().is_err() {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            // Another run may have replaced the file before the lock was taken.
            let same = fs::metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()));
            if !same {
                continue;
            }
            let mut bytes = Vec::new();
            (&file).take(FILE).read_to_end(&mut bytes).map_err(fail)?;
            let ledger = Ledger::read(&bytes);
            if is_alone && ledger.lines > 2 * ledger.handlers.len() + 64 {
                file = ledger.rewritten(&path).map_err(fail)?;
            } else if bytes.last().is_some_and(|last| *last != b'\n') {
                // An earlier run was killed in the middle of a line.
                file.write_all(b"\n").map_err(fail)?;
            }
            file.lock_shared().map_err(fail)?;
            return Ok((ledger, file));
        }
        Err(Error::new(format!("the ledger of handlers {} is locked for {PATIENCE} s by another run", path.display()))
            .hint("try again once that run has started"))
    }

    /// Replaces the file with one that holds only the outstanding entries.
    fn rewritten(&self, path: &Path) -> std::io::Result<File> {
        let staged = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&staged)?;
        file.set_len(0)?;
        let mut text = String::new();
        for outstanding in self.handlers.values() {
            let events = outstanding.certain.iter().cloned().map(Event::Notified);
            for event in events.chain(outstanding.possible.values().cloned().map(Event::Maybe)) {
                text.push_str(&serde_json::to_string(&event)?);
                text.push('\n');
            }
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        file.rewind()?;
        fs::rename(&staged, path)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, handler: &str, task: &str, run: &str) -> String {
        format!(
            "{{\"e\":\"{kind}\",\"host\":\"h\",\"play\":\"p\",\"handler\":\"{handler}\",\"task\":\"{task}\",\"run\":\"{run}\"}}\n"
        )
    }

    fn pending(lines: &[String]) -> Vec<(String, bool)> {
        let ledger = Ledger::read(lines.concat().as_bytes());
        ledger.pending(|run| run == "alive").into_iter().map(|pending| (pending.handler, pending.certain)).collect()
    }

    #[test]
    fn notified_handler_pending_until_run_or_discarded() {
        let mut lines =
            vec![line("notified", "a", "t", "1"), line("notified", "b", "t", "1"), line("notified", "c", "t", "1")];
        assert_eq!(pending(&lines).len(), 3);
        lines.extend([line("ran", "a", "", "2"), line("dismissed", "b", "", "2")]);
        assert_eq!(pending(&lines), [("c".to_owned(), true)]);
    }

    #[test]
    fn unanswered_task_leaves_handler_uncertain() {
        assert_eq!(pending(&[line("maybe", "a", "t", "1")]), [("a".to_owned(), false)]);
        assert!(pending(&[line("maybe", "a", "t", "1"), line("not", "a", "t", "1")]).is_empty());
    }

    #[test]
    fn later_unchanged_run_keeps_earlier_uncertainty() {
        let lines = [line("maybe", "a", "t", "1"), line("maybe", "a", "t", "2"), line("not", "a", "t", "2")];
        assert_eq!(pending(&lines), [("a".to_owned(), false)]);
    }

    #[test]
    fn handlers_of_active_run_not_pending() {
        assert!(pending(&[line("notified", "a", "t", "alive")]).is_empty());
    }

    #[test]
    fn damaged_lines_reported_and_skipped() {
        let ledger = Ledger::read(format!("garbage\n{}{{\"e\":", line("notified", "a", "t", "1")).as_bytes());
        assert_eq!((ledger.damaged.as_slice(), ledger.handlers.len()), ([1, 3].as_slice(), 1));
    }

    #[test]
    fn rewritten_ledger_keeps_outstanding_entries() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        state.prepare().unwrap();
        let resolved: String = (0..200)
            .map(|n| line("notified", &n.to_string(), "t", "1") + &line("ran", &n.to_string(), "", "1"))
            .collect();
        fs::write(state.ledger_file("p"), resolved + &line("notified", "left", "t", "1")).unwrap();
        let (ledger, _file) = Ledger::open(&state, "p").unwrap();
        assert_eq!(ledger.pending(|_| false).len(), 1);
        assert_eq!(fs::read_to_string(state.ledger_file("p")).unwrap().lines().count(), 1);
    }
}
