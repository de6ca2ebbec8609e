//! The state of a run, from its journal while that is written.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value as Json, json};

use super::address;
use crate::error::Result;
use crate::journal::{Done, End, Follower, Record, RunFile};
use crate::output::clipped;
use crate::report::{Kind, Tally, message, split};

/// Maximum number of hosts that are shown.
const HOSTS: usize = 2000;
/// Maximum number of failures that are shown.
const FAILURES: usize = 200;
/// Maximum length of a message, in characters.
const MESSAGE: usize = 2000;
/// Maximum number of changed hosts in one event.
const CHANGES: usize = 500;

/// The state of a run, and what of it has changed.
pub(super) struct Watch {
    follower: Follower,
    tally: Tally,
    /// Task that each host works on, by the number of the host.
    tasks: HashMap<usize, String>,
    plays: HashMap<u32, String>,
    play: String,
    /// Failures that were not reported yet.
    failures: Vec<Json>,
    /// Number of all failures.
    failed: usize,
    changed: BTreeSet<usize>,
    has_news: bool,
    end: Option<End>,
}

impl Watch {
    /// Starts at the beginning of a run.
    pub(super) fn of(run: &RunFile) -> Result<Watch> {
        Ok(Watch {
            follower: Follower::open(&run.path)?,
            tally: Tally::default(),
            tasks: HashMap::new(),
            plays: HashMap::new(),
            play: String::new(),
            failures: Vec::new(),
            failed: 0,
            changed: BTreeSet::new(),
            has_news: true,
            end: None,
        })
    }

    /// Reads what was written since the last call.
    pub(super) fn read(&mut self) -> Result<()> {
        loop {
            let records = self.follower.more()?;
            if records.is_empty() {
                return Ok(());
            }
            records.into_iter().for_each(|record| self.add(record));
        }
    }

    /// The end, if it is written.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Run(_) => self.tally = Tally::default(),
            Record::Play(play) => _ = self.plays.insert(play.play, play.name),
            Record::Sent(sent) => {
                self.enter(sent.at.play);
                if let Some(index) = self.tally.host(&sent.host) {
                    self.tasks.insert(index, split(&sent.at.task).0.to_owned());
                    self.changed.insert(index);
                }
            }
            Record::Done(done) => self.done(&done),
            Record::End(end) => self.end = Some(end),
            Record::File(_) | Record::Item(_) | Record::Alive(_) => return,
        }
        self.has_news = true;
    }

    fn done(&mut self, done: &Done) {
        self.enter(done.at.play);
        let kind = Kind::of(done.status, done.rescuable);
        if kind.is_bad() {
            self.failed += 1;
            if self.failed <= FAILURES {
                self.failures.push(failure(done, kind));
            }
        }
        if let Some(index) = self.tally.count(&done.host, &done.at, kind) {
            self.tasks.remove(&index);
            self.changed.insert(index);
        }
    }

    fn enter(&mut self, play: u32) {
        if let Some(name) = self.plays.get(&play) {
            self.play.clone_from(name);
        }
    }

    /// Changes since the last call; `None` without any. Of many hosts, the rest follows with the next call.
    pub(super) fn changes(&mut self) -> Option<Json> {
        if !std::mem::take(&mut self.has_news) && self.changed.is_empty() {
            return None;
        }
        let rest = self.changed.iter().copied().nth(CHANGES).map(|next| self.changed.split_off(&next));
        let changed = std::mem::replace(&mut self.changed, rest.unwrap_or_default());
        let hosts: Vec<Json> =
            changed.into_iter().filter(|index| *index < HOSTS).filter_map(|index| self.host(index)).collect();
        let count = self.tally.recaps().len();
        Some(json!({
            "play": clipped(&self.play, MESSAGE),
            "hosts": hosts,
            "hosts_left_out": count.saturating_sub(HOSTS),
            "working": self.tasks.len(),
            "failures": std::mem::take(&mut self.failures),
            "failed": self.failed,
            "failures_left_out": self.failed.saturating_sub(FAILURES),
        }))
    }

    fn host(&self, index: usize) -> Option<Json> {
        let recap = self.tally.recap(index)?;
        let task = self.tasks.get(&index).map(|task| clipped(task, MESSAGE));
        let mut value = json!(recap);
        if let Json::Object(map) = &mut value {
            map.insert("id".to_owned(), index.into());
            map.insert("href".to_owned(), address::host(&recap.host).into());
            map.insert("task".to_owned(), task.into());
        }
        Some(value)
    }
}

fn failure(done: &Done, kind: Kind) -> Json {
    let (task, place) = split(&done.at.task);
    let text = match (&done.result, done.withheld) {
        (result, Some(withheld)) if result.is_empty() => withheld.reason().to_owned(),
        (result, _) => message(&result.read()),
    };
    let mut map = Map::new();
    map.insert("status".to_owned(), kind.word().into());
    map.insert("host".to_owned(), done.host.as_str().into());
    map.insert("href".to_owned(), address::host(&done.host).into());
    map.insert("task".to_owned(), clipped(task, MESSAGE).into());
    map.insert("place".to_owned(), place.map(|place| clipped(place, MESSAGE)).into());
    map.insert("message".to_owned(), clipped(&text, MESSAGE).into());
    Json::Object(map)
}
