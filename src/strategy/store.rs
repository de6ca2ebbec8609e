//! Lasting effects of results: registered variables, facts, hosts and groups, and the counts of the recap.

use std::sync::Arc;

use windlass_template::{Origin, Scope, Value, Variable, Variables};
use windlass_yaml::{Mapping, Node, Span};

use super::execute::Shared;
use super::play::Batch;
use crate::builtin;
use crate::error::Result;
use crate::outcome::{Effect, HostFacts, HostOutcome, IncludedVars, InventoryChange, Size, TaskResult, kept, size};
use crate::output::Event;
use crate::playbook::{Task, label};
use crate::vars::{HostState, Level, TaskScope, World, reserved};

/// Maximum number of facts that a warning lists.
const LISTED: usize = 10;

impl Batch {
    /// Counts a result for the recap.
    pub(super) fn count(&mut self, task: &Task, outcome: &HostOutcome) {
        let ran = !outcome.result.is_skipped() && !outcome.result.is_unreachable();
        if let Some(run) = self.hosts.get_mut(&outcome.host).filter(|_| ran) {
            run.cursor.ran();
        }
        let would_rescue = self.hosts.get(&outcome.host).is_some_and(|run| run.cursor.would_rescue());
        let stats = self.stats.entry(Arc::clone(&outcome.host)).or_default();
        let result = &outcome.result;
        if result.is_unreachable() {
            if outcome.ignored {
                stats.ok += 1;
                stats.ignored += 1;
            } else {
                stats.unreachable += 1;
            }
        } else if result.failed() {
            match (outcome.ignored, would_rescue) {
                (true, _) => {
                    stats.ok += 1;
                    stats.ignored += 1;
                    stats.changed += u32::from(result.changed());
                }
                (false, true) => {
                    stats.rescued += 1;
                    let host = Arc::clone(&outcome.host);
                    let _ = self.shared.events.send(Event::Rescued { host, task: task.id });
                }
                (false, false) => stats.failed += 1,
            }
        } else if result.is_skipped() {
            stats.skipped += 1;
        } else {
            stats.ok += 1;
            stats.changed += u32::from(result.changed());
        }
    }
}

impl Shared {
    /// Sets a variable of a host to a result, and counts its size.
    pub(super) fn set<'w>(
        &self,
        world: &'w mut World,
        host: &Arc<str>,
        name: Arc<str>,
        value: Value,
    ) -> &'w mut HostState {
        let state = world.host_mut(host);
        let new = size(&value);
        let old = Arc::make_mut(&mut state.set).insert(name, value).map(|old| size(&old)).unwrap_or_default();
        self.keep(state, old, new);
        state
    }

    /// Replaces a size that counts for a host.
    pub(super) fn keep(&self, state: &mut HostState, old: Size, new: Size) {
        state.kept = state.kept + new - old;
        self.kept.replace(old, new);
    }
}

/// Lasting effects of results, applied to a successor of the world `before` the task.
pub(super) struct Store<'a> {
    pub(super) shared: &'a Shared,
    pub(super) before: &'a Arc<World>,
}

