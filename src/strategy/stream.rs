//! Tasks sent ahead: a host receives its next tasks before it has answered the first, if they do not depend on its
//! answers.
//!
//! Such a task runs in two halves. The first half runs up to the host's answer, with the variables known when the
//! window opens. A task that reads a variable set by an earlier one is not sent (see [`Ahead`]). The second half
//! evaluates the answer in the task's turn, as if it had been sent then. A task whose second half can fail by itself
//! ends its window.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windlass_template::Dependencies;
use windlass_yaml::Node;

use super::execute::{Shared, TaskOnHost};
use super::one_item::Acted;
use super::play::{Batch, Strategy};
use crate::action::{Ahead, Lane, departed};
use crate::builtin;
use crate::executor::Departure;
use crate::foreign::Resolution;
use crate::journal::Place;
use crate::outcome::{HostOutcome, TaskResult};
use crate::output::{EventQueue, held_events};
use crate::plan::{Selection, Step};
use crate::playbook::{Task, label};

/// Maximum number of a host's tasks under way at the same time.
const WINDOW: usize = 32;

/// Keywords of tasks that wait for each answer.
const WAITS: &[&str] = &[
    "async",
    "debugger",
    "delegate_to",
    "ignore_unreachable",
    "loop",
    "retries",
    "run_once",
    "throttle",
    "timeout",
    "until",
];

/// Variables that other hosts may change at any time, and variables that contain all others.
const ALWAYS_PENDING: &[&str] =
    &[windlass_template::OUTSIDE, "ansible_play_batch", "ansible_play_hosts", "hostvars", "play_hosts", "vars"];

/// Tasks of a host under way before their turn, in order.
pub(super) struct Window {
    entries: VecDeque<Entry>,
    driver: AbortHandle,
}

