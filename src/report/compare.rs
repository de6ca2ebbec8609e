//! Compares two recorded runs.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use serde::Serialize;

use super::VERSION;
use super::outcome::Kind;
use super::place;
use crate::journal::{Header, Journal, Record};

/// Maximum number of differences of each kind. Further ones are counted.
const LIMIT: usize = 20_000;

/// Differences between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Version of this format.
    pub version: u32,
    /// Id of the first run.
    pub a: String,
    /// Id of the second run.
    pub b: String,
    /// Sentences about inputs that differ.
    pub inputs: Vec<String>,
    /// Tasks with another result.
    pub tasks: Vec<Difference>,
    /// Number of tasks with the same result.
    pub same: usize,
    /// Number of differences beyond the limit.
    pub left_out: usize,
}

/// A task that has another result on a host, or ran in one of the runs only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the host.
    pub host: String,
    /// Name of the play.
    pub play: String,
    /// Name of the task.
    pub task: String,
    /// Place of the task in the second run, otherwise in the first one.
    pub place: Option<String>,
    /// Status in the first run; `None` if the task has no outcome there.
    pub a: Option<Kind>,
    /// Status in the second run; `None` if the task has no outcome there.
    pub b: Option<Kind>,
}

impl Comparison {
    /// Whether the runs are equal.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.tasks.is_empty()
    }
}

/// A task on a host, found again by names: files may have changed, so positions may have moved. Tasks that share their
/// names are numbered.
type Key<'a> = (&'a str, &'a str, &'a str, usize);

/// Compares two runs.
pub fn compare(a: &Journal, b: &Journal) -> Comparison {
    let (first, second) = (tasks(a), tasks(b));
    let mut found = Vec::new();
    let (mut same, mut left_out) = (0, 0);
    let mut add = |key: &Key<'_>, place: Option<&str>, kinds: (Option<Kind>, Option<Kind>)| {
        if kinds.0 == kinds.1 {
            same += 1;
        } else if found.len() < LIMIT {
            let (host, play, task, _) = *key;
            found.push(Difference {
                host: host.to_owned(),
                play: play.to_owned(),
                task: task.to_owned(),
                place: place.map(str::to_owned),
                a: kinds.0,
                b: kinds.1,
            });
        } else {
            left_out += 1;
        }
    };
    for (key, (kind, place)) in &second {
        add(key, *place, (first.get(key).map(|(kind, _)| *kind), Some(*kind)));
    }
    for (key, (kind, place)) in first.iter().filter(|(key, _)| !second.contains_key(*key)) {
        add(key, *place, (Some(*kind), None));
    }
    let mut inputs = headers(&a.header, &b.header);
    inputs.extend(files(a, b));
    left_out += inputs.len().saturating_sub(LIMIT);
    inputs.truncate(LIMIT);
    Comparison {
        version: VERSION,
        a: a.header.run.clone(),
        b: b.header.run.clone(),
        inputs,
        tasks: found,
        same,
        left_out,
    }
}

fn tasks(journal: &Journal) -> IndexMap<Key<'_>, (Kind, Option<&str>)> {
    let mut plays: HashMap<u32, &str> = HashMap::new();
    for record in &journal.records {
        if let Record::Play(play) = record {
            plays.insert(play.play, &play.name);
        }
    }
    let mut counts: HashMap<(&str, &str, &str), usize> = HashMap::new();
    let mut found = IndexMap::new();
    for done in journal.outcomes() {
        let (task, place) = place::split(&done.at.task);
        let play = plays.get(&done.at.play).copied().unwrap_or_default();
        let count = counts.entry((&done.host, play, task)).or_default();
        let kind = Kind::of(done.status, done.rescuable);
        found.insert((done.host.as_str(), play, task, *count), (kind, place));
        *count += 1;
    }
    found
}

fn headers(a: &Header, b: &Header) -> Vec<String> {
    let mut found = Vec::new();
    let list = |words: &[String]| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "none".to_owned());
    let check = |header: &Header| if header.check { "yes" } else { "no" }.to_owned();
    let rows = [
        ("version of Windlass", a.windlass.clone(), b.windlass.clone()),
        ("user", a.user.clone(), b.user.clone()),
        ("control machine", a.machine.clone(), b.machine.clone()),
        ("dry run", check(a), check(b)),
        ("playbooks", list(&a.playbooks), list(&b.playbooks)),
        ("inventory", list(&a.inventory), list(&b.inventory)),
        ("--limit", word(&a.limit), word(&b.limit)),
        ("--tags", list(&a.tags), list(&b.tags)),
        ("--skip-tags", list(&a.skip_tags), list(&b.skip_tags)),
    ];
    for (what, then, now) in rows.into_iter().filter(|(_, then, now)| then != now) {
        found.push(format!("{what}: `{then}`, then `{now}`"));
    }
    // The values are hashed with a salt of each run, so they cannot be compared.
    for name in a.extra_vars.keys().filter(|name| !b.extra_vars.contains_key(*name)) {
        found.push(format!("extra variable `{name}`: only in the first run"));
    }
    for name in b.extra_vars.keys().filter(|name| !a.extra_vars.contains_key(*name)) {
        found.push(format!("extra variable `{name}`: only in the second run"));
    }
    found
}

fn files(a: &Journal, b: &Journal) -> Vec<String> {
    let hashes = |journal: &Journal| -> BTreeMap<String, String> {
        let files = journal.records.iter().filter_map(|record| match record {
            Record::File(file) => Some((file.path.clone(), file.sha256.clone())),
            _ => None,
        });
        files.collect()
    };
    let (first, second) = (hashes(a), hashes(b));
    let mut found = Vec::new();
    for (path, hash) in &first {
        match second.get(path) {
            None => found.push(format!("{path}: read by the first run only")),
            Some(now) if now != hash => found.push(format!("{path}: has changed")),
            Some(_) => {}
        }
    }
    let new = second.keys().filter(|path| !first.contains_key(*path));
    found.extend(new.map(|path| format!("{path}: read by the second run only")));
    found
}