impl Store<'_> {
    /// Stores the effects of a result: the registered variable, facts, variables, hosts and groups.
    pub(super) fn store(
        &self,
        task: &Arc<Task>,
        outcome: &HostOutcome,
        host: &Arc<str>,
        world: &mut World,
    ) -> Result<()> {
        let may_change = outcome.result.unknown().is_some() && !task.changes_nothing();
        if (outcome.result.changed() || may_change) && !builtin::is_here(&outcome.action) {
            world.host_mut(host).is_changed = true;
        }
        // A failed task only registers its result; facts and variables are dropped, even of items that succeeded.
        let is_kept = !outcome.result.failed() && !outcome.result.is_unreachable();
        for (result, delegate) in outcome.parts.iter().filter(|_| is_kept) {
            let delegate = delegate.as_deref().map(Arc::<str>::from);
            let place = Place { host, delegate: delegate.as_ref(), delegate_facts: outcome.delegate_facts };
            for effect in result.effects() {
                self.apply(task, effect, &place, world)?;
            }
        }
        if let Some(register) = &task.register {
            self.warn_of_reserved(register);
            let value = registered(task, &outcome.result);
            let state = self.shared.set(world, host, Arc::clone(register), value);
            // Variables from the project remain trusted when a result registers them.
            if matches!(outcome.action.as_str(), "set_fact" | "include_vars") {
                Arc::make_mut(&mut state.origins).insert(Arc::clone(register), Origin::Written);
            } else if state.origins.contains_key(register) {
                Arc::make_mut(&mut state.origins).shift_remove(register);
            }
        }
        Ok(())
    }

    /// Applies one effect of a task.
    fn apply(&self, task: &Arc<Task>, effect: &Effect, place: &Place<'_>, world: &mut World) -> Result<()> {
        let to = place.of_facts();
        match effect {
            Effect::Facts(facts) => {
                self.warn_of_yielding(task, to, facts);
                let state = world.host_mut(to);
                let known = Arc::make_mut(&mut state.facts);
                if self.shared.run.settings.plans {
                    known.note_reads();
                }
                let replaced = facts.names().filter_map(|name| known.get(name));
                let (old, new) = (replaced.map(size).sum(), kept::size_of_facts(facts));
                known.extend(facts);
                if task.register.is_some() {
                    // Templates may read them from the result.
                    facts.names().for_each(|name| known.note(name));
                }
                if task.short_action() == "gather_facts" {
                    known.set_gathered();
                }
                self.shared.keep(state, old, new);
            }
            // A Python found by a delegated task always belongs to the delegated host.
            Effect::Python { kind, user, path } => {
                let there = place.delegate.unwrap_or(place.host);
                Arc::make_mut(&mut world.host_mut(there).facts).set_python(*kind, user.as_deref(), path);
            }
            Effect::SetFacts(set) => {
                for (name, value) in &set.vars {
                    self.warn_of_reserved(name);
                    self.shared.set(world, to, Arc::clone(name), value.clone());
                }
                let state = world.host_mut(to);
                if set.cacheable {
                    Arc::make_mut(&mut state.facts).set(set.vars.iter().cloned());
                }
                if !set.origins.is_empty() {
                    Arc::make_mut(&mut state.origins).extend(set.origins.iter().cloned());
                }
            }
            Effect::IncludedVars(read) => {
                let vars = self.included_vars(task, to, read)?;
                let state = world.host_mut(to);
                let known = Arc::make_mut(&mut state.included);
                let old = vars.keys().filter_map(|name| known.get(name)).map(kept::size_of_variable).sum();
                let new = vars.values().map(kept::size_of_variable).sum();
                known.extend(vars);
                state.kept = state.kept + new - old;
                self.shared.kept.include(read);
            }
            Effect::Inventory(change) => {
                extend_inventory(place.host, change, world)?;
                let mut old = Size::default();
                let dynamic = Arc::make_mut(&mut world.dynamic);
                dynamic.retain(|(host, known)| {
                    let is_kept = host != place.host || !replaces(change, known);
                    if !is_kept {
                        old = old + kept::size_of_change(known);
                    }
                    is_kept
                });
                dynamic.push((Arc::clone(place.host), change.clone()));
                self.shared.keep(world.host_mut(place.host), old, kept::size_of_change(change));
            }
            Effect::Stats(update) => {
                let (old, new) = Arc::make_mut(&mut world.custom_stats).add(place.host, update);
                self.shared.keep(world.host_mut(place.host), old, new);
            }
        }
        Ok(())
    }

    fn warn_of_reserved(&self, name: &str) {
        if let Some(sentence) = reserved::warning(name, &Span::none(), self.shared.run.settings.compat) {
            self.shared.warn(sentence);
        }
    }

    /// Warns about reported facts that do not replace variables of the project.
    fn warn_of_yielding(&self, task: &Arc<Task>, host: &Arc<str>, facts: &HostFacts) {
        if facts.free().next().is_none() || !self.shared.run.settings.facts.inject {
            return;
        }
        let scope = TaskScope::of_task(self.before, host, task);
        let is_fact = |level: Level| matches!(level, Level::Facts | Level::ModuleFacts | Level::Set);
        let of_project = |name: &&str| scope.definitions(name).first().is_some_and(|found| !is_fact(found.level));
        let names: Vec<&str> = facts.free().filter(of_project).take(LISTED).collect();
        if !names.is_empty() {
            self.shared.warn(format!(
                "{host} reported facts named like variables of the project, which keep their values: {}. Read \
                 `ansible_facts`, or set the variables by `set_fact`.",
                names.join(", ")
            ));
        }
    }

    /// Variables of the files that `include_vars` found, unrendered.
    fn included_vars(&self, task: &Arc<Task>, host: &Arc<str>, included: &IncludedVars) -> Result<Variables> {
        let mut read = Mapping::new();
        for file in &included.files {
            let map = self.shared.files.variables(file)?;
            reserved::warnings(map.keys(), self.shared.run.settings.compat)
                .for_each(|sentence| self.shared.warn(sentence));
            read.extend(map.iter().map(|(key, node)| (key.clone(), node.clone())));
        }
        let mut vars: Variables = match &included.name {
            Some(name) => Variables::from_iter([(name.as_str().into(), Variable::Text(Node::map(read, Span::none())))]),
            None => read.string_entries().map(|(name, node)| (name.into(), Variable::Text(node.clone()))).collect(),
        };
        if included.merge {
            let scope = TaskScope::of_task(self.before, host, task);
            for (name, variable) in &mut vars {
                *variable = crate::vars::merged(variable.clone(), scope.get(name).into_iter());
            }
        }
        Ok(vars)
    }
}

