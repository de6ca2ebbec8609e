//! Starts an ordinary task on its hosts, and applies the results.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass_template::Context;

use super::execute::TaskOnHost;
use super::parallel::Beside;
use super::play::{Batch, Gone};
use super::shard::ShardStep;
use super::store::Store;
use crate::builtin;
use crate::error::{Error, Result, did_you_mean};
use crate::outcome::{HostOutcome, truth};
use crate::output::{Event, held_events};
use crate::playbook::{Task, label};
use crate::vars::{given, number};

/// A started task.
pub(super) struct Started {
    pub(super) task: Arc<Task>,
    /// One host runs it for all, including hosts at other places in the play.
    pub(super) once: bool,
    /// The action itself runs once, without `run_once`; its effects then belong to that host alone.
    by_nature: bool,
    /// Hosts whose outcome comes from the resumed run, with its place among the records.
    pub(super) replayed: HashMap<Arc<str>, usize>,
}

impl Batch {
    /// Starts a task on hosts, at most `forks` and `throttle` at a time.
    pub(super) async fn start(
        &mut self,
        task: &Arc<Task>,
        hosts: &[Arc<str>],
        running: &mut JoinSet<HostOutcome>,
    ) -> Result<Started> {
        let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
        let once = self.runs_once(task, context.as_ref())?;
        let by_nature = once && !self.is_told_once(task, context.as_ref())?;
        let on: &[Arc<str>] = if once { hosts.get(..1).unwrap_or_default() } else { hosts };
        let name = label::of_task(task, context.as_ref());
        let recorded = self.recorded(task, on, once);
        let step = self.begin_step(task, on).await;
        let begun = step.as_ref().map(|_| self.begun_at(task, on)).unwrap_or_default();
        let mut replayed = HashMap::new();
        if recorded.iter().any(|recorded| recorded.outcome.is_none()) {
            self.report_resumed();
            self.announce(task, name.clone());
        }
        // Under `free`, `throttle` was applied before this point.
        let throttle = if self.strategy.is_free() { None } else { self.throttle(task, context.as_ref())? };
        let throttle = throttle.map(|count| Arc::new(Semaphore::new(count)));
        let beside = self.beside(task, throttle.as_ref());
        let mut ordered = Vec::new();
        for (host, recorded) in on.iter().zip(recorded) {
            if let Some((outcome, place)) = recorded.outcome {
                replayed.insert(Arc::clone(host), place);
                step.iter().for_each(|step| step.share(&outcome));
                running.spawn(std::future::ready(outcome));
                continue;
            }
            let mut work = TaskOnHost::new(&self.shared, &self.world, task, host);
            work.flight = step.as_ref().map(|step| Arc::new(self.flight(task, host, (step, begun))));
            work.place = recorded.place;
            work.handlers = Some(Arc::clone(&self.handlers));
            work.beside = beside.clone();
            if builtin::is_immediate(task.short_action()) {
                // Immediate actions wait for nothing, so their results can be reported in the order of the hosts.
                let (sender, receiver) = held_events();
                work.events = sender;
                ordered.push(receiver);
            }
            let started = host_start(task, host, name.clone());
            if let Some(ShardStep::Worker(link, step)) = &step {
                // The lead counts forks and throttles.
                running.spawn(Box::pin(work.follow(Arc::clone(link), *step)));
                continue;
            }
            // Both semaphores stay open until the program ends.
            let throttled = match &throttle {
                Some(semaphore) => Arc::clone(semaphore).acquire_owned().await.ok(),
                None => None,
            };
            let fork = Arc::clone(&self.shared.forks).acquire_owned().await.ok();
            let alone = !once && step.is_none() && !self.is_replaying(host);
            let entry = if alone { self.sent_ahead(task, host, work.place.as_ref()).await } else { None };
            let step = step.clone();
            // Boxed because the future of a task is large and the runtime moves it several times.
            running.spawn(Box::pin(async move {
                // A paused reader of the output must hold tasks up before they start.
                work.events.room().await;
                let _ = work.events.send(started);
                let outcome = match (entry, step) {
                    (Some(entry), _) => Box::pin(work.conclude(entry)).await,
                    (None, Some(ShardStep::Lead(hub, step))) => Box::pin(work.led(hub, step)).await,
                    (None, _) => work.run().await,
                };
                drop((throttled, fork));
                outcome
            }));
        }
        for mut receiver in ordered {
            while let Some(event) = receiver.recv().await {
                self.shared.events.room().await;
                let _ = self.shared.events.send(event);
            }
        }
        Ok(Started { task: Arc::clone(task), once, by_nature, replayed })
    }

