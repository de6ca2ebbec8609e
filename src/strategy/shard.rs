//! Tasks of a run in several processes: the lead assigns tasks to workers, and all processes apply the outcomes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use windlass_template::is_exact;

use super::display::{Part, Shown};
use super::execute::{TaskOnHost, Whole};
use super::play::Batch;
use crate::builtin;
use crate::connection::Kind;
use crate::executor::{Sender, TaskFlight};
use crate::foreign::Resolution;
use crate::journal::{At, SentBefore};
use crate::outcome::kept::{self, Counted};
use crate::outcome::{Effect, FactNames, HostOutcome, Size, TaskResult};
use crate::output::{Event, EventQueue, held_events};
use crate::playbook::{Task, label};
use crate::shards::{Hub, Left, Link, Order, SentEvent, SentOutcome, SentResult, Shards, Slot, ToLead};

/// A task that starts in all processes.
#[derive(Clone)]
pub(super) enum ShardStep {
    Lead(Arc<Hub>, u64),
    Worker(Arc<Link>, u64),
}

/// Reports the events of a task in this process to the other processes.
pub(super) enum Reporter {
    Lead(Arc<Hub>, Slot),
    Worker { link: Arc<Link>, slot: Slot, outcome: Mutex<Option<SentOutcome>> },
}

impl Batch {
    /// Starts a task in all processes, if there are several.
    pub(super) async fn begin_step(&self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Option<ShardStep> {
        Some(match self.shared.shards.get()? {
            Shards::Lead(hub) => ShardStep::Lead(Arc::clone(hub), hub.step(&label::with_position(task), hosts).await),
            Shards::Worker(link) => {
                ShardStep::Worker(Arc::clone(link), link.step(&label::with_position(task), hosts).await)
            }
        })
    }

    /// Counts that a task begins at its place, which handlers may reach again.
    pub(super) fn begun_at(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> u32 {
        let first = hosts.first().and_then(|host| self.hosts.get(host)?.at.as_ref());
        let Some(at) = first.map(|position| self.at(task, position)) else { return 0 };
        let count = self.begun.entry(at).or_default();
        *count += 1;
        *count
    }

    /// Identity of a task on a host, which is the same in all processes and after a resume.
    pub(super) fn flight(&self, task: &Arc<Task>, host: &Arc<str>, (step, begun): (&ShardStep, u32)) -> TaskFlight {
        let (ShardStep::Lead(_, step) | ShardStep::Worker(_, step)) = step;
        let at = self.hosts.get(host).and_then(|run| run.at.as_ref()).map(|position| self.at(task, position));
        let place = match &at {
            Some(At { play, batch, path, task }) => format!("{begun}\n{play}\n{batch}\n{path}\n{task}\n{host}"),
            None => format!("{step}\n{host}"),
        };
        let sent = self.shared.recorder().zip(at).and_then(|(recorder, at)| recorder.sent_before(&at, host));
        let former = match sent {
            Some(SentBefore::Unknown { since, repeats }) => Some(Sender { shard: None, since, repeats }),
            _ => None,
        };
        TaskFlight { place, step: *step, former, again: matches!(sent, Some(SentBefore::Known)) }
    }
}

impl ShardStep {
    /// Sends the workers an outcome that the lead has from the resumed run.
    pub(super) fn share(&self, outcome: &HostOutcome) {
        if let ShardStep::Lead(hub, step) = self {
            let looped = outcome.result.get("results").is_some() || outcome.parts.len() != 1;
            let slot = Slot { step: *step, host: Arc::clone(&outcome.host) };
            hub.share(slot, || SentOutcome::of(outcome, looped, true));
        }
    }
}

impl Reporter {
    /// Passes on the result of an item.
    pub(super) fn item(&self, index: usize, (result, delegate): &(TaskResult, Option<String>), no_log: bool) {
        if let Reporter::Worker { link, slot, .. } = self {
            let (slot, result, is_delegated) = (slot.clone(), Box::new(SentResult::of(result)), delegate.is_some());
            link.send(ToLead::Item { slot, index, result, is_delegated, no_log });
        }
    }

    /// Sends the outcome to the other processes. A worker sends it after the task's earlier events.
    pub(super) fn done(&self, done: &HostOutcome, looped: bool, no_log: bool) {
        let sent = || SentOutcome::of(done, looped, no_log);
        match self {
            Reporter::Lead(hub, slot) => hub.share(slot.clone(), sent),
            Reporter::Worker { outcome, .. } => {
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent());
            }
        }
    }
}

impl TaskOnHost {
    /// Runs the task, or has a worker run it.
    pub(super) async fn led(mut self, hub: Arc<Hub>, step: u64) -> HostOutcome {
        let slot = Slot { step, host: Arc::clone(&self.host) };
        self.reporter = Some(Arc::new(Reporter::Lead(Arc::clone(&hub), slot.clone())));
        let former = self.flight.as_ref().and_then(|flight| flight.former);
        if former.is_some_and(|former| !former.repeats) && !self.is_kept_by_hosts() {
            self.begin();
            return self.lost("the run was stopped");
        }
        // Only the lead knows the items that the resumed run completed, and counts the items that run in parallel.
        let is_for_lead = self.is_of_lead()
            || self.is_resumed_loop()
            || self.task.has_parallel_items()
            || self.flight.as_ref().is_some_and(|flight| flight.former.is_some() || flight.again)
            || (hub.is_spread() && self.may_use_control_machine());
        let Some(worker) = hub.worker_of(&self.host).filter(|_| !is_for_lead) else {
            return self.run_in_lead(&hub).await;
        };
        let last = self.record_sent(&self.scope(), None);
        let Some(mut given) = hub.give(&slot, worker) else { return self.run_in_lead(&hub).await };
        self.begin();
        let mut items = 0;
        let since = SystemTime::now();
        while let Some(message) = given.messages.recv().await {
            match message {
                ToLead::Done(_, outcome) => return self.taken_over(Arc::unwrap_or_clone(outcome), last).await,
                message => self.relay(message, &mut items),
            }
            self.events.room().await;
        }
        match given.left.await {
            Ok(Left::NotRun) => self.run_in_lead(&hub).await,
            Ok(Left::Lost(_)) if self.is_kept_by_hosts() => {
                let sender = Sender { shard: Some(given.successor), since, repeats: false };
                self.flight = self.flight.map(|task| Arc::new(TaskFlight { former: Some(sender), ..(*task).clone() }));
                self.reported = items;
                self.run_in_lead(&hub).await
            }
            Ok(Left::Lost(reason)) => self.lost(&reason),
            Err(_) => self.lost("it ended"),
        }
    }

