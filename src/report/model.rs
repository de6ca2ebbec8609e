//! A report as data, built from a journal.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde::Serialize;

use super::VERSION;
use super::outcome::{Kind, Outcome};
use super::place;
use super::text::Budget;
use crate::journal::{At, Done, ItemDone, Journal, Record};

/// Maximum number of outcomes. Beyond it, successful ones are left out first.
const OUTCOMES: usize = 100_000;
/// Maximum size of all texts together, in bytes.
const TEXTS: usize = 64 << 20;
/// Maximum number of hosts.
const HOSTS: usize = 20_000;
/// Maximum number of words of a list in the head of the report.
const WORDS: usize = 1000;
/// Maximum number of unanswered tasks.
const UNANSWERED: usize = 1000;

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// Id of the run.
    pub run: String,
    /// Version of Windlass that ran it.
    pub windlass: String,
    /// `ok`, `failed`, `interrupted`, `running` or `killed`.
    pub result: &'static str,
    /// Exit code; `None` if the run has not ended, or was killed.
    pub code: Option<u8>,
    /// Whether the run was a dry run.
    pub check: bool,
    /// Start, in UTC.
    pub started: String,
    /// End, in UTC.
    pub ended: Option<String>,
    /// Duration in milliseconds.
    pub took: Option<u64>,
    /// Login name on the control machine.
    pub user: String,
    /// Name of the control machine.
    pub machine: String,
    /// Working directory; empty if the journal lacks it.
    pub directory: String,
    /// Command line, with secrets masked.
    pub command: Vec<String>,
    /// Playbooks.
    pub playbooks: Vec<String>,
    /// Inventory sources.
    pub inventory: Vec<String>,
    /// `--limit`.
    pub limit: Option<String>,
    /// `--tags`.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Names of extra variables.
    pub extra_vars: Vec<String>,
    /// Id of the run that this one resumes.
    pub resumes: Option<String>,
    /// Hosts, with their counts.
    pub hosts: Vec<HostRecap>,
    /// Outcomes, in the order of their ends.
    pub tasks: Vec<Outcome>,
    /// Number of outcomes left out because there are too many.
    pub left_out: usize,
    /// Tasks that were sent and have no outcome, if the run did not end by itself.
    pub unanswered: Vec<Unanswered>,
}

/// Counts of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HostRecap {
    /// Name of the host.
    pub host: String,
    /// Successful tasks, including changed ones and ignored failures.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks that could not reach the host.
    pub unreachable: u32,
    /// Failed tasks.
    pub failed: u32,
    /// Skipped tasks.
    pub skipped: u32,
    /// Rescued failures.
    pub rescued: u32,
    /// Ignored failures.
    pub ignored: u32,
}

/// A task that was sent to a host and has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// Name of the host.
    pub host: String,
    /// Name of the task.
    pub task: String,
    /// Place of the task: `FILE:LINE`.
    pub place: Option<String>,
}

impl HostRecap {
    /// Counts an outcome.
    pub(super) fn count(&mut self, status: Kind) {
        let (first, second) = self.counts(status);
        *first = first.saturating_add(1);
        second.into_iter().for_each(|count| *count = count.saturating_add(1));
    }

    /// Subtracts an outcome that another one replaces.
    pub(super) fn discount(&mut self, status: Kind) {
        let (first, second) = self.counts(status);
        *first = first.saturating_sub(1);
        second.into_iter().for_each(|count| *count = count.saturating_sub(1));
    }

    fn counts(&mut self, status: Kind) -> (&mut u32, Option<&mut u32>) {
        match status {
            Kind::Failed => (&mut self.failed, None),
            Kind::Unreachable => (&mut self.unreachable, None),
            Kind::Rescued => (&mut self.rescued, None),
            Kind::Skipped => (&mut self.skipped, None),
            Kind::Ok => (&mut self.ok, None),
            Kind::Changed => (&mut self.ok, Some(&mut self.changed)),
            Kind::Ignored => (&mut self.ok, Some(&mut self.ignored)),
        }
    }

    /// The worst outcome on the host; `None` without any.
    pub fn worst(&self) -> Option<Kind> {
        let counts = [
            (self.failed, Kind::Failed),
            (self.unreachable, Kind::Unreachable),
            (self.rescued, Kind::Rescued),
            (self.ignored, Kind::Ignored),
            (self.changed, Kind::Changed),
            (self.ok, Kind::Ok),
            (self.skipped, Kind::Skipped),
        ];
        counts.into_iter().find(|(count, _)| *count > 0).map(|(_, kind)| kind)
    }

