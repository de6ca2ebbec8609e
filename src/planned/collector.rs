//! Collects a plan from the events of a check run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::details;
use super::document::{Counts, Part, Planned, Status};
use crate::outcome::Unknown;
use crate::output::{Event, Masked, Output, ResultEvent, Shown, Status as Outcome};
use crate::playbook::Task;

/// Tasks and counts of a check run. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct Collected(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    tasks: Vec<Planned>,
    hosts: BTreeMap<String, Counts>,
    /// Name of the last task that started.
    last: Option<String>,
}

impl Collected {
    /// Name of the last task that started.
    pub fn last_task(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last.clone()
    }

    /// Takes the tasks, grouped by equal expectations, and the counts of hosts.
    pub fn take(&self) -> (Vec<Planned>, BTreeMap<String, Counts>) {
        let inner = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (grouped(inner.tasks), inner.hosts)
    }

    fn add(&self, planned: Planned) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for host in &planned.hosts {
            *inner.hosts.entry(host.clone()).or_default().of(planned.status) += 1;
        }
        if matches!(planned.status, Status::Change | Status::Unknown | Status::Failed) {
            inner.tasks.push(planned);
        }
    }

    /// Counts a failure that a block rescues as unchanged.
    fn rescued(&self, host: &str, place: &str) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |task: &Planned| {
            task.status == Status::Failed && task.place == place && task.hosts.iter().any(|name| name == host)
        };
        let Some(at) = inner.tasks.iter().rposition(is_it) else { return };
        inner.tasks.remove(at);
        let counts = inner.hosts.entry(host.to_owned()).or_default();
        counts.failed = counts.failed.saturating_sub(1);
        counts.unchanged += 1;
    }
}

/// Merges tasks that are equal but for their hosts. Runs of one task stay in their order.
fn grouped(tasks: Vec<Planned>) -> Vec<Planned> {
    let mut groups: Vec<Planned> = Vec::new();
    // Positions of groups of the same task, so that large plans are grouped in linear time.
    let mut known: HashMap<(String, String), Vec<usize>> = HashMap::new();
    for task in tasks {
        let places = known.entry((task.place.clone(), task.task.clone())).or_default();
        let is_same = |group: &Planned| {
            group.parts == task.parts
                && group.play == task.play
                && group.ran == task.ran
                && !task.hosts.iter().any(|host| group.hosts.contains(host))
        };
        let found = places.iter().copied().find(|at| groups.get(*at).is_some_and(is_same));
        match found.and_then(|at| groups.get_mut(at)) {
            Some(group) => group.hosts.extend(task.hosts),
            None => {
                places.push(groups.len());
                groups.push(task);
            }
        }
    }
    groups.iter_mut().for_each(|group| group.hosts.sort());
    // Hosts answer in any order.
    let of_one_task = |one: &Planned, next: &Planned| (&one.place, &one.task) == (&next.place, &next.task);
    groups.chunk_by_mut(of_one_task).for_each(|groups| groups.sort_by(|one, next| one.hosts.cmp(&next.hosts)));
    groups
}

/// A task that has started.
struct Started {
    /// Name as shown.
    name: String,
    place: String,
    /// Whether the task runs in check mode.
    check: bool,
}

/// Listens to a check run.
pub struct Collector {
    collected: Collected,
    play: String,
    /// Tasks of the play that have started, by id.
    tasks: HashMap<u64, Started>,
    /// Items of running loops, by host and task.
    items: HashMap<(Arc<str>, u64), Vec<Part>>,
}

impl Collector {
    /// Collects into this.
    pub fn new(collected: &Collected) -> Collector {
        Collector { collected: collected.clone(), play: String::new(), tasks: HashMap::new(), items: HashMap::new() }
    }

    fn result(&mut self, event: &ResultEvent<Shown>, masked: &Masked) {
        let status = status_of(event);
        let arguments = || masked.arguments_of_change(event);
        let part = details::part(event, status, arguments);
        let key = (Arc::clone(&event.name), event.task.id);
        if event.item.is_some() {
            self.items.entry(key).or_default().push(part);
            return;
        }
        let items = self.items.remove(&key).unwrap_or_default();
        let worst = items.iter().map(|item| item.status).min_by_key(|status| severity(*status));
        // A loop can fail although failures of its items are ignored, or before its first item.
        let status = if status == Status::Failed { status } else { worst.unwrap_or(status) };
        let mut parts: Vec<Part> = if items.is_empty() { vec![part] } else { items };
        parts.retain(|part| !matches!(part.status, Status::Unchanged | Status::NotRun | Status::Skipped));
        let started = self.tasks.get(&event.task.id);
        self.collected.add(Planned {
            play: self.play.clone(),
            task: started.map_or_else(|| masked.label_of(&event.task), |started| started.name.clone()),
            place: crate::output::place(&event.task.span).unwrap_or_default(),
            action: event.task.action.clone(),
            hosts: vec![event.name.to_string()],
            status,
            ran: started.is_some_and(|started| !started.check),
            notifies: notifies(&event.task).iter().map(|name| masked.mask(name)).collect(),
            parts,
        });
    }
}

impl Output for Collector {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlayStart { name, .. } => {
                self.play.clone_from(name);
                self.tasks.clear();
                self.items.clear();
            }
            Event::TaskStart { task, name, check, .. } => {
                let place = crate::output::place(&task.span).unwrap_or_default();
                self.collected.0.lock().unwrap_or_else(PoisonError::into_inner).last = Some(name.trim().to_owned());
                self.tasks.insert(task.id, Started { name: name.trim().to_owned(), place, check: *check });
            }
            Event::Result(result) => self.result(result, event),
            Event::Rescued { host, task } => {
                if let Some(started) = self.tasks.get(task) {
                    self.collected.rescued(host, &started.place);
                }
            }
            _ => {}
        }
    }
}

/// Expectation of a result.
fn status_of(event: &ResultEvent<Shown>) -> Status {
    match event.status {
        Outcome::Failed { ignored: false } | Outcome::Unreachable { ignored: false } => Status::Failed,
        // Tasks that need the result of this one are counted as unknown themselves.
        _ if event.result.unknown() == Some(Unknown::NotRun) && changes_no_host(&event.task) => Status::NotRun,
        _ if event.result.unknown().is_some() => Status::Unknown,
        Outcome::Skipped => Status::Skipped,
        _ if event.result.changed() => Status::Change,
        _ => Status::Unchanged,
    }
}

fn changes_no_host(task: &Task) -> bool {
    task.changes_nothing() || task.short_action() == "pause"
}

/// Order of statuses, worst first.
fn severity(status: Status) -> u8 {
    match status {
        Status::Failed => 0,
        Status::Unknown => 1,
        Status::Change => 2,
        Status::NotRun => 3,
        Status::Unchanged => 4,
        Status::Skipped => 5,
    }
}

/// Names in a task's own `notify`, as written.
fn notifies(task: &Task) -> Vec<String> {
    task.keywords.list("notify").iter().filter_map(|name| name.scalar_text()).collect()
}
