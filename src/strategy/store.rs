//! What results leave: registered variables, facts, hosts and groups, and the numbers of the recap.

use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{Origin, Scope, Value, Variable};
use windlass_yaml::{Mapping, Node, Span};

use super::execute::HostOutcome;
use super::label;
use super::play::Batch;
use super::result::TaskResult;
use crate::error::Result;
use crate::playbook::Task;
use crate::vars::{GATHERED, TaskScope, World, clean_facts, reserved};

impl Batch {
    /// Counts a result for the recap.
    pub(super) fn count(&mut self, outcome: &HostOutcome) {
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
                (false, true) => stats.rescued += 1,
                (false, false) => stats.failed += 1,
            }
        } else if result.is_skipped() {
            stats.skipped += 1;
        } else {
            stats.ok += 1;
            stats.changed += u32::from(result.changed());
        }
    }

    /// Keeps what a result says: the registered variable, facts, variables, hosts and groups.
    pub(super) fn store(
        &self,
        task: &Arc<Task>,
        outcome: &HostOutcome,
        host: &Arc<str>,
        world: &mut World,
    ) -> Result<()> {
        let name = outcome.action.as_str();
        // Of what failed nothing is kept but what is registered, also if some of its items did not.
        let is_kept = !outcome.result.failed() && !outcome.result.is_unreachable();
        for (result, delegate) in outcome.parts.iter().filter(|_| is_kept) {
            let to: Arc<str> = match delegate {
                Some(other) if outcome.delegate_facts => Arc::from(other.as_str()),
                _ => Arc::clone(host),
            };
            if let Some(facts) = result.get("ansible_facts").filter(|_| name != "include_vars") {
                if name == "set_fact" {
                    let pairs = pairs_of(facts);
                    pairs.iter().for_each(|(name, _)| self.tell_reserved(name));
                    if result.is("_ansible_facts_cacheable") {
                        Arc::make_mut(&mut world.host_mut(&to).facts).extend(pairs.iter().cloned());
                    }
                    Arc::make_mut(&mut world.host_mut(&to).set).extend(pairs);
                    if let Some(origins) = result.get("_windlass_origins") {
                        let origins = pairs_of(origins).into_iter();
                        let origins =
                            origins.map(|(name, word)| (name, Origin::of_word(word.as_str().unwrap_or_default())));
                        Arc::make_mut(&mut world.host_mut(&to).origins).extend(origins);
                    }
                } else {
                    let (mut kept, dropped) = clean_facts(facts);
                    if name == "gather_facts" {
                        kept.push((Arc::from(GATHERED), Value::from(true)));
                    }
                    // What was found out about the host a task was delegated to is always about that host.
                    if let Some(other) = delegate {
                        let other: Arc<str> = Arc::from(other.as_str());
                        let found = kept.extract_if(.., |(name, _)| name.starts_with("discovered_interpreter_"));
                        let found: Vec<_> = found.collect();
                        Arc::make_mut(&mut world.host_mut(&other).facts).extend(found);
                    }
                    if !dropped.is_empty() {
                        self.shared.warn(format!(
                            "{host}: facts that would change how the host is reached were dropped: {}",
                            dropped.join(", ")
                        ));
                    }
                    Arc::make_mut(&mut world.host_mut(&to).facts).extend(kept);
                }
            }
            if let Some(files) = result.get("ansible_included_var_files") {
                let vars = self.included_vars(task, &to, result, files)?;
                Arc::make_mut(&mut world.host_mut(&to).included).extend(vars);
            }
            if let Some(stats) = result.get("ansible_stats") {
                Arc::make_mut(&mut world.custom_stats).add(host, &windlass_template::to_json(stats));
            }
            if result.get("add_host").is_some() || result.get("add_group").is_some() {
                let added = result.only(&["add_host", "add_group", "parent_groups"]).to_value();
                extend_inventory(host, &added, world)?;
                Arc::make_mut(&mut world.dynamic).push((Arc::clone(host), added));
            }
        }
        if let Some(register) = &task.register {
            self.tell_reserved(register);
            let value = registered(task, &outcome.result);
            let state = world.host_mut(host);
            Arc::make_mut(&mut state.set).insert(Arc::clone(register), value);
            // What comes from the project itself is not from outside because it was registered.
            if matches!(name, "set_fact" | "include_vars") {
                Arc::make_mut(&mut state.origins).insert(Arc::clone(register), Origin::Written);
            } else if state.origins.contains_key(register) {
                Arc::make_mut(&mut state.origins).shift_remove(register);
            }
        }
        Ok(())
    }

    fn tell_reserved(&self, name: &str) {
        if let Some(sentence) = reserved::warning(name, &Span::none(), self.shared.run.settings.compat) {
            self.shared.warn(sentence);
        }
    }

    /// The variables of the files that `include_vars` found, as they are written.
    fn included_vars(
        &self,
        task: &Arc<Task>,
        host: &Arc<str>,
        result: &TaskResult,
        files: &Value,
    ) -> Result<IndexMap<Arc<str>, Variable>> {
        let mut read = Mapping::new();
        for file in files.try_iter().into_iter().flatten() {
            let map = self.shared.files.variables(std::path::Path::new(&windlass_template::text(&file)))?;
            reserved::warnings(map.keys(), self.shared.run.settings.compat)
                .for_each(|sentence| self.shared.warn(sentence));
            read.extend(map.iter().map(|(key, node)| (key.clone(), node.clone())));
        }
        let mut vars: IndexMap<Arc<str>, Variable> = match result.text("_include_vars_name") {
            Some(name) => IndexMap::from([(name.into(), Variable::Text(Node::map(read, Span::none())))]),
            None => read.string_entries().map(|(name, node)| (name.into(), Variable::Text(node.clone()))).collect(),
        };
        if result.is("_windlass_merge") {
            let scope = TaskScope::of_task(&self.world, host, task);
            for (name, variable) in &mut vars {
                *variable = crate::vars::merged(variable.clone(), scope.get(name).into_iter());
            }
        }
        Ok(vars)
    }
}

