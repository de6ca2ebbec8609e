//! `meta`: tasks that control the engine itself.

use std::sync::Arc;

use super::execute::{Shared, TaskOnHost};
use super::play::{Batch, Gone};
use crate::builtin::META_ACTIONS;
use crate::error::{Error, Result, did_you_mean};
use crate::outcome::{InventoryChange, TaskResult};
use crate::output::Event;
use crate::playbook::{Task, label};

/// Actions done separately for each host. The others are done once for all, when the first host reaches them.
const PER_HOST: &[&str] = &["end_host", "end_role", "flush_handlers", "noop", "reset_connection"];

/// Actions that ignore `when`.
const UNCONDITIONAL: &[&str] = &["noop", "refresh_inventory", "reset_connection"];

impl Batch {
    /// Carries out the action on the hosts that are at the task.
    pub(super) async fn meta(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let action = action_of(task)?;
        let hosts = if PER_HOST.contains(&action) { hosts } else { hosts.get(..1).unwrap_or_default() };
        let chosen = self.chosen(action, task, hosts);
        match action {
            "flush_handlers" => self.flush_handlers(task, &chosen)?,
            "end_host" => chosen.iter().for_each(|host| self.end(host)),
            // The first host that reaches it decides for all.
            "end_play" | "end_batch" if !chosen.is_empty() => {
                let all: Vec<Arc<str>> = self.hosts.keys().cloned().collect();
                all.iter().for_each(|host| self.end(host));
                self.end_play = action == "end_play";
            }
            "end_role" => {
                for host in &chosen {
                    if let Some(run) = self.hosts.get_mut(host) {
                        run.cursor.end_role();
                    }
                }
            }
            "clear_facts" if !chosen.is_empty() => self.clear_facts(),
            "clear_host_errors" if !chosen.is_empty() => self.clear_host_errors(),
            "refresh_inventory" => self.refresh_inventory()?,
            "reset_connection" => {
                for host in &chosen {
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

    /// The hosts whose condition holds. Announces the task, and reports what happens on each host.
    fn chosen(&mut self, action: &str, task: &Arc<Task>, hosts: &[Arc<str>]) -> Vec<Arc<str>> {
        // Tasks that the engine adds itself are not displayed.
        let is_shown = task.span.is_located();
        if is_shown {
            let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
            self.announce(task, label::of_task(task, context.as_ref()));
        }
        let is_conditional = !UNCONDITIONAL.contains(&action);
        if !is_conditional && task.keywords.get("when").is_some() {
            self.shared.warn(format!("{action} task does not support when conditional ({})", task.span));
        }
        let mut chosen = Vec::new();
        for host in hosts {
            let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
            if !is_conditional {
                chosen.push(Arc::clone(host));
                continue;
            }
            match on_host.condition(&on_host.scope()) {
                Ok(None) => chosen.push(Arc::clone(host)),
                Ok(Some(_)) if !is_shown => {}
                Ok(Some(_)) => {
                    let (message, reason) = not_done(action, task, host);
                    let result = TaskResult::new().with("msg", message).with("skipped", true);
                    on_host.show(&result.with("skip_reason", reason.as_str()));
                    self.verbose(&reason);
                }
                Err(failure) => {
                    let result = failure.into_result(self.shared.run.settings.compat);
                    on_host.show(&result);
                    self.without(&on_host, result);
                }
            }
        }
        for host in chosen.iter().filter(|_| is_shown) {
            self.verbose(&done(action, task, host));
        }
        chosen
    }

    /// Sends the hosts through the handlers that were notified.
    fn flush_handlers(&mut self, task: &Task, hosts: &[Arc<str>]) -> Result<()> {
        for host in hosts {
            let block = Arc::clone(self.handlers.block());
            let Some(run) = self.hosts.get_mut(host) else { continue };
            if run.cursor.is_in_handlers() {
                return Err(Error::parse("flush_handlers cannot be used as a handler", &task.span).generic());
            }
            if task.id == self.last_flush {
                run.notifications.extend(std::mem::take(&mut run.carried));
            }
            for name in std::mem::take(&mut run.notifications) {
                let handlers = self.handlers.find(&name);
                if handlers.is_empty() {
                    // A role included later may define the handler.
                    run.notifications.insert(name);
                    continue;
                }
                run.flushing.insert(name, handlers.iter().map(|handler| handler.id).collect());
                for handler in handlers {
                    if run.notified.insert(handler.id) {
                        notified(&self.shared, handler, host);
                    }
                }
            }
            run.cursor.enter_handlers(block);
        }
        Ok(())
    }

    fn clear_facts(&mut self) {
        let mut world = self.world.successor();
        for host in self.hosts.keys() {
            Arc::make_mut(&mut world.host_mut(host).facts).clear();
        }
        self.world = Arc::new(world);
    }

    fn clear_host_errors(&mut self) {
        let hosts = self.world.play.as_ref().map(|play| play.hosts_all.clone());
        for (name, run) in &mut self.hosts {
            run.cursor.clear_errors();
            // An unreachable host continues after the task that failed to reach it.
            if self.removed.get(name) == Some(&Gone::Unreachable) {
                run.out = false;
            }
        }
        self.removed.retain(|name, _| !hosts.iter().any(|hosts| hosts.contains(name)));
    }

    /// Reads the inventory again, and restores the hosts and groups that tasks have added.
    fn refresh_inventory(&mut self) -> Result<()> {
        let mut world = self.world.successor();
        let mut inventory = (self.shared.reload)()?;
        if !self.play.dir.as_os_str().is_empty() {
            inventory.set_playbook_dir(Some(&self.play.dir));
        }
        *world.inventory_mut() = inventory;
        // Hosts are restored before the groups that `group_by` made of them.
        let (groups, hosts): (Vec<_>, Vec<_>) =
            self.world.dynamic.iter().partition(|(_, change)| matches!(change, InventoryChange::Group(_)));
        for (host, change) in hosts.into_iter().chain(groups) {
            super::store::extend_inventory(host, change, &mut world)?;
        }
        self.world = Arc::new(world);
        Ok(())
    }

    fn verbose(&self, text: &str) {
        let _ = self.shared.events.send(Event::Verbose { level: 2, text: format!("META: {text}") });
    }

    fn end(&mut self, host: &Arc<str>) {
        if let Some(run) = self.hosts.get_mut(host) {
            run.cursor.stop();
            run.pending = None;
            run.ended = true;
            self.play_hosts_stale = true;
        }
    }
}

/// The action that a task names.
fn action_of(task: &Task) -> Result<&'static str> {
    let Some(named) = task.args.get("_raw_params").and_then(|node| node.scalar_text()) else {
        return Err(Error::parse("meta needs the name of an action", &task.span));
    };
    let named = named.trim();
    META_ACTIONS.iter().copied().find(|action| *action == named).ok_or_else(|| {
        Error::parse(format!("there is no meta action `{named}`"), &task.span)
            .maybe_hint(did_you_mean(named, META_ACTIONS.iter().copied()))
            .generic()
    })
}

/// Message and reason for an action whose condition is false.
fn not_done(action: &str, task: &Task, host: &str) -> (String, String) {
    let role = task.frame.role().map(|role| role.name.clone()).unwrap_or_default();
    let rest = match action {
        "flush_handlers" => format!(", not running handlers for {host}"),
        "clear_facts" => format!(", not clearing facts and fact cache for {host}"),
        "clear_host_errors" => format!(", not clearing host error state for {host}"),
        "end_batch" => ", continuing current batch".to_owned(),
        "end_play" => ", continuing play".to_owned(),
        "end_role" => format!("continuing role {role} for {host}"),
        _ => format!(", continuing execution for {host}"),
    };
    let message = match action {
        "end_host" => format!("end_host conditional evaluated to false, continuing execution for {host}"),
        other => other.to_owned(),
    };
    (message, format!("{action} conditional evaluated to False{rest}"))
}

/// Reports that a handler will run on a host.
pub(super) fn notified(shared: &Shared, handler: &Arc<Task>, host: &Arc<str>) {
    let text = format!("NOTIFIED HANDLER {} for {host}", label::of_task(handler, None));
    let _ = shared.events.send(Event::Verbose { level: 2, text });
    let _ = shared.events.send(Event::Notified { host: Arc::clone(host), handler: Arc::clone(handler) });
}

/// Message for an action that was carried out.
fn done(action: &str, task: &Task, host: &str) -> String {
    match action {
        "flush_handlers" => format!("triggered running handlers for {host}"),
        "refresh_inventory" => "inventory successfully refreshed".to_owned(),
        "clear_facts" => "facts cleared".to_owned(),
        "clear_host_errors" => "cleared host errors".to_owned(),
        "end_batch" => "ending batch".to_owned(),
        "end_play" => "ending play".to_owned(),
        "end_host" => format!("ending play for {host}"),
        "end_role" => {
            let role = task.frame.role().map(|role| role.name.as_str()).unwrap_or_default();
            format!("ending role {role} for {host}")
        }
        "reset_connection" => "reset connection".to_owned(),
        other => other.to_owned(),
    }
}
