//! The strategies `linear` and `debug`: all hosts finish a task before any starts the next.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::play::Batch;
use crate::error::Result;
use crate::plan::Step;
use crate::playbook::Task;

impl Batch {
    /// Runs the batch to its end, in lockstep.
    pub(super) async fn lockstep(&mut self) -> Result<()> {
        while let Some((step, hosts)) = self.next_step() {
            if let Some(error) = self.lost_journal() {
                return Err(error);
            }
            self.update_play_hosts();
            self.settle_handlers();
            self.step_failed = false;
            match step.task.short_action() {
                "meta" => self.meta(&step.task, &hosts).await?,
                _ if !self.take_step(&step.task, None).await? => continue,
                _ if step.task.is_include() => self.include(&step.task, &hosts)?,
                _ => self.task(&step.task, &hosts).await?,
            }
            self.check_failures(&step.task);
            if self.end_play || self.end_run {
                break;
            }
        }
        Ok(())
    }

    /// The earliest pending step, and the hosts that are at it.
    fn next_step(&mut self) -> Option<(Step, Vec<Arc<str>>)> {
        let Batch { hosts, filter, .. } = self;
        let steps = hosts.values_mut().filter_map(|run| run.peek(filter));
        let first = steps.min_by(|a, b| a.position.cmp(&b.position))?.clone();
        let mut hosts = Vec::new();
        for (name, run) in &mut self.hosts {
            let same = |step: &Step| step.task.id == first.task.id && step.position == first.position;
            if run.pending.as_ref().is_some_and(same) {
                run.advance();
                hosts.push(Arc::clone(name));
            }
        }
        Some((first, hosts))
    }

    async fn task(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let mut running = JoinSet::new();
        let started = self.start(task, hosts, &mut running).await?;
        let mut outcomes = Vec::new();
        while let Some(outcome) = self.next_outcome(&mut running).await? {
            outcomes.push(outcome);
        }
        self.finish(&started, outcomes).await
    }
}
