//! The ledger of handlers: notifications whose handlers have not run on their hosts.
//!
//! Each file with plays has one append-only ledger, whichever playbook imports the file. It outlives the journals of
//! its runs. When no other run has it open, it is rewritten with the outstanding entries.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fingerprint::canonical;
use super::lines::{Lines, Read};
use super::state::{State, ledger_name, new_run, sync_folder};
use crate::error::{Error, Result};
use crate::playbook::Play;

/// Maximum length of a line, in bytes. A ledger has no maximum: what is settled is not kept in memory.
pub(super) const LINE: usize = 1 << 20;
/// Maximum number of lines that a warning names.
const NAMED: usize = 10;
/// Seconds to wait for another run that rewrites the ledger.
const PATIENCE: u32 = 10;

/// A play, identified by its own file, so that every playbook that imports it finds its handlers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlayKey {
    /// Absolute path of the file that contains the play.
    pub file: Arc<str>,
    /// Name of the play as written.
    pub name: Arc<str>,
}

impl PlayKey {
    /// Identity of a play that was read from a file.
    pub fn of(play: &Play) -> PlayKey {
        PlayKey { file: canonical(Path::new(&play.span.source.name)).into(), name: play.name.as_str().into() }
    }
}

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
    /// Address of the host, with a port if that is not 22; empty if no variable names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) address: String,
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
    /// Address that the host had, with a port if that was not 22; empty if no variable named it.
    pub address: String,
    /// File of the play.
    pub file: Arc<str>,
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

impl Pending {
    /// The handler's play.
    pub(super) fn play_key(&self) -> PlayKey {
        PlayKey { file: Arc::clone(&self.file), name: self.play.as_str().into() }
    }
}

/// Outstanding notifications.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By host, play, handler and address.
    handlers: BTreeMap<[String; 4], Outstanding>,
    lines: usize,
    /// Number of lines that are not valid entries.
    pub damaged: usize,
    /// Numbers of the first of them.
    named: Vec<usize>,
    /// Whether the end of the last line is missing.
    is_cut: bool,
    /// The file with the damaged lines, if they were removed from the ledger.
    aside: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Outstanding {
    certain: Option<Entry>,
    /// By task and run, because an answer settles only the notification of its own run.
    possible: BTreeMap<(String, String), Entry>,
}

impl Ledger {
    /// Reads a ledger. Invalid lines are counted and skipped.
    pub fn read(bytes: &[u8]) -> Ledger {
        let mut ledger = Ledger::default();
        // Reading from memory cannot fail.
        let _ = ledger.add(bytes);
        ledger
    }

    /// Reads the ledger at a path. One that is missing or unreadable has nothing to report.
    pub(super) fn at(path: &Path) -> Ledger {
        let mut ledger = Ledger::default();
        if let Ok(file) = File::open(path) {
            let _ = ledger.add(BufReader::new(file));
        }
        ledger
    }

    /// Reads to the end, whatever lines are damaged.
    fn add(&mut self, reader: impl BufRead) -> std::io::Result<()> {
        let mut lines = Lines::new(reader, LINE);
        while let Some(read) = lines.next()? {
            self.is_cut = matches!(read, Read::Cut(_));
            let event = match read {
                Read::Whole([]) => continue,
                Read::Whole(line) | Read::Cut(line) => serde_json::from_slice(line).ok(),
                Read::TooLong => None,
            };
            self.lines += 1;
            match event {
                Some(event) => self.take(event),
                None => {
                    self.damaged += 1;
                    if self.named.len() < NAMED {
                        self.named.push(lines.number());
                    }
                }
            }
        }
        Ok(())
    }

    /// Warning about lines of the ledger at a path that cannot be read, if there are any.
    pub(super) fn complaint(&self, path: &Path) -> Option<String> {
        let lines = match (self.damaged, self.named.as_slice()) {
            (0, _) => return None,
            (1, [line, ..]) => format!("line {line} is not an entry"),
            (count, named) => {
                let named: Vec<String> = named.iter().map(ToString::to_string).collect();
                let more = if count > named.len() { " and others" } else { "" };
                format!("{count} lines are not entries: {}{more}", named.join(", "))
            }
        };
        let aside = match &self.aside {
            Some(aside) => format!("are kept in {}", aside.display()),
            None => "stay in it".to_owned(),
        };
        Some(format!(
            "In the ledger of handlers {}, {lines}. Handlers that they name are not known to be pending; the lines \
             {aside}.",
            path.display()
        ))
    }

    /// Outstanding handlers of all ledgers, also of active runs.
    pub fn all(state: &State) -> Vec<Pending> {
        state.ledger_files().iter().flat_map(|path| Ledger::at(path).pending("", |_| false)).collect()
    }