/// Value that `register` stores. For a task skipped by check mode, absent fields are unknown.
pub(super) fn registered(task: &Arc<Task>, result: &TaskResult) -> Value {
    if let Some(why) = result.unknown() {
        return super::unknown::planned(task, result, why);
    }
    if !result.is_predicted() {
        return result.to_value();
    }
    let reason = format!("the result of '{}', which is not run in check mode", label::of_task(task, None));
    super::unknown::partial(result, &reason)
}

/// Hosts that the effects of a task apply to.
struct Place<'a> {
    host: &'a Arc<str>,
    delegate: Option<&'a Arc<str>>,
    delegate_facts: bool,
}

impl Place<'_> {
    /// Host that facts and variables belong to.
    fn of_facts(&self) -> &Arc<str> {
        self.delegate.filter(|_| self.delegate_facts).unwrap_or(self.host)
    }
}

/// Whether a change of the inventory leaves nothing of an earlier one.
fn replaces(change: &InventoryChange, earlier: &InventoryChange) -> bool {
    let (InventoryChange::Host(new), InventoryChange::Host(old)) = (change, earlier) else { return change == earlier };
    // Settings may merge mappings.
    let is_replaced = |new: &Node, old: &Node| new == old || new.as_map().is_none();
    new.name == old.name
        && old.groups.iter().all(|group| new.groups.contains(group))
        && old.vars.iter().all(|(key, old)| new.vars.get_key(key).is_some_and(|(_, new)| is_replaced(new, old)))
}

/// Adds the host or group that `add_host` or `group_by` requests.
pub(super) fn extend_inventory(host: &Arc<str>, change: &InventoryChange, world: &mut World) -> Result<()> {
    let inventory = world.inventory_mut();
    match change {
        InventoryChange::Host(new) => {
            let groups: Vec<&str> = new.groups.iter().map(String::as_str).collect();
            inventory.add_host(&new.name, &groups, &new.vars);
        }
        InventoryChange::Group(new) => {
            inventory.add_group(&new.name);
            inventory.add_host_to_group(host, &new.name);
            for parent in new.parents.iter().filter(|parent| *parent != "all") {
                inventory.add_child(parent, &new.name)?;
            }
        }
    }
    Ok(())
}