/// What `register` keeps. Of a task that check mode did not run, everything that is not there is unknown.
pub(super) fn registered(task: &Arc<Task>, result: &TaskResult) -> Value {
    if !result.is("_windlass_not_run") && !result.is("_windlass_unknown") {
        return result.to_value();
    }
    let reason = format!("the result of '{}', which is not run in check mode", label::of_task(task, None));
    super::unknown::partial(result, &reason)
}

fn pairs_of(map: &Value) -> Vec<(Arc<str>, Value)> {
    let keys = map.try_iter().into_iter().flatten();
    keys.filter_map(|key| Some((Arc::from(key.as_str()?), map.get_item(&key).ok()?))).collect()
}

/// Adds what `add_host` or `group_by` came to.
pub(super) fn extend_inventory(host: &Arc<str>, added: &Value, world: &mut World) -> Result<()> {
    let field = |of: &Value, name: &str| of.get_attr(name).ok().filter(|value| !value.is_undefined());
    let texts = |list: Option<Value>| -> Vec<String> {
        let items = list.and_then(|list| list.try_iter().ok());
        items.into_iter().flatten().map(|item| windlass_template::text(&item)).collect()
    };
    let inventory = world.inventory_mut();
    if let Some(entry) = field(added, "add_host") {
        let name = windlass_template::text(&field(&entry, "host_name").unwrap_or_default());
        let groups = texts(field(&entry, "groups"));
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let vars = windlass_template::to_json(&field(&entry, "host_vars").unwrap_or_default());
        let vars = Node::from_json(&vars, &Span::synthetic("add_host")).into_literal();
        inventory.add_host(&name, &groups, &vars.as_map().cloned().unwrap_or_default());
    }
    if let Some(group) = field(added, "add_group") {
        let group = windlass_template::text(&group);
        inventory.add_group(&group);
        inventory.add_host_to_group(host, &group);
        for parent in texts(field(added, "parent_groups")).iter().filter(|parent| *parent != "all") {
            inventory.add_child(parent, &group)?;
        }
    }
    Ok(())
}