    fn take(&mut self, event: Event) {
        let key = |entry: &Entry| [&entry.host, &entry.play, &entry.handler, &entry.address].map(ToOwned::to_owned);
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
            Event::Ran(entry) | Event::Dismissed(entry) => self.settle(&entry),
        }
    }

    /// Forgets a handler on a host, also where its address was not known.
    fn settle(&mut self, entry: &Entry) {
        let Entry { host, play, handler, .. } = entry;
        let first = [host, play, handler, &String::new()].map(ToOwned::to_owned);
        let same = self
            .handlers
            .range(first..)
            .map(|(key, _)| key)
            .take_while(|[one, two, three, _]| (one, two, three) == (host, play, handler));
        let settled: Vec<_> = same.filter(|[.., address]| is_same(address, &entry.address)).cloned().collect();
        settled.iter().for_each(|key| _ = self.handlers.remove(key));
    }

    /// Outstanding handlers of plays in this file, except handlers of runs that are still active.
    pub(super) fn pending(&self, file: &str, is_alive: impl Fn(&str) -> bool) -> Vec<Pending> {
        let file: Arc<str> = file.into();
        let found = self.handlers.values().filter_map(|outstanding| {
            let possible = outstanding.possible.values().next_back().map(|entry| (entry, false));
            let (entry, certain) = outstanding.certain.as_ref().map(|entry| (entry, true)).or(possible)?;
            let Entry { host, address, play, handler, task, run, origin, when } = entry.clone();
            let origin = if origin.is_empty() { run.clone() } else { origin };
            let file = Arc::clone(&file);
            Some(Pending { host, address, file, play, handler, task, run, origin, when, certain })
        });
        found.filter(|pending| !is_alive(&pending.run)).collect()
    }

    /// Opens the ledger of a file with plays for appending. The lock prevents other runs from rewriting it.
    pub(super) fn open(state: &State, file: &str) -> Result<(Ledger, File)> {
        let path = state.ledger_file(&ledger_name(file));
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
            if !is_at(&file, &path) {
                continue;
            }
            if file.metadata().map_err(fail)?.len() == 0 {
                sync_folder(&path).map_err(fail)?;
            }
            let mut ledger = Ledger::default();
            ledger.add(BufReader::new(&file)).map_err(fail)?;
            if is_alone && (ledger.damaged > 0 || ledger.lines > 2 * ledger.handlers.len() + 64) {
                file = ledger.rewritten(&path).map_err(fail)?;
            } else if ledger.is_cut {
                // An earlier run was killed in the middle of a line.
                file.write_all(b"\n").map_err(fail)?;
            }
            file.lock_shared().map_err(fail)?;
            // While one lock gave way to the other, another run may have held the file and replaced it.
            if is_at(&file, &path) {
                return Ok((ledger, file));
            }
        }
        Err(Error::new(format!("the ledger of handlers {} is locked for {PATIENCE} s by another run", path.display()))
            .hint("try again once that run has started"))
    }

    /// Moves the entries of a ledger that an earlier release wrote. It had one for each list of playbooks and inventory
    /// sources, so only a run with the same ones knows the files of its plays.
    pub(super) fn adopt(state: &State, project: &str, plays: &[PlayKey]) -> Result<()> {
        let path = state.ledger_file(project);
        // A run of the earlier release may still write it; then a later run takes it over.
        let Some(old) = File::open(&path).ok().filter(|old| old.try_lock().is_ok()) else { return Ok(()) };
        let fail = |error: std::io::Error| {
            Error::new(format!("the handlers in {} cannot be taken over: {error}", path.display()))
                .hint("set WINDLASS_JOURNAL_DIR to another directory, or use --no-journal")
        };
        let ledger = Ledger::at(&path);
        for event in ledger.outstanding() {
            let (Event::Notified(entry) | Event::Maybe(entry)) = &event else { continue };
            let named = plays.iter().find(|play| *play.name == *entry.play).or(plays.first());
            let Some(play) = named else { return Ok(()) };
            let (_, mut file) = Ledger::open(state, &play.file)?;
            file.write_all(line(&event).map_err(fail)?.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)?;
        }
        match ledger.damaged {
            0 => fs::remove_file(&path).map_err(fail)?,
            _ => fs::rename(&path, aside(&path)).map_err(fail)?,
        }
        sync_folder(&path).map_err(fail)?;
        drop(old);
        Ok(())
    }

    /// Entries that have not been settled.
    fn outstanding(&self) -> impl Iterator<Item = Event> {
        self.handlers.values().flat_map(|outstanding| {
            let events = outstanding.certain.iter().cloned().map(Event::Notified);
            events.chain(outstanding.possible.values().cloned().map(Event::Maybe))
        })
    }

    /// Replaces the file with one that holds only the outstanding entries. A file with damaged lines gets another name.
    fn rewritten(&mut self, path: &Path) -> std::io::Result<File> {
        let staged = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&staged)?;
        file.set_len(0)?;
        let mut text = String::new();
        for event in self.outstanding() {
            text.push_str(&line(&event)?);
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        file.rewind()?;
        // Nobody sees the file without a lock.
        file.lock_shared()?;
        if self.damaged > 0 {
            let aside = aside(path);
            fs::hard_link(path, &aside).or_else(|_| fs::copy(path, &aside).map(drop))?;
            self.aside = Some(aside);
        }
        fs::rename(&staged, path)?;
        sync_folder(path)?;
        Ok(file)
    }
}