    /// Limits on items that run in parallel.
    fn beside(&self, task: &Arc<Task>, throttle: Option<&Arc<Semaphore>>) -> Beside {
        // Under `free`, hosts at other places in the play also use the throttle, and nothing counts their share.
        match self.strategy.is_free() && task.keyword("throttle").is_some() {
            true => Beside::Nothing,
            false => Beside::Counted { throttle: throttle.cloned() },
        }
    }

    /// Waits for the next host that is done.
    pub(super) async fn next_outcome(&self, running: &mut JoinSet<HostOutcome>) -> Result<Option<HostOutcome>> {
        match running.join_next().await {
            None => Ok(None),
            Some(Ok(outcome)) => Ok(Some(outcome)),
            Some(Err(error)) => Err(Error::new(format!("a task could not be run to its end: {error}"))),
        }
    }

    /// Applies the results of a task.
    pub(super) async fn finish(&mut self, started: &Started, outcomes: Vec<HostOutcome>) -> Result<()> {
        let task = &started.task;
        let mut outcomes = outcomes;
        // Results arrive as hosts finish; applying them in the order of the hosts makes runs repeatable.
        outcomes.sort_by_cached_key(|outcome| self.hosts.get_index_of(&outcome.host));
        let outcomes = self.debugged(started, outcomes).await?;
        self.compare_resumed()?;
        let mut world = self.world.successor();
        let store = Store { shared: &Arc::clone(&self.shared), before: &Arc::clone(&self.world) };
        let mut changed = HashSet::new();
        for outcome in &outcomes {
            if outcome.stopped {
                self.abandon(outcome);
            }
            let before = self.stats.get(&outcome.host).map_or(0, |stats| stats.changed);
            self.count(task, outcome);
            // The resumed run counted this change already.
            if let Some(stats) =
                self.stats.get_mut(&outcome.host).filter(|_| started.replayed.contains_key(&outcome.host))
            {
                stats.changed = before;
            }
            let is_for_all = started.once && !started.by_nature;
            let receivers = if is_for_all { self.reachable() } else { vec![Arc::clone(&outcome.host)] };
            for host in &receivers {
                store.store(task, outcome, host, &mut world)?;
            }
            // Delegated tasks may have changed facts of the other host.
            let delegates = outcome.parts.iter().filter_map(|(_, delegate)| delegate.as_deref());
            changed.extend(delegates.map(Arc::from).chain(receivers));
        }
        let has_grown = !Arc::ptr_eq(&world.inventory, &self.world.inventory);
        self.world = Arc::new(world);
        self.find_vars_files(|host| has_grown || changed.contains(host))?;
        for outcome in &outcomes {
            self.notify(started, outcome)?;
            self.handler_done(task, outcome, started.once, started.replayed.contains_key(&outcome.host));
            self.follow(task, outcome);
        }
        if let Some(outcome) = outcomes.first().filter(|_| started.once && self.step_failed) {
            self.fail_all_but(task, &outcome.host);
        }
        Ok(())
    }

    /// Hosts of the batch that receive the effects of a task run once for all, wherever they are in the play.
    fn reachable(&self) -> Vec<Arc<str>> {
        let lost = |name: &&Arc<str>| self.removed.get(*name) == Some(&Gone::Unreachable);
        self.hosts.keys().filter(|name| !lost(name)).cloned().collect()
    }