    /// Whether nothing failed on the host.
    pub fn is_good(&self) -> bool {
        self.failed + self.unreachable == 0
    }
}

/// Word for the result of a run.
pub(crate) fn result(journal: &Journal, is_alive: bool) -> &'static str {
    result_of(journal.end.as_ref().map(|end| end.code), is_alive)
}

/// Word for the result of a run that is over, with its exit code if it ended by itself.
pub(crate) fn result_of_ended(code: Option<u8>) -> &'static str {
    result_of(code, false)
}

/// Word for the result of a run with this exit code.
pub(crate) fn result_of(code: Option<u8>, is_alive: bool) -> &'static str {
    match code {
        Some(0) => "ok",
        Some(code) if crate::signals::is_signal(code) => "interrupted",
        Some(_) => "failed",
        None if is_alive => "running",
        None => "killed",
    }
}

/// Name of a run for people: its playbooks without their folders.
pub(crate) fn title(playbooks: &[String], run: &str) -> String {
    let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
    match playbooks.is_empty() {
        true => run.to_owned(),
        false => playbooks.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Milliseconds since 1970 of a time in UTC.
pub(crate) fn instant(time: &str) -> Option<u64> {
    u64::try_from(time.parse::<jiff::Timestamp>().ok()?.as_millisecond()).ok()
}

/// A time in UTC for people; other texts stay as they are.
pub(crate) fn to_second(time: &str) -> String {
    time.parse::<jiff::Timestamp>()
        .map_or_else(|_| time.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

impl Report {
    /// Times of the run by name; values may be empty.
    pub(super) fn times(&self) -> [(&'static str, String); 3] {
        [
            ("Started", format!("{} by {} on {}", to_second(&self.started), self.user, self.machine)),
            ("Ended", self.ended.as_deref().map(to_second).unwrap_or_default()),
            ("Duration", self.took.map(super::millis).unwrap_or_default()),
        ]
    }

    /// The request by name; values may be empty.
    pub(super) fn request(&self) -> [(&'static str, String); 8] {
        let list = |words: &[String]| words.join(", ");
        [
            ("Playbooks", list(&self.playbooks)),
            ("Inventory", list(&self.inventory)),
            ("Limit", self.limit.clone().unwrap_or_default()),
            ("Tags", list(&self.tags)),
            ("Skipped tags", list(&self.skip_tags)),
            ("Extra variables", list(&self.extra_vars)),
            ("Resumes", self.resumes.clone().unwrap_or_default()),
            ("Windlass", self.windlass.clone()),
        ]
    }

    /// Builds the report of a journal. `is_alive` means that the run is still active.
    pub fn of(journal: &Journal, is_alive: bool) -> Report {
        let header = &journal.header;
        let mut budget = Budget::new(TEXTS);
        let mut words = |list: &[String]| -> Vec<String> {
            list.iter().take(WORDS).map(|word| budget.short(word.clone())).collect()
        };
        let (command, playbooks, inventory) = (words(&header.argv), words(&header.playbooks), words(&header.inventory));
        // `all` is the default.
        let tags: Vec<String> = header.tags.iter().filter(|tag| *tag != "all").cloned().collect();
        let (tags, skip_tags) = (words(&tags), words(&header.skip_tags));
        let extra_vars = words(&header.extra_vars.keys().cloned().collect::<Vec<_>>());
        let started = instant(&header.started);
        let ended = journal.end.as_ref().map(|end| end.ended.clone());
        let last = ended.as_deref().and_then(instant);
        let mut hosts: IndexMap<&str, HostRecap> = IndexMap::new();
        let done = journal.outcomes();
        for one in &done {
            if hosts.len() < HOSTS || hosts.contains_key(one.host.as_str()) {
                hosts.entry(&one.host).or_default().count(Kind::of(one.status, one.rescuable));
            }
        }
        let mut recaps: Vec<HostRecap> =
            hosts.into_iter().map(|(host, recap)| HostRecap { host: budget.short(host.to_owned()), ..recap }).collect();
        recaps.sort_by(|a, b| a.host.cmp(&b.host));
        let (tasks, left_out) = outcomes(journal, &done, started.unwrap_or_default(), &mut budget);
        Report {
            version: VERSION,
            run: budget.short(header.run.clone()),
            windlass: budget.short(header.windlass.clone()),
            result: result(journal, is_alive),
            code: journal.end.as_ref().map(|end| end.code),
            check: header.check,
            started: budget.short(header.started.clone()),
            ended: ended.map(|text| budget.short(text)),
            took: started.zip(last).map(|(start, end)| end.saturating_sub(start)),
            user: budget.short(header.user.clone()),
            machine: budget.short(header.machine.clone()),
            directory: budget.short(header.directory.clone()),
            command,
            playbooks,
            inventory,
            limit: header.limit.clone().map(|text| budget.short(text)),
            tags,
            skip_tags,
            extra_vars,
            resumes: header.resumes.clone().map(|text| budget.short(text)),
            hosts: recaps,
            tasks,
            left_out,
            unanswered: unanswered(journal, &done, &mut budget),
        }
    }

    /// Name of the run for people: its playbooks without their folders.
    pub fn title(&self) -> String {
        title(&self.playbooks, &self.run)
    }

    /// Outcomes that make the run fail, then ignored and rescued failures.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Outcome)> {
        let of = |bad: fn(Kind) -> bool| self.tasks.iter().enumerate().filter(move |(_, task)| bad(task.status));
        of(Kind::is_failure).chain(of(|kind| kind.is_bad() && !kind.is_failure()))
    }

    /// Outcomes of the longest tasks, the longest first.
    pub fn slowest(&self, count: usize) -> Vec<(usize, &Outcome)> {
        let mut timed: Vec<_> = self.tasks.iter().enumerate().filter(|(_, task)| task.took.is_some()).collect();
        timed.sort_by_key(|(index, task)| (std::cmp::Reverse(task.took), *index));
        timed.truncate(count);
        timed
    }
}

/// Outcomes within the limits. Failures get their texts first, then changes.
fn outcomes(journal: &Journal, done: &[&Done], started: u64, budget: &mut Budget) -> (Vec<Outcome>, usize) {
    let mut plays: HashMap<u32, &str> = HashMap::new();
    let mut items: HashMap<(&At, &str), IndexMap<u32, &ItemDone>> = HashMap::new();
    let mut arguments = HashMap::new();
    for record in &journal.records {
        match record {
            Record::Sent(sent) if !sent.args.is_empty() => {
                arguments.insert((&sent.at, sent.host.as_str()), &sent.args);
            }
            Record::Play(play) => _ = plays.insert(play.play, &play.name),
            // Of an item that ran again, the last outcome counts.
            Record::Item(item) => _ = items.entry((&item.at, &item.host)).or_default().insert(item.index, item),
            Record::Run(_)
            | Record::File(_)
            | Record::Sent(_)
            | Record::Done(_)
            | Record::Alive(_)
            | Record::End(_) => {}
        }
    }
    let mut ranked: Vec<(usize, &Done)> = done.iter().copied().enumerate().collect();
    ranked.sort_by_key(|(index, one)| (Kind::of(one.status, one.rescuable), *index));
    let left_out = ranked.len().saturating_sub(OUTCOMES);
    ranked.truncate(OUTCOMES);
    let mut found: Vec<(usize, Outcome)> = Vec::with_capacity(ranked.len());
    for (index, one) in ranked {
        let own = items.get(&(&one.at, one.host.as_str())).filter(|_| one.items.is_some());
        let own: Vec<&ItemDone> = own.into_iter().flat_map(|items| items.values().copied()).collect();
        let play = plays.get(&one.at.play).copied().unwrap_or_default();
        let mut outcome = Outcome::of(one, &own, play, started, budget);
        outcome.arguments =
            arguments.get(&(&one.at, one.host.as_str())).map(|args| budget.short(args.as_str().to_owned()));
        found.push((index, outcome));
    }
    found.sort_by_key(|(index, _)| *index);
    (found.into_iter().map(|(_, outcome)| outcome).collect(), left_out)
}

/// Tasks that were sent and have no outcome, if the run was killed. In a run that ended by itself, they did not run.
fn unanswered(journal: &Journal, done: &[&Done], budget: &mut Budget) -> Vec<Unanswered> {
    if journal.end.is_some() {
        return Vec::new();
    }
    let mut known: HashSet<(&At, &str)> = done.iter().map(|one| (&one.at, one.host.as_str())).collect();
    let mut found = Vec::new();
    for record in &journal.records {
        if let Record::Sent(sent) = record
            && known.insert((&sent.at, &sent.host))
            && found.len() < UNANSWERED
        {
            let (task, place) = place::split(&sent.at.task);
            found.push(Unanswered {
                host: budget.short(sent.host.clone()),
                task: budget.short(task.to_owned()),
                place: place.map(|place| budget.short(place.to_owned())),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(to_second("2026-11-27T07:16:30.118288881Z"), "2026-11-27 07:16:30 UTC");
        assert_eq!(to_second("yesterday"), "yesterday");
    }
}
