//! Where a run is: its play and task, the hosts at work, and the time it may still take.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::follow::Follow;
use super::line::{Parts, Waiting};
use crate::output::masked::Masked;
use crate::output::{Event, Forecast, Status};
use crate::playbook::Task;

/// Duration after which the host that has worked longest is named.
const SLOW: Duration = Duration::from_secs(2);
/// Time for which the footer names the key that lists all keys.
const HELP: Duration = Duration::from_secs(10);
/// Maximum numbers of tasks, and of hosts of a task, in a report about running tasks.
const TASKS: usize = 3;
const HOSTS: usize = 5;
/// Maximum number of hosts at work in a list.
const LISTED: usize = 20;
/// Number of hosts in that list that have a key.
const NUMBERED: usize = 9;

/// Seconds as `1h2m3s`.
pub(crate) fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// A task that runs on a host.
#[derive(Debug)]
pub(crate) struct Running {
    task: Arc<Task>,
    /// Name of the task as shown.
    pub(crate) name: String,
    pub(crate) since: Instant,
    /// Whether the task waits for another run's lock on the host, and nothing of it has run.
    pub(crate) waits_for_lock: bool,
    /// Whether an item of it has a result.
    has_result: bool,
}

impl Running {
    /// Id of the task.
    pub(crate) fn id(&self) -> u64 {
        self.task.id
    }
}

/// Progress of a run, from its events.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Start of the playbook; `None` before and after one.
    start: Option<Instant>,
    /// Plays of the playbook, and the number of the present one from 1.
    plays: usize,
    play: usize,
    /// Number of the present play and of its batch in the run, from 0.
    number: u32,
    batch: u32,
    /// Whether the run has had a play.
    has_played: bool,
    /// Name of the present task; `None` where hosts do not wait for each other.
    task: Option<String>,
    /// Hosts that have finished the current task.
    done: usize,
    running: BTreeMap<Arc<str>, Running>,
    /// Failed and unreachable hosts, with the task that failed.
    failed: HashMap<Arc<str>, u64>,
    forecast: Option<Arc<Forecast>>,
    /// Number of times that each place of the forecast was reached.
    reached: HashMap<(u32, u32, String), usize>,
    /// Expected end.
    end: Option<Instant>,
    /// Hosts whose live output is shown.
    follow: Follow,
    /// Hosts of the list shown last, in the order of their keys.
    numbered: Vec<Arc<str>>,
}

impl Progress {
    /// The state before a run, which shows the live output of these hosts.
    pub(crate) fn following(follow: Follow) -> Progress {
        Progress { follow, ..Progress::default() }
    }

