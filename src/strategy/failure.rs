//! Consequences of a failure for the host and for the rest of the batch.

use std::sync::Arc;

use windlass_yaml::Node;

use super::execute::TaskOnHost;
use super::failed_task;
use super::play::{Batch, Gone, HostRun};
use crate::outcome::HostOutcome;
use crate::output::Event;
use crate::playbook::Task;
use crate::vars::{float, given};

impl Batch {
    /// Fails every host that has not failed already.
    pub(super) fn fail_others(&mut self) {
        let others: Vec<Arc<str>> = self
            .hosts
            .iter()
            .filter(|(_, run)| !run.out && !run.ended && !run.cursor.is_failing())
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &others {
            self.fail_host(name);
        }
    }

    /// Fails all other hosts when a task run once for all of them fails.
    ///
    /// Ansible marks the others twice, which takes them past the nearest `rescue`, or past `always` if there is none.
    /// It marks them once if `ignore_errors` is set but does not hold.
    pub(super) fn fail_all_but(&mut self, task: &Task, host: &Arc<str>) {
        let marks = if task.keyword("ignore_errors").is_some_and(is_said) { 1 } else { 2 };
        for _ in 0..marks {
            let left = |(name, run): &(&Arc<str>, &HostRun)| *name != host && !run.out && !run.ended;
            let others: Vec<Arc<str>> = self.hosts.iter().filter(left).map(|(name, _)| Arc::clone(name)).collect();
            others.iter().for_each(|name| self.fail_host(name));
        }
    }

    /// Applies a failure to its host, unless it is ignored.
    pub(super) fn follow(&mut self, task: &Arc<Task>, outcome: &HostOutcome) {
        if outcome.ignored {
            return;
        }
        if outcome.result.is_unreachable() {
            self.step_failed = true;
            if let Some(run) = self.hosts.get_mut(&outcome.host) {
                run.pending = None;
                run.included = None;
                run.out = true;
            }
            self.removed.insert(Arc::clone(&outcome.host), Gone::Unreachable);
            self.play_hosts_stale = true;
        } else if outcome.result.failed() {
            self.step_failed = true;
            self.remember_failure(task, outcome);
            self.fail_host(&outcome.host);
        }
    }

    /// Sets `ansible_failed_task` and `ansible_failed_result` for `rescue`.
    fn remember_failure(&mut self, task: &Arc<Task>, outcome: &HostOutcome) {
        let context = TaskOnHost::new(&self.shared, &self.world, task, &outcome.host).scope();
        let described = failed_task::described(task, &context, &self.shared.run.settings, outcome.result.args());
        let mut world = self.world.successor();
        let set = Arc::make_mut(&mut world.host_mut(&outcome.host).set);
        set.insert(Arc::from("ansible_failed_task"), described);
        let result = outcome.result.to_value();
        self.shared.set(&mut world, &outcome.host, Arc::from("ansible_failed_result"), result);
        self.world = Arc::new(world);
    }

    /// Sends the host to its `rescue`, or removes it from the run; `always` sections run first.
    pub(super) fn fail_host(&mut self, host: &Arc<str>) {
        let Some(run) = self.hosts.get_mut(host) else { return };
        run.pending = None;
        if !run.cursor.would_rescue() {
            self.removed.insert(Arc::clone(host), Gone::Failed);
            self.play_hosts_stale = true;
        }
        run.cursor.fail();
        run.out = run.cursor.failed();
    }

    /// Applies `any_errors_fatal` and `max_fail_percentage`.
    pub(super) fn check_failures(&mut self, task: &Arc<Task>) {
        if !self.step_failed {
            return;
        }
        let context = self.play_context();
        let keyword = |node: Option<&Node>| node.and_then(|node| given(&context, node).ok()?);
        // Ansible tests these keywords as written, so any template counts as true.
        let fatal = task.keyword("any_errors_fatal").map_or(self.shared.run.settings.any_errors_fatal, is_said)
            && !task.keyword("ignore_errors").is_some_and(is_said);
        let limit = keyword(self.play.frame.keywords.get("max_fail_percentage")).and_then(|value| float(&value));
        let failed = self.hosts.keys().filter(|name| self.removed.contains_key(*name)).count();
        let over = limit.is_some_and(|limit| failed as f64 / self.hosts.len().max(1) as f64 * 100.0 > limit);
        if fatal || over {
            self.fail_others();
        }
        if over {
            let _ = self.shared.events.send(Event::NoHostsLeft);
            self.end_run = self.hosts.keys().all(|name| self.removed.contains_key(name));
        }
    }
}

/// Whether a keyword has a value other than false or empty text.
fn is_said(node: &Node) -> bool {
    node.as_bool().unwrap_or_else(|| node.as_str().is_some_and(|text| !text.is_empty()))
}
