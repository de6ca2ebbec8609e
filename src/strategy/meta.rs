//! `meta`: what a task tells the engine itself.

use std::sync::Arc;

use super::execute::TaskOnHost;
use super::play::Batch;
use super::result::TaskResult;
use crate::error::{Error, Result, did_you_mean};
use crate::playbook::Task;

const ACTIONS: &[&str] = &[
    "clear_facts",
    "clear_host_errors",
    "end_batch",
    "end_host",
    "end_play",
    "end_role",
    "flush_handlers",
    "noop",
    "refresh_inventory",
    "reset_connection",
    "role_complete",
];

/// Those that are done for each host by itself; the others are done once for all, when the first host gets there.
const PER_HOST: &[&str] = &["end_host", "end_role", "flush_handlers", "noop", "reset_connection", "role_complete"];

impl Batch {
    /// Does what the task says on the hosts that are at it.
    pub(super) async fn meta(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let Some(action) = task.args.get("_raw_params").and_then(|node| node.scalar_text()) else {
            return Err(Error::parse("meta needs the name of an action", &task.span));
        };
        let action = action.trim();
        if !ACTIONS.contains(&action) {
            return Err(Error::parse(format!("there is no meta action `{action}`"), &task.span)
                .maybe_hint(did_you_mean(action, ACTIONS.iter().copied()))
                .generic());
        }
        let hosts = if PER_HOST.contains(&action) { hosts } else { hosts.get(..1).unwrap_or_default() };
        // What the engine adds itself is not shown.
        let is_shown = task.span.is_located();
        if is_shown {
            let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
            self.announce(task, hosts, context.as_ref());
        }
        let conditional = !matches!(action, "noop" | "refresh_inventory" | "reset_connection");
        if !conditional && task.keywords.get("when").is_some() {
            self.shared.warn(format!("{action} task does not support when conditional ({})", task.span));
        }
        let mut on = Vec::new();
        for host in hosts {
            let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
            if !conditional {
                on.push(Arc::clone(host));
                continue;
            }
            match on_host.condition(&on_host.scope()) {
                Ok(None) => on.push(Arc::clone(host)),
                Ok(Some(_)) if !is_shown => {}
                Ok(Some(_)) => {
                    let reason = format!("{action} conditional evaluated to False, continuing execution for {host}");
                    on_host.show(&TaskResult::skipped(&reason).with("msg", reason.as_str()), false);
                }
                Err(failure) => {
                    let result = failure.into_result();
                    on_host.show(&result, false);
                    self.without(&on_host, result);
                }
            }
        }
        match action {
            "flush_handlers" => {
                for host in &on {
                    let block = Arc::clone(self.handlers.block());
                    let Some(run) = self.hosts.get_mut(host) else { continue };
                    if run.cursor.is_in_handlers() {
                        return Err(Error::parse("flush_handlers cannot be used as a handler", &task.span).generic());
                    }
                    run.cursor.enter_handlers(block);
                }
            }
            "end_host" => on.iter().for_each(|host| self.end(host)),
            // One host that is there decides for all.
            "end_play" | "end_batch" if !on.is_empty() => {
                let all: Vec<Arc<str>> = self.hosts.keys().cloned().collect();
                all.iter().for_each(|host| self.end(host));
                self.end_play = action == "end_play";
            }
            "end_role" => {
                for host in &on {
                    if let Some(run) = self.hosts.get_mut(host) {
                        run.cursor.end_role();
                    }
                }
            }
            "clear_facts" => {
                let mut world = self.world.successor();
                for host in self.hosts.keys().filter(|_| !on.is_empty()) {
                    Arc::make_mut(&mut world.host_mut(host).facts).clear();
                }
                self.world = Arc::new(world);
            }
            "clear_host_errors" if !on.is_empty() => {
                let hosts = self.world.play.as_ref().map(|play| Arc::clone(&play.hosts_all)).unwrap_or_default();
                self.removed.retain(|name, _| !hosts.contains(name));
            }
            "reset_connection" => {
                for host in &on {
                    let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
                    if let Ok(connection) = on_host.connection(&on_host.scope(), None) {
                        self.shared.pool.reset(&Arc::new(connection.target)).await;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, host: &Arc<str>) {
        if let Some(run) = self.hosts.get_mut(host) {
            run.cursor.stop();
            run.pending = None;
            run.ended = true;
        }
    }
}