/// New name for a ledger that has damaged lines. Its end keeps it from being read.
fn aside(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.damaged", new_run()))
}

/// Whether a path names this open file.
fn is_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()))
}

/// Whether two addresses may belong to one host of the same name. An address that is not known decides nothing.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

fn line(event: &Event) -> std::io::Result<String> {
    Ok(serde_json::to_string(event)? + "\n")
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
        ledger.pending("", |run| run == "alive").into_iter().map(|pending| (pending.handler, pending.certain)).collect()
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
        assert_eq!((ledger.damaged, ledger.named.as_slice(), ledger.handlers.len()), (2, [1, 3].as_slice(), 1));
    }

    #[test]
    fn entries_behind_a_line_that_is_too_long_are_read() {
        let long = line("notified", &"x".repeat(LINE), "t", "1");
        let ledger = Ledger::read((long + &line("notified", "a", "t", "1")).as_bytes());
        assert_eq!((ledger.damaged, ledger.handlers.len()), (1, 1));
        let complaint = ledger.complaint(Path::new("/state/x.jsonl")).unwrap();
        assert!(complaint.contains("/state/x.jsonl, line 1 is not an entry"), "{complaint}");
    }

    #[test]
    fn damaged_lines_of_a_rewritten_ledger_are_kept_in_a_file_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        state.prepare().unwrap();
        let path = state.ledger_file(&ledger_name("p"));
        fs::write(&path, line("notified", "a", "t", "1") + "garbage\n" + &line("notified", "b", "t", "1")).unwrap();
        let (ledger, _file) = Ledger::open(&state, "p").unwrap();
        assert_eq!(ledger.pending("p", |_| false).len(), 2);
        let aside = ledger.aside.clone().unwrap();
        assert!(fs::read_to_string(&aside).unwrap().contains("garbage"));
        assert!(ledger.complaint(&path).unwrap().contains(&aside.display().to_string()));
        let again = Ledger::at(&path);
        assert_eq!((again.damaged, again.handlers.len(), state.ledger_files().len()), (0, 2, 1));
    }

    #[test]
    fn ledger_is_read_to_its_end_whatever_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.jsonl");
        let settled = line("notified", &"y".repeat(1 << 10), "t", "1") + &line("ran", &"y".repeat(1 << 10), "", "1");
        fs::write(&path, settled.repeat((65 << 20) / settled.len()) + &line("notified", "last", "t", "1")).unwrap();
        assert_eq!(Ledger::at(&path).pending("", |_| false).len(), 1);
    }

    #[test]
    fn handler_that_ran_on_another_machine_of_the_name_stays_pending() {
        let at = |kind: &str, address: &str| {
            line(kind, "a", "t", "1").replace("\"host\":\"h\"", &format!("\"host\":\"h\",\"address\":\"{address}\""))
        };
        let left = |lines: &[String]| {
            let pending = Ledger::read(lines.concat().as_bytes()).pending("", |_| false);
            pending.into_iter().map(|one| one.address).collect::<Vec<_>>()
        };
        let two = [at("notified", "10.0.0.1"), at("notified", "10.0.0.2"), at("notified", "")];
        assert_eq!(left(&[&two[..], &[at("ran", "10.0.0.1")]].concat()), ["10.0.0.2"]);
        assert_eq!(left(&[&two[..], &[line("ran", "a", "", "2")]].concat()), [""; 0]);
    }

    #[test]
    fn rewritten_ledger_keeps_outstanding_entries() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        state.prepare().unwrap();
        let resolved: String = (0..200)
            .map(|n| line("notified", &n.to_string(), "t", "1") + &line("ran", &n.to_string(), "", "1"))
            .collect();
        fs::write(state.ledger_file(&ledger_name("p")), resolved + &line("notified", "left", "t", "1")).unwrap();
        let (ledger, _file) = Ledger::open(&state, "p").unwrap();
        assert_eq!(ledger.pending("p", |_| false).len(), 1);
        assert_eq!(fs::read_to_string(state.ledger_file(&ledger_name("p"))).unwrap().lines().count(), 1);
    }
}
