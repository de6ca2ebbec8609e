//! `meta`: tasks that control the engine itself.

use std::sync::Arc;

use super::display::Part;
use super::execute::{Shared, TaskOnHost};
use super::play::{Batch, Gone};
use crate::builtin::MetaAction;
use crate::error::{Error, Result, did_you_mean};
use crate::journal::Carried;
use crate::outcome::{InventoryChange, TaskResult};
use crate::output::Event;
use crate::playbook::{Task, label};

/// Actions done separately for each host. The others are done once for all, when the first host reaches them.
const PER_HOST: &[MetaAction] = &[
    MetaAction::EndHost,
    MetaAction::EndRole,
    MetaAction::FlushHandlers,
    MetaAction::Noop,
    MetaAction::ResetConnection,
];

/// Actions that ignore `when`.
const UNCONDITIONAL: &[MetaAction] = &[MetaAction::Noop, MetaAction::RefreshInventory, MetaAction::ResetConnection];

impl Batch {
    /// Carries out the action on the hosts that are at the task.
    pub(super) async fn meta(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let action = action_of(task)?;
        let hosts = if PER_HOST.contains(&action) { hosts } else { hosts.get(..1).unwrap_or_default() };
        let chosen = self.chosen(action, task, hosts);
        match action {
            MetaAction::FlushHandlers => self.flush_handlers(task, &chosen)?,
            MetaAction::EndHost => chosen.iter().for_each(|host| self.end(host)),
            // The first host that reaches it decides for all.
            MetaAction::EndPlay | MetaAction::EndBatch if !chosen.is_empty() => {
                let all: Vec<Arc<str>> = self.hosts.keys().cloned().collect();
                all.iter().for_each(|host| self.end(host));
                self.end_play = action == MetaAction::EndPlay;
            }
            MetaAction::EndRole => {
                for host in &chosen {
                    if let Some(run) = self.hosts.get_mut(host) {
                        run.cursor.end_role();
                    }
                }
            }
            MetaAction::ClearFacts if !chosen.is_empty() => self.clear_facts(),
            MetaAction::ClearHostErrors if !chosen.is_empty() => self.clear_host_errors(),
            MetaAction::RefreshInventory => self.refresh_inventory()?,
            MetaAction::ResetConnection => {
                for host in &chosen {
                    let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
                    if let Ok(connection) = on_host.placement().connection(&on_host.scope(), None) {
                        self.shared.pool.reset(&Arc::new(connection.target)).await;
                    }
                }
            }
            MetaAction::EndPlay
            | MetaAction::EndBatch
            | MetaAction::ClearFacts
            | MetaAction::ClearHostErrors
            | MetaAction::Noop => {}
        }
        Ok(())
    }

    /// The hosts whose condition holds. Announces the task, and reports what happens on each host.
    fn chosen(&mut self, action: MetaAction, task: &Arc<Task>, hosts: &[Arc<str>]) -> Vec<Arc<str>> {
        // Tasks that the engine adds itself are not displayed.
        let is_shown = task.span.is_located();
        if is_shown {
            let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
            self.announce(task, label::of_task(task, context.as_ref()));
        }
        let is_conditional = !UNCONDITIONAL.contains(&action);
        if !is_conditional && task.keywords.get("when").is_some() {
            self.shared.warn(format!("{} task does not support when conditional ({})", action.name(), task.span));
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
                    let result = result.with("skip_reason", reason.as_str());
                    on_host.display().show(&result, on_host.shown(Part::Task));
                    self.verbose(&reason);
                }
                Err(failure) => {
                    let result = failure.into_result(self.shared.run.settings.compat);
                    on_host.display().show(&result, on_host.shown(Part::Task));
                    self.without(&on_host, result, false);
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
                let known = |left: &mut Carried| !self.handlers.find(&left.handler).is_empty();
                let left: Vec<Carried> = run.carried.extract_if(.., known).collect();
                left.into_iter().for_each(|left| run.notify(left.handler, left.notified));
            }
            for (name, place) in std::mem::take(&mut run.notifications) {
                let handlers = self.handlers.find(&name);
                if handlers.is_empty() {
                    // A role included later may define the handler.
                    run.notifications.insert(name, place);
                    continue;
                }
                run.flushing.insert(name, handlers.iter().map(|handler| handler.id).collect());
                for handler in handlers {
                    if run.select(handler.id, place) {
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
fn action_of(task: &Task) -> Result<MetaAction> {
    let Some(named) = task.args.get("_raw_params").and_then(|node| node.scalar_text()) else {
        return Err(Error::parse("meta needs the name of an action", &task.span));
    };
    let named = named.trim();
    MetaAction::ALL.into_iter().find(|action| action.name() == named).ok_or_else(|| {
        Error::parse(format!("there is no meta action `{named}`"), &task.span)
            .maybe_hint(did_you_mean(named, MetaAction::ALL.map(MetaAction::name)))
            .generic()
    })
}

/// Message and reason for an action whose condition is false.
fn not_done(action: MetaAction, task: &Task, host: &str) -> (String, String) {
    let role = task.frame.role().map(|role| role.name.clone()).unwrap_or_default();
    let rest = match action {
        MetaAction::FlushHandlers => format!(", not running handlers for {host}"),
        MetaAction::ClearFacts => format!(", not clearing facts and fact cache for {host}"),
        MetaAction::ClearHostErrors => format!(", not clearing host error state for {host}"),
        MetaAction::EndBatch => ", continuing current batch".to_owned(),
        MetaAction::EndPlay => ", continuing play".to_owned(),
        MetaAction::EndRole => format!("continuing role {role} for {host}"),
        MetaAction::EndHost | MetaAction::Noop | MetaAction::RefreshInventory | MetaAction::ResetConnection => {
            format!(", continuing execution for {host}")
        }
    };
    let message = match action {
        MetaAction::EndHost => format!("end_host conditional evaluated to false, continuing execution for {host}"),
        other => other.name().to_owned(),
    };
    (message, format!("{} conditional evaluated to False{rest}", action.name()))
}

/// Reports that a handler will run on a host.
pub(super) fn notified(shared: &Shared, handler: &Arc<Task>, host: &Arc<str>) {
    let text = format!("NOTIFIED HANDLER {} for {host}", label::of_task(handler, None));
    let _ = shared.events.send(Event::Verbose { level: 2, text });
    let _ = shared.events.send(Event::Notified { host: Arc::clone(host), handler: Arc::clone(handler) });
}

/// Message for an action that was carried out.
fn done(action: MetaAction, task: &Task, host: &str) -> String {
    match action {
        MetaAction::FlushHandlers => format!("triggered running handlers for {host}"),
        MetaAction::RefreshInventory => "inventory successfully refreshed".to_owned(),
        MetaAction::ClearFacts => "facts cleared".to_owned(),
        MetaAction::ClearHostErrors => "cleared host errors".to_owned(),
        MetaAction::EndBatch => "ending batch".to_owned(),
        MetaAction::EndPlay => "ending play".to_owned(),
        MetaAction::EndHost => format!("ending play for {host}"),
        MetaAction::EndRole => {
            let role = task.frame.role().map(|role| role.name.as_str()).unwrap_or_default();
            format!("ending role {role} for {host}")
        }
        MetaAction::ResetConnection => "reset connection".to_owned(),
        MetaAction::Noop => action.name().to_owned(),
    }
}
