//! `meta`: what a task tells the engine itself.

use std::sync::Arc;

use super::execute::TaskOnHost;
use super::play::Batch;
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

impl Batch {
    /// Does what the task says on the hosts that are at it.
    pub(super) async fn meta(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let Some(action) = task.args.get("_raw_params").and_then(|node| node.scalar_text()) else {
            return Err(Error::parse("meta needs the name of an action", &task.span));
        };
        let action = action.trim();
        if !ACTIONS.contains(&action) {
            return Err(Error::parse(format!("invalid meta action requested: {action}"), &task.span)
                .maybe_hint(did_you_mean(action, ACTIONS.iter().copied())));
        }
        let mut on = Vec::new();
        for host in hosts {
            let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
            match on_host.condition(&on_host.scope()) {
                Ok(None) => on.push(Arc::clone(host)),
                Ok(Some(_)) => {}
                Err(failure) => {
                    let (crate::action::Failure::Failed(message) | crate::action::Failure::Unreachable(message)) =
                        failure;
                    self.shared.warn(format!("{host}: the condition of meta: {action} cannot be evaluated: {message}"));
                }
            }
        }
        match action {
            "flush_handlers" => {
                for host in &on {
                    let block = Arc::clone(self.handlers.block());
                    if let Some(run) = self.hosts.get_mut(host) {
                        run.cursor.enter_handlers(block);
                    }
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
                for host in &on {
                    Arc::make_mut(&mut world.host_mut(host).facts).clear();
                }
                self.world = Arc::new(world);
            }
            "clear_host_errors" => {
                self.removed.clear();
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
        }
    }
}
