//! The strategies `free` and `host_pinned`: every host proceeds without waiting for the others.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::execute::TaskOnHost;
use super::play::{Batch, Gone, Strategy};
use super::task::Started;
use crate::error::Result;
use crate::outcome::HostOutcome;
use crate::output::Event;
use crate::playbook::Task;

/// Progress of the batch's hosts.
#[derive(Default)]
struct UnderWay {
    running: JoinSet<HostOutcome>,
    tasks: HashMap<Arc<str>, (Arc<Task>, Started)>,
    /// Indexes of hosts that have not started.
    waiting: BTreeSet<usize>,
    /// Indexes of started hosts that may have a next task.
    ready: BTreeSet<usize>,
    /// Hosts that have started and not finished; `host_pinned` limits their number.
    begun: HashSet<Arc<str>>,
    /// Index after the host served last, so that hosts take turns.
    turn: usize,
}

impl UnderWay {
    /// Index of the next host with something to do.
    fn next(&self, may_begin: bool) -> Option<usize> {
        let first = |places: &BTreeSet<usize>| {
            places.range(self.turn..).next().or_else(|| places.range(..self.turn).next()).copied()
        };
        let new = if may_begin { first(&self.waiting) } else { None };
        first(&self.ready).into_iter().chain(new).min_by_key(|place| (*place < self.turn, *place))
    }
}

impl Batch {
    /// Runs the batch to its end, each host at its own pace.
    pub(super) async fn free(&mut self) -> Result<()> {
        if let Some(node) = self.play.frame.keywords.get("max_fail_percentage") {
            self.shared
                .warn(format!("max_fail_percentage has no effect under the strategy of this play ({})", node.span));
        }
        let mut under_way = UnderWay { waiting: (0..self.hosts.len()).collect(), ..UnderWay::default() };
        loop {
            if !self.end_play && !self.end_run {
                self.serve(&mut under_way).await?;
            }
            let Some(outcome) = self.next_outcome(&mut under_way.running).await? else { break };
            if let Some((_, started)) = under_way.tasks.remove(&outcome.host) {
                under_way.ready.extend(self.hosts.get_index_of(&outcome.host));
                self.finish(&started, vec![outcome]).await?;
            }
        }
        if let Some(error) = self.lost_journal().filter(|_| self.end_run) {
            return Err(error);
        }
        if self.hosts.keys().all(|host| self.removed.get(host) == Some(&Gone::Unreachable)) {
            let _ = self.shared.events.send(Event::NoHostsLeft);
        }
        Ok(())
    }

    /// Starts the next task of waiting hosts in turn, while forks are free.
    async fn serve(&mut self, under_way: &mut UnderWay) -> Result<()> {
        let forks = self.shared.run.settings.forks;
        let mut throttled = BTreeSet::new();
        while under_way.tasks.len() < forks {
            let may_begin = self.strategy != Strategy::HostPinned || under_way.begun.len() < forks;
            let Some(place) = under_way.next(may_begin) else { break };
            under_way.turn = place + 1;
            under_way.waiting.remove(&place);
            under_way.ready.remove(&place);
            let Some((host, run)) = self.hosts.get_index_mut(place) else { break };
            let host = Arc::clone(host);
            let next = run.peek(&self.filter).map(|step| Arc::clone(&step.task));
            self.settle_handlers_of(&host);
            let Some(task) = next else {
                under_way.begun.remove(&host);
                continue;
            };
            if self.lost_journal().is_some() {
                // Tasks on other hosts end first.
                self.end_run = true;
                break;
            }
            under_way.begun.insert(Arc::clone(&host));
            if self.is_throttled(&task, &host, under_way)? {
                throttled.insert(place);
                continue;
            }
            if let Some(run) = self.hosts.get_mut(&host) {
                run.advance();
            }
            self.update_play_hosts();
            let on = [Arc::clone(&host)];
            let removed = self.removed.len();
            match task.short_action() {
                "meta" => self.meta(&task, &on).await?,
                _ if !self.take_step(&task, Some(&*host)).await? => {}
                _ if task.is_include() => self.include(&task, &on)?,
                _ => {
                    self.warn_of_fatal(&task);
                    let started = self.start(&task, &on, &mut under_way.running).await?;
                    under_way.tasks.insert(host, (task, started));
                    continue;
                }
            }
            // The host can continue immediately.
            under_way.ready.insert(place);
            if self.removed.len() < removed {
                // `meta: clear_host_errors` brought hosts back, so they may continue too.
                let ended = |(_, host): &(usize, &Arc<str>)| {
                    !under_way.begun.contains(*host) && !under_way.tasks.contains_key(*host)
                };
                under_way.waiting.extend(self.hosts.keys().enumerate().filter(ended).map(|(place, _)| place));
            }
            if self.end_play || self.end_run {
                break;
            }
        }
        under_way.ready.append(&mut throttled);
        Ok(())
    }

    /// Whether the task already runs on as many hosts as `throttle` allows.
    fn is_throttled(&self, task: &Arc<Task>, host: &Arc<str>, under_way: &UnderWay) -> Result<bool> {
        if task.keyword("throttle").is_none() {
            return Ok(false);
        }
        let context = TaskOnHost::new(&self.shared, &self.world, task, host).scope();
        let limit = self.throttle(task, Some(&context))?;
        let same = under_way.tasks.values().filter(|(other, _)| other.id == task.id).count();
        Ok(limit.is_some_and(|limit| same >= limit))
    }

    fn warn_of_fatal(&self, task: &Arc<Task>) {
        if let Some(node) = task.keyword("any_errors_fatal")
            && node.as_bool().unwrap_or(true)
        {
            self.shared.warn(format!("any_errors_fatal has no effect under the strategy of this play ({})", node.span));
        }
    }
}