    /// Whether all that the task does on hosts are requests of executors, which keep their results. Commands without
    /// an executor, jobs, and action plugins do more.
    fn is_kept_by_hosts(&self) -> bool {
        let resolution = self.shared.loader.modules.resolve(&self.task.action, &self.task.collections());
        let has_plugin = matches!(resolution, Resolution::Foreign(module) if module.action.is_some());
        !matches!(self.task.short_action(), "raw" | "reboot" | "synchronize")
            && self.task.keyword("async").is_none()
            && !has_plugin
    }

    /// Whether only the lead runs the task: the task may change the run itself, or its host and handlers depend on
    /// templates. So nothing that a worker reports decides about these.
    fn is_of_lead(&self) -> bool {
        let delegate = self.task.keyword("delegate_to");
        builtin::is_here(self.task.short_action())
            || delegate.is_some_and(|node| node.as_str().is_none_or(is_template))
            || self.has_templates_to_notify()
    }

    /// Whether the task may leave something on the control machine, which is the lead's if workers are elsewhere.
    fn may_use_control_machine(&self) -> bool {
        if matches!(self.task.short_action(), "fetch" | "synchronize") {
            return true;
        }
        let (context, delegate) = (self.scope(), self.delegate());
        let connection = self.placement().connection(&context, delegate.as_deref());
        connection.is_ok_and(|connection| connection.target.kind == Kind::Local)
    }

    /// Host that a task without templates there is delegated to.
    fn delegate(&self) -> Option<String> {
        self.task.keyword("delegate_to")?;
        self.placement().delegate(&self.scope()).ok().flatten()
    }

    /// Drops effects that the action cannot have on this host. A compromised worker may send any.
    fn limit(&self, result: &mut TaskResult) {
        result.retain_effects(|effect| match effect {
            Effect::Facts(facts) => {
                facts.limit(self.names_of_facts());
                true
            }
            Effect::Python { kind, user, .. } => {
                let connection = self.placement().connection(&self.scope(), self.delegate().as_deref());
                connection.is_ok_and(|own| own.target.kind == *kind && own.become_user.map(|own| own.user) == *user)
            }
            Effect::SetFacts(_) | Effect::IncludedVars(_) | Effect::Inventory(_) | Effect::Stats(_) => false,
        });
    }

    /// Names of facts that the task's module may report.
    fn names_of_facts(&self) -> FactNames {
        let resolution = || self.shared.loader.modules.resolve(&self.task.action, &self.task.collections());
        match self.task.short_action() {
            "gather_facts" => FactNames::of_module("setup"),
            _ if matches!(resolution(), Resolution::Native) => FactNames::of_module(&self.task.action),
            _ => FactNames::Any,
        }
    }

    /// Prints and records what a worker reports about the task. `items` is the number of the next item.
    fn relay(&self, message: ToLead, items: &mut usize) {
        match message {
            ToLead::Event(_, event) => {
                let label = self.display().label(self.delegate().as_deref());
                let event = event.received(&self.task, &self.host, &label);
                event.into_iter().for_each(|event| drop(self.events.send(event)));
            }
            ToLead::Item { index, result, is_delegated, no_log, .. } if index >= *items => {
                *items = index.saturating_add(1);
                let mut result = result.received();
                self.limit(&mut result);
                let delegate = self.delegate().filter(|_| is_delegated);
                self.record_item(index, &(result, delegate), no_log);
            }
            _ => {}
        }
    }

    async fn run_in_lead(self, hub: &Hub) -> HostOutcome {
        let task = Arc::clone(&self.task);
        let outcome = self.run().await;
        if is_inexact(&task, &outcome) {
            hub.leave_all_out();
        }
        outcome
    }

