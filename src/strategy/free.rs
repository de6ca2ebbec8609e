//! Every host goes on as soon as it can: the strategies `free` and `host_pinned`.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexSet;
use tokio::task::JoinSet;

use super::execute::{HostOutcome, TaskOnHost};
use super::play::{Batch, Gone, Strategy};
use super::task::Started;
use crate::error::Result;
use crate::output::Event;
use crate::playbook::Task;

/// What is under way.
#[derive(Default)]
struct UnderWay {
    running: JoinSet<HostOutcome>,
    tasks: HashMap<Arc<str>, (Arc<Task>, Started)>,
    /// The hosts that have begun and not ended, which `host_pinned` counts.
    begun: IndexSet<Arc<str>>,
    /// The place in the list of hosts after the one that was served last, so that all get their turn.
    turn: usize,
}

impl Batch {
    /// Runs the batch to its end, each host by itself.
    pub(super) async fn free(&mut self) -> Result<()> {
        if let Some(node) = self.play.frame.keywords.get("max_fail_percentage") {
            self.shared
                .warn(format!("max_fail_percentage has no effect under the strategy of this play ({})", node.span));
        }
        let mut under_way = UnderWay::default();
        loop {
            if !self.end_play && !self.end_run {
                self.serve(&mut under_way).await?;
            }
            let Some(outcome) = self.next_outcome(&mut under_way.running).await? else { break };
            if let Some((_, started)) = under_way.tasks.remove(&outcome.host) {
                self.finish(&started, vec![outcome]).await?;
            }
        }
        if self.hosts.keys().all(|host| self.removed.get(host) == Some(&Gone::Unreachable)) {
            let _ = self.shared.events.send(Event::NoHostsLeft);
        }
        Ok(())
    }

    /// Gives every host that waits its next task, in turn, as long as there are forks.
    async fn serve(&mut self, under_way: &mut UnderWay) -> Result<()> {
        let forks = self.shared.run.settings.forks;
        let mut waiting = 0;
        while waiting < self.hosts.len() && under_way.tasks.len() < forks {
            let index = under_way.turn % self.hosts.len();
            under_way.turn = index + 1;
            waiting += 1;
            let Some((host, run)) = self.hosts.get_index_mut(index) else { break };
            let host = Arc::clone(host);
            let held_back = self.strategy == Strategy::HostPinned
                && under_way.begun.len() >= forks
                && !under_way.begun.contains(&host);
            if held_back || under_way.tasks.contains_key(&host) {
                continue;
            }
            let Some(task) = run.peek(&self.filter).map(|step| Arc::clone(&step.task)) else {
                // One host less: another may begin, which the turn may have passed already.
                if under_way.begun.shift_remove(&host) {
                    waiting = 0;
                }
                continue;
            };
            if self.is_throttled(&task, &host, under_way)? {
                continue;
            }
            if let Some(run) = self.hosts.get_mut(&host) {
                run.advance();
            }
            under_way.begun.insert(Arc::clone(&host));
            self.update_play_hosts();
            let on = [Arc::clone(&host)];
            match task.short_action() {
                "meta" => self.meta(&task, &on).await?,
                _ if !self.take_step(&task, Some(&*host)).await? => {}
                "include_tasks" | "include_role" => self.include(&task, &on)?,
                _ => {
                    self.warn_of_fatal(&task);
                    let started = self.start(&task, &on, &mut under_way.running).await?;
                    under_way.tasks.insert(host, (task, started));
                    continue;
                }
            }
            // The host is ready again at once.
            waiting = 0;
            if self.end_play || self.end_run {
                break;
            }
        }
        Ok(())
    }

    /// Whether as many hosts are at the task as may be.
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