    /// Maximum number of hosts that run the task at the same time; `None` without `throttle`.
    pub(super) fn throttle(&self, task: &Arc<Task>, context: Option<&Context>) -> Result<Option<usize>> {
        let (Some(node), Some(context)) = (task.keyword("throttle"), context) else { return Ok(None) };
        let value = given(context, node).map_err(|error| Error::parse(error.report(), &node.span).generic())?;
        let Some(value) = value else { return Ok(None) };
        match number(&value) {
            Some(0) => Ok(None),
            Some(count) => Ok(usize::try_from(count).ok()),
            None => {
                Err(Error::parse(format!("Failed to convert the throttle value to an integer: {value}"), &node.span)
                    .generic())
            }
        }
    }

    /// Evaluates `run_once`.
    fn is_told_once(&self, task: &Arc<Task>, context: Option<&Context>) -> Result<bool> {
        let (Some(node), Some(context)) = (task.keyword("run_once"), context) else { return Ok(false) };
        let value = given(context, node).map_err(|error| Error::parse(error.report(), &node.span).generic())?;
        Ok(value.is_some_and(|value| truth(&value)))
    }

    /// Whether one host runs the task for all.
    pub(super) fn runs_once(&self, task: &Arc<Task>, context: Option<&Context>) -> Result<bool> {
        let by_nature = builtin::runs_once(task.short_action());
        let once = self.is_told_once(task, context)?;
        if !self.strategy.is_free() {
            return Ok(once || by_nature);
        }
        if by_nature {
            let message = format!(
                "The '{}' module bypasses the host loop, which is currently not supported in the free strategy and would instead execute for every host in the inventory list.",
                task.action
            );
            return Err(Error::parse(message, &task.span).generic());
        }
        if once {
            self.shared.warn(format!(
                "run_once has no effect under the strategy of this play: every host runs the task itself ({})",
                task.span
            ));
        }
        Ok(false)
    }

    /// Reports that a task starts.
    pub(super) fn announce(&self, task: &Arc<Task>, name: String) {
        let check = match task.keyword("check_mode") {
            None => self.shared.run.settings.check,
            Some(node) => node.as_bool().unwrap_or(self.shared.run.settings.check),
        };
        let _ = self.shared.events.send(Event::TaskStart {
            task: Arc::clone(task),
            name,
            check,
            lazy: self.strategy.is_free(),
        });
    }

    /// Records the handlers a result notifies. They are looked up when flushed, because roles included until then may
    /// add more.
    fn notify(&mut self, Started { task, replayed, .. }: &Started, outcome: &HostOutcome) -> Result<()> {
        let place = replayed.get(&outcome.host).copied();
        if !outcome.notify.is_empty() {
            self.handlers.unusable().for_each(|sentence| self.shared.warn(sentence));
        }
        for name in &outcome.notify {
            let found: Vec<Arc<Task>> = self.handlers.find(name).into_iter().cloned().collect();
            if found.is_empty() {
                if let Some(recorder) = self.shared.recorder() {
                    recorder.unknown(&self.key, name);
                }
                let hint = did_you_mean(name, self.handlers.known());
                let message = format!(
                    "The requested handler '{name}' was not found in either the main handlers list nor in the listening handlers list"
                );
                if self.shared.run.settings.error_on_missing_handler {
                    return Err(Error::parse(message, &task.span).maybe_hint(hint).of_handler());
                }
                self.shared.warn(message);
            }
            if let Some(run) = self.hosts.get_mut(&outcome.host) {
                if !run.cursor.is_in_handlers() {
                    run.notify(name.clone(), place);
                    continue;
                }
                if !found.is_empty() {
                    let ids = found.iter().map(|handler| handler.id);
                    run.flushing.entry(name.clone()).or_default().extend(ids);
                }
                for handler in found.iter().filter(|handler| run.select(handler.id, place)) {
                    super::meta::notified(&self.shared, handler, &outcome.host);
                }
            }
        }
        Ok(())
    }
}

/// Event that reports the start of a task on a host.
pub(super) fn host_start(task: &Arc<Task>, host: &Arc<str>, name: String) -> Event {
    Event::HostStart { host: Arc::clone(host), name, handler: task.handler, task: Arc::clone(task) }
}