    /// Updates the state from an event.
    pub(crate) fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlaybookStart { plays, .. } => {
                (self.start, self.plays, self.play) = (Some(Instant::now()), plays.len(), 0);
                (self.task, self.done) = (None, 0);
                self.running.clear();
                self.failed.clear();
            }
            Event::PlayStart { batch, .. } => {
                (self.task, self.done, self.batch) = (None, 0, *batch);
                if *batch == 0 {
                    self.play += 1;
                    self.number += u32::from(self.has_played);
                    self.has_played = true;
                }
            }
            Event::Forecast(forecast) => {
                self.end = Some(Instant::now() + forecast.total());
                self.forecast = Some(Arc::clone(forecast));
            }
            Event::TaskStart { task, name, lazy, .. } => {
                self.task = (!lazy).then(|| name.trim().to_owned());
                self.done = 0;
                self.locate(task);
            }
            Event::HostStart { host, name, task, .. } => {
                let (task, name) = (Arc::clone(task), name.clone());
                let running = Running { task, name, since: Instant::now(), waits_for_lock: false, has_result: false };
                self.running.insert(Arc::clone(host), running);
            }
            Event::Lock { host, waits } => {
                if let Some(running) = self.running.get_mut(host) {
                    running.waits_for_lock = *waits && !running.has_result;
                }
            }
            Event::Result(result) if result.item.is_some() => {
                if let Some(running) = self.running.get_mut(&result.name) {
                    (running.has_result, running.waits_for_lock) = (true, false);
                }
            }
            Event::Result(result) if result.item.is_none() => {
                self.running.remove(&result.name);
                match result.status {
                    Status::Failed { ignored: false } | Status::Unreachable { ignored: false } => {
                        self.failed.insert(Arc::clone(&result.name), result.task.id);
                    }
                    _ => self.done += 1,
                }
            }
            Event::Rescued { host, task } if self.failed.get(host) == Some(task) => drop(self.failed.remove(host)),
            Event::Recap(_) | Event::Interrupted { .. } => self.start = None,
            _ => {}
        }
    }

    /// Finds the start of a task in an earlier run, and expects the rest to take as long as it took then.
    fn locate(&mut self, task: &Arc<Task>) {
        let Some(forecast) = &self.forecast else { return };
        let place = (self.number, self.batch, crate::playbook::label::with_position(task));
        let times = self.reached.entry(place.clone()).or_default();
        if let Some(remaining) = forecast.remaining(&place, *times) {
            self.end = Some(Instant::now() + remaining);
        }
        *times += 1;
    }

    /// Whether a playbook is running.
    pub(super) fn is_running(&self) -> bool {
        self.start.is_some()
    }

    /// Hosts at work, sorted by name.
    pub(crate) fn running(&self) -> &BTreeMap<Arc<str>, Running> {
        &self.running
    }

    /// Hosts at work, the longest first.
    fn longest_first(&self) -> Vec<(&Arc<str>, &Running)> {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, running)| running.since);
        running
    }

    /// Host that has worked longest.
    fn longest(&self) -> Option<(&Arc<str>, &Running)> {
        self.running.iter().min_by_key(|(_, running)| running.since)
    }

    /// Hosts at work with their tasks, one a line, the longest first. The first lines start with the host's key.
    pub(super) fn at_work(&mut self) -> Vec<String> {
        let running = self.longest_first();
        let mut lines = vec![format!("Hosts at work: {}", running.len())];
        lines.extend(running.iter().take(LISTED).enumerate().map(|(index, (host, running))| {
            let (age, action) = (duration(running.since.elapsed().as_secs()), running.task.short_action());
            let key = if index < NUMBERED { (index + 1).to_string() } else { " ".to_owned() };
            format!("  {key} {host}: {} ({action}) for {age}", running.name.trim())
        }));
        lines.extend(beyond(running.len(), LISTED).map(|rest| format!("  and {rest} more")));
        self.numbered = running.iter().take(NUMBERED).map(|(host, _)| Arc::clone(host)).collect();
        lines
    }

    /// Whether live output of a host is shown.
    pub(crate) fn follows(&self, host: &str) -> bool {
        self.follow.includes(host, self.longest().map(|(name, _)| &**name))
    }

    /// Follows other hosts: the next choice, or the host with this number (from 1) in the list shown last. Returns a
    /// sentence about it.
    pub(super) fn follow(&mut self, number: Option<usize>) -> String {
        self.follow = match number {
            None => self.follow.next(),
            Some(number) => match number.checked_sub(1).and_then(|index| self.numbered.get(index)) {
                Some(host) => Follow::One(Arc::clone(host)),
                None => return format!("There is no host {number} in a list; h shows one."),
            },
        };
        self.follow.to_string()
    }

    /// Parts of the footer; `None` outside of a playbook, and until it has run for `delay`.
    pub(super) fn parts(&self, delay: Duration) -> Option<Parts> {
        let elapsed = self.start?.elapsed();
        if elapsed < delay {
            return None;
        }
        let count = |number: usize, word: &str| if number > 0 { format!("{number} {word}") } else { String::new() };
        let slowest = self.longest().filter(|(_, running)| running.since.elapsed() >= SLOW);
        let remaining = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        Some(Parts {
            play: if self.play > 0 {
                format!("play {}/{}", self.play, self.plays.max(self.play))
            } else {
                String::new()
            },
            task: match super::keys::is_paused() {
                true if self.running.is_empty() => "paused, p continues".to_owned(),
                true => "pausing after this task".to_owned(),
                false => self.task.clone().unwrap_or_default(),
            },
            done: if self.task.is_some() { count(self.done, "done") } else { String::new() },
            running: count(self.running.len(), "running"),
            failed: count(self.failed.len(), "failed"),
            elapsed: format!("elapsed {}", duration(elapsed.as_secs())),
            // Unknown once this run takes longer than the earlier one.
            remaining: remaining.filter(|time| !time.is_zero()).map(rough).unwrap_or_default(),
            waiting: slowest.map(|(host, running)| Waiting {
                host: host.to_string(),
                time: duration(running.since.elapsed().as_secs()),
                action: running.task.short_action().to_owned(),
            }),
            help: if elapsed < HELP && super::keys::are_read() { "? keys".to_owned() } else { String::new() },
        })
    }

    /// A sentence about the running tasks, the oldest first; `None` if none is running.
    pub(crate) fn report(&self) -> Option<String> {
        let running = self.longest_first();
        let (_, oldest) = running.first()?;
        // A run whose tasks print nothing may be silent although none of them takes long.
        let age = match oldest.since.elapsed().as_secs() {
            0 => String::new(),
            seconds => format!(" after {}", duration(seconds)),
        };
        let mut tasks: Vec<(&Running, Vec<&str>)> = Vec::new();
        let mut known = HashMap::new();
        for (host, running) in &running {
            let index = *known.entry((running.task.id, &running.name)).or_insert(tasks.len());
            match tasks.get_mut(index) {
                Some((_, hosts)) => hosts.push(host),
                None => tasks.push((running, vec![host])),
            }
        }
        let mut parts: Vec<String> = Vec::new();
        for (running, hosts) in tasks.iter().take(TASKS) {
            let kind = if running.task.handler { "HANDLER" } else { "TASK" };
            let names = match beyond(hosts.len(), HOSTS) {
                Some(rest) => format!("{} and {rest} more", hosts.get(..HOSTS).unwrap_or_default().join(", ")),
                None => hosts.join(", "),
            };
            parts.push(format!("{kind} [{}], waiting for {names}", running.name.trim()));
        }
        parts.extend(beyond(tasks.len(), TASKS).map(|rest| format!("{rest} more tasks")));
        Some(format!("still running{age}: {}", parts.join("; ")))
    }
}

/// Number of things beyond those that are shown, if any.
fn beyond(all: usize, shown: usize) -> Option<usize> {
    all.checked_sub(shown).filter(|rest| *rest > 0)
}

/// An expected time, in whole minutes from one minute on.
fn rough(time: Duration) -> String {
    let seconds = time.as_secs() + 1;
    let minutes = seconds.div_ceil(60);
    match (seconds, minutes) {
        (0..60, _) => format!("ETA {seconds}s"),
        (_, 0..60) => format!("ETA {minutes}m"),
        (_, minutes) => format!("ETA {}h{}m", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_time_rounded_up() {
        let times =
            [(0, "ETA 1s"), (58, "ETA 59s"), (59, "ETA 1m"), (60, "ETA 2m"), (3599, "ETA 1h0m"), (7000, "ETA 1h57m")];
        for (seconds, text) in times {
            assert_eq!(rough(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }
}