    /// Takes over an outcome of a worker: prints and records it.
    async fn taken_over(self, sent: SentOutcome, line: Option<u64>) -> HostOutcome {
        let (looped, no_log) = (sent.is_looped(), sent.no_log);
        let mut outcome = self.received(sent);
        let result = Ok(outcome.result.clone());
        self.await_record(line, &result).await;
        let delegate = outcome.parts.first().and_then(|(_, delegate)| delegate.as_deref()).filter(|_| !looped);
        let shown = Shown { part: Part::whole(looped), delegate, ignored: outcome.ignored, no_log };
        self.display().show(&outcome.result, shown);
        self.record_outcome(&outcome, looped, no_log);
        self.free(&mut outcome);
        outcome
    }

    /// An outcome of another process, as if this one had run the task. That one has decided whether there is room for
    /// the result. Everything but the result itself comes from this process's own task.
    fn received(&self, mut sent: SentOutcome) -> HostOutcome {
        let is_of_lead = self.is_of_lead();
        let limit = |result: &mut TaskResult| {
            if !is_of_lead {
                self.limit(result)
            }
        };
        let mut of_items: Option<Counted> = None;
        let (mut result, mut parts) = sent.results(limit, |item| {
            let more = of_items.as_ref().map(Counted::size).unwrap_or_default();
            if let Ok(counted) = self.admit(item, true, more) {
                of_items = Some(counted.and(of_items.take()));
            }
            if item.is_on_disk() {
                kept::shed(item);
            }
        });
        let is_kept = self.has_reader(&result);
        let counted = self.admit(&mut result, is_kept, Size::default()).ok();
        let SentOutcome { ignored, mut notify, .. } = sent;
        if !is_of_lead {
            let delegate = self.delegate();
            parts.iter_mut().for_each(|(_, to)| *to = to.take().and(delegate.clone()));
            let notifies = result.changed() && !result.failed();
            notify = if notifies { self.expected_notifications(&self.scope()) } else { Vec::new() };
        }
        let delegate_facts =
            self.task.keyword("delegate_facts").is_some() && self.judge().holds(&self.scope(), "delegate_facts");
        let (host, action) = (Arc::clone(&self.host), self.task.short_action().to_owned());
        HostOutcome { host, result, ignored, parts, notify, delegate_facts, action, stopped: false, _counted: counted }
    }

    /// Outcome of a task whose worker is lost.
    fn lost(self, reason: &str) -> HostOutcome {
        let message = format!(
            "The process that ran this task was lost: {reason}. It is unknown whether the task ran on {}.",
            self.host
        );
        let result = TaskResult::new().with("changed", false).with("unreachable", true).with("msg", message);
        let result = result.interrupted();
        let parts = vec![(result.clone(), None)];
        self.finished(&self.scope(), Whole { parts, ..Whole::of(result) })
    }

    /// Follows the lead: runs the task if the lead wants it, or takes over its outcome.
    pub(super) async fn follow(mut self, link: Arc<Link>, step: u64) -> HostOutcome {
        let slot = Slot { step, host: Arc::clone(&self.host) };
        if let Order::Take(outcome) = link.order(&slot).await {
            let mut outcome = self.received(Arc::unwrap_or_clone(outcome));
            self.free(&mut outcome);
            return outcome;
        }
        link.begin();
        let (events, queue) = held_events();
        let outcome = Mutex::default();
        let reporter = Arc::new(Reporter::Worker { link: Arc::clone(&link), slot: slot.clone(), outcome });
        self.events = events.clone();
        self.reporter = Some(Arc::clone(&reporter));
        let passing = tokio::spawn(pass(queue, Arc::clone(&link), slot.clone()));
        let outcome = self.run().await;
        let _ = events.send(Event::End);
        let _ = passing.await;
        if let Reporter::Worker { outcome: sent, .. } = &*reporter
            && let Some(sent) = sent.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            link.done(slot, sent);
        }
        outcome
    }
}

/// Whether a text has to be rendered.
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Whether tasks can read a value made by the controller that would change on its way to another process. Answers of
/// hosts have none.
fn is_inexact(task: &Task, outcome: &HostOutcome) -> bool {
    let of_facts = |effect: &Effect| match effect {
        Effect::SetFacts(set) => set.vars.iter().all(|(_, value)| is_exact(value)),
        _ => true,
    };
    let is_fine = |result: &TaskResult| {
        result.effects().iter().all(of_facts)
            && (task.register.is_none() || result.registered().all(|(_, value)| is_exact(value)))
    };
    builtin::is_immediate(task.short_action()) && !outcome.parts.iter().all(|(part, _)| is_fine(part))
}

/// Passes the events of a task to the lead, up to [`Event::End`].
async fn pass(mut queue: EventQueue, link: Arc<Link>, slot: Slot) {
    while let Some(event) = queue.recv().await {
        match event {
            Event::End => return,
            event => {
                if let Some(event) = SentEvent::of(event) {
                    link.send(ToLead::Event(slot.clone(), Box::new(event)));
                }
            }
        }
    }
}