impl Window {
    /// Place of a task that was sent ahead and whose turn it is.
    pub(super) fn place_of(&self, task: u64) -> Option<Arc<Place>> {
        self.entries.front().filter(|entry| entry.task.id == task)?.place.clone()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A task that was sent ahead.
pub(super) struct Entry {
    task: Arc<Task>,
    ahead: Arc<Ahead>,
    outcome: oneshot::Receiver<Option<Acted>>,
    /// Events of the first half, to be reported in the task's turn.
    events: EventQueue,
    place: Option<Arc<Place>>,
}

/// The sending side of an [`Entry`].
struct Flight {
    work: TaskOnHost,
    ahead: Arc<Ahead>,
    outcome: oneshot::Sender<Option<Acted>>,
}

impl Flight {
    async fn run(self) {
        let Flight { work, ahead, outcome } = self;
        let acted = ahead.watch(async {
            let acted = work.act(&ahead).await;
            // A task that fails before it is sent will fail again in its turn, so nothing may be sent behind it.
            if acted.is_failure() {
                ahead.settle(Departure::Refused);
            }
            acted
        });
        let acted = acted.await;
        // Dropping `work` closes the channel of events.
        drop(work);
        let _ = outcome.send(acted);
    }
}

/// Sends tasks while they need not wait.
async fn drive(flights: Vec<Flight>) {
    let mut waiting = flights.into_iter();
    let mut under_way = FuturesUnordered::new();
    let mut departing: Option<Arc<Ahead>> = None;
    loop {
        if departing.is_none()
            && let Some(flight) = waiting.next()
        {
            departing = Some(Arc::clone(&flight.ahead));
            under_way.push(flight.run());
        }
        tokio::select! {
            biased;
            left = departed(departing.as_deref()), if departing.is_some() => {
                departing = None;
                if !left {
                    waiting.by_ref().for_each(|flight| flight.ahead.refuse());
                }
            }
            done = under_way.next() => if done.is_none() { return },
        }
    }
}

impl Batch {
    /// Returns the entry of a task that was sent ahead to a host. If none was, tries to send this task with others
    /// behind it. `place` is the task's own in the journal: if it has to wait after all, it is announced there already.
    pub(super) async fn sent_ahead(
        &mut self,
        task: &Arc<Task>,
        host: &Arc<str>,
        place: Option<&Arc<Place>>,
    ) -> Option<Entry> {
        if let Some(window) = self.windows.get_mut(host) {
            if let Some(entry) = window.entries.pop_front().filter(|entry| entry.task.id == task.id)
                && entry.ahead.has_left().await
            {
                return Some(entry);
            }
            self.windows.remove(host);
        }
        let mut window = self.open(task, host, place)?;
        let first = window.entries.pop_front()?;
        if !first.ahead.has_left().await {
            return None;
        }
        self.windows.insert(Arc::clone(host), window);
        Some(first)
    }

    /// Drops tasks sent behind a failed one; the executor does not run them.
    pub(super) fn abandon(&mut self, failed: &HostOutcome) {
        let Some(window) = self.windows.remove(&failed.host) else { return };
        if failed.result.is_unreachable() {
            let sent = window.entries.iter().filter(|entry| entry.ahead.is_sent());
            let names: Vec<String> = sent.map(|entry| label::with_position(&entry.task)).collect();
            if !names.is_empty() {
                let (host, names) = (&failed.host, names.join(", "));
                self.shared.warn(format!(
                    "{host} gave no answer to tasks that were sent together. These came later and may have run too: {names}"
                ));
            }
        } else if let Some(recorder) = self.shared.recorder() {
            let places = window.entries.iter().filter_map(|entry| entry.place.as_ref());
            places.for_each(|place| recorder.not_run(place, &failed.host));
        }
    }

    /// Starts sending a task and its successors. Returns `None` if nothing can follow it.
    fn open(&self, task: &Arc<Task>, host: &Arc<str>, place: Option<&Arc<Place>>) -> Option<Window> {
        let settings = &self.shared.run.settings;
        let wanted = settings.stream
            && settings.task_timeout == 0
            && !settings.task_debugger
            && !self.step
            && self.strategy != Strategy::Debug
            && !self.play.has_templated_files();
        if !wanted || !self.is_by_itself(host) || !self.shared.is_one_request(task) || !self.may_go_ahead(task) {
            return None;
        }
        let tasks = self.following(task, host);
        if tasks.len() < 2 {
            return None;
        }
        let lane = Lane::new();
        // Nothing precedes the first task.
        let mut pending = Dependencies::default();
        let (mut entries, mut flights) = (VecDeque::new(), Vec::new());
        for (step, Step { task, position }) in (0..).zip(&tasks) {
            let place = if step == 0 { place.cloned() } else { self.place_at(task, host, position, false) };
            let ahead = lane.ahead(pending.clone(), step);
            let (sender, events) = held_events();
            let (answer, outcome) = oneshot::channel();
            let mut work = TaskOnHost::new(&self.shared, &self.world, task, host);
            work.events = sender;
            work.place.clone_from(&place);
            work.handlers = Some(Arc::clone(&self.handlers));
            entries.push_back(Entry { task: Arc::clone(task), ahead: Arc::clone(&ahead), outcome, events, place });
            flights.push(Flight { work, ahead, outcome: answer });
            if step == 0 {
                pending.extend(ALWAYS_PENDING.iter().map(|name| Arc::from(*name)));
            }
            pending.extend(task.register.iter().cloned());
            if builtin::sets_arguments(task.short_action()) {
                pending.extend(task.args.string_entries().map(|(name, _)| Arc::from(name)));
                pending.insert(Arc::from("ansible_facts"));
            }
        }
        Some(Window { entries, driver: tokio::spawn(drive(flights)).abort_handle() })
    }

    /// The task and the successors that may be sent before it has answered.
    fn following(&self, task: &Arc<Task>, host: &Arc<str>) -> Vec<Step> {
        let Some(run) = self.hosts.get(host).filter(|run| !run.cursor.is_in_handlers()) else { return Vec::new() };
        let Some(position) = run.at.clone() else { return Vec::new() };
        let mut tasks = vec![Step { task: Arc::clone(task), position }];
        let mut cursor = run.cursor.forecast();
        let mut never = |_: &Arc<Task>| false;
        let mut last = self.ends_window(task);
        while !last && tasks.len() < WINDOW {
            let selection = &mut Selection { tags: &self.filter, take_notified: &mut never };
            let Some(step) = cursor.peek(selection) else { break };
            if !self.may_go_ahead(&step.task) {
                break;
            }
            cursor.advance();
            last = self.ends_window(&step.task);
            tasks.push(step);
        }
        tasks
    }

    /// Whether no other host can observe when this host runs its tasks.
    fn is_by_itself(&self, host: &Arc<str>) -> bool {
        if self.strategy.is_free() {
            return self.shared.run.settings.forks >= self.hosts.len();
        }
        self.hosts.iter().all(|(name, run)| name == host || run.out || run.ended)
    }

    /// Whether nothing but the variables a task reads can prevent sending it ahead.
    fn may_go_ahead(&self, task: &Arc<Task>) -> bool {
        let action = task.short_action();
        let is_literal = |node: &Node| node.as_str().is_none_or(|text| !text.contains("{{"));
        let does_nothing_else = match builtin::sets_arguments(action) {
            true => task.args_template.is_none() && task.args.iter().all(|(key, _)| is_literal(&key.as_node())),
            false => builtin::only_reports(action) || self.shared.is_one_request(task),
        };
        does_nothing_else
            && !task.handler
            && task.with_lookup.is_none()
            && !task.action.contains("{{")
            && !WAITS.iter().any(|name| task.keyword(name).is_some())
    }

    /// Whether a task can fail or end the run although its action succeeded.
    fn ends_window(&self, task: &Arc<Task>) -> bool {
        let is_fixed = |name: &str| task.keywords.list(name).iter().all(|node| node.as_bool().is_some());
        let failed_when = task.keywords.list("failed_when");
        let never_fails = failed_when.is_empty() || failed_when.iter().any(|node| node.as_bool() == Some(false));
        let is_known = |node: &Node| {
            node.as_str().is_some_and(|name| !name.contains("{{") && !self.handlers.find(name).is_empty())
        };
        let around = task.frame.chain().map(|frame| &frame.keywords);
        let mut notified = std::iter::once(&task.keywords).chain(around).flat_map(|keywords| keywords.list("notify"));
        !is_fixed("changed_when") || !is_fixed("failed_when") || !never_fails || !notified.all(|node| is_known(&node))
    }
}

impl TaskOnHost {
    /// Second half of a task that was sent ahead.
    pub(super) async fn conclude(self, entry: Entry) -> HostOutcome {
        self.begin();
        let Entry { outcome, mut events, .. } = entry;
        while let Some(event) = events.recv().await {
            self.events.room().await;
            let _ = self.events.send(event);
        }
        let acted = match outcome.await {
            // An earlier task had failed, and the failure was ignored.
            Ok(None) => return HostOutcome { stopped: true, ..self.run().await },
            Ok(Some(acted)) => acted,
            Err(_) => Acted::Done {
                result: TaskResult::failure("The task was sent ahead, and a bug in Windlass lost its answer."),
                check: false,
                args: None,
            },
        };
        let stopped = acted.is_failure();
        let context = self.scope();
        let outcome = self.judged(&context, acted);
        HostOutcome { stopped, ..self.alone(&context, outcome) }
    }
}

impl Shared {
    /// Whether a task is one request to a built-in module, so that others may be sent behind it.
    pub(super) fn is_one_request(&self, task: &Task) -> bool {
        builtin::is_one_request(task.short_action())
            && !builtin::sets_facts(task.short_action())
            && matches!(self.loader.modules.resolve(&task.action, &task.collections()), Resolution::Native)
    }
}
