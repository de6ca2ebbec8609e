//! Knowledge before a task: facts and variables of a run are unknown, unless its journal has them.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_template::Value;
use windlass_yaml::Node;

use super::{Entered, Listed};
use crate::error::Result;
use crate::journal::{At, Done, ItemDone, Journal, Record};
use crate::outcome::truth;
use crate::playbook::{Play, Task, label};
use crate::strategy::recording;
use crate::strategy::store::Store;

/// Makes variables of earlier tasks unknown, then restores those that the journal has.
pub(super) fn assume(
    entered: &mut Entered,
    host: &Arc<str>,
    before: &[Listed],
    task: &Listed,
    run: Option<&Journal>,
) -> Result<()> {
    let mut world = entered.world.successor();
    let names: Vec<Arc<str>> = world.inventory.hosts().map(|found| Arc::clone(found.name())).collect();
    let gathers = gathers(&entered.play, entered) || before.iter().any(|listed| is_gathering(&listed.task));
    let set = variables(before.iter().map(|listed| &listed.task));
    if gathers {
        super::facts_unknown(&mut world);
    }
    for name in names.iter().filter(|name| *name != host).chain([host]) {
        let state = world.host_mut(name);
        let unknown = set.iter().map(|(name, reason)| (Arc::clone(name), windlass_template::unknown(&**reason)));
        Arc::make_mut(&mut state.set).extend(unknown.collect::<Vec<(Arc<str>, Value)>>());
    }
    entered.world = Arc::new(world);
    match run {
        Some(journal) => restore(entered, host, before, task, journal),
        None => Ok(()),
    }
}

/// Whether a play gathers facts by itself.
fn gathers(play: &Play, entered: &Entered) -> bool {
    let settings = &entered.shared.run.settings;
    play.frame.keywords.get("gather_facts").map_or(settings.facts.gathering != "explicit", |node| {
        match node.as_bool() {
            Some(flag) => flag,
            None => node.scalar_text().is_none_or(|text| truth(&Value::from(text))),
        }
    })
}

fn is_gathering(task: &Task) -> bool {
    matches!(task.short_action(), "setup" | "gather_facts")
}

/// Variables that tasks set on their host, with the reason why they are unknown.
fn variables<'a>(tasks: impl Iterator<Item = &'a Arc<Task>>) -> HashMap<Arc<str>, String> {
    let mut found = HashMap::new();
    for task in tasks {
        if let Some(name) = &task.register {
            found.insert(Arc::clone(name), format!("`{name}`, which the task at {} registers", task.span));
        }
        for name in set_facts(task) {
            found.insert(Arc::from(name), format!("`{name}`, which set_fact at {} sets", task.span));
        }
    }
    found
}

/// Variables that a task of `set_fact` sets.
pub(super) fn set_facts(task: &Task) -> impl Iterator<Item = &str> {
    let is_set = task.short_action() == "set_fact";
    let keys = task.args.string_entries().map(|(name, _)| name);
    keys.filter(move |name| is_set && !matches!(*name, "cacheable" | "_raw_params"))
}

/// Stores the outcomes of earlier tasks, as a resumed run does.
fn restore(
    entered: &mut Entered,
    host: &Arc<str>,
    before: &[Listed],
    target: &Listed,
    journal: &Journal,
) -> Result<()> {
    let tasks: HashMap<String, &Arc<Task>> =
        before.iter().map(|listed| (label::with_position(&listed.task), &listed.task)).collect();
    let end = label::with_position(&target.task);
    let mut items: HashMap<&At, Vec<ItemDone>> = HashMap::new();
    for record in &journal.records {
        match record {
            Record::Item(item) if *item.host == **host => {
                items.entry(&item.at).or_default().push(ItemDone::clone(item));
            }
            Record::Done(done) if *done.host == **host || done.once => {
                if *done.at.task == *end {
                    break;
                }
                let Some(task) = tasks.get(&*done.at.task) else { continue };
                let items = items.remove(&done.at).unwrap_or_default();
                store(entered, host, task, done, items)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn store(entered: &mut Entered, host: &Arc<str>, task: &Arc<Task>, done: &Done, items: Vec<ItemDone>) -> Result<()> {
    let mut world = entered.world.successor();
    if let Some(reason) = done.withheld {
        if let Some(name) = &task.register {
            let reason = format!("`{name}`: in this run, {}", reason.reason());
            let unknown = windlass_template::unknown(reason);
            Arc::make_mut(&mut world.host_mut(host).set).insert(Arc::clone(name), unknown);
        }
    } else if let Some(outcome) = recording::restored(task, host, done.clone(), items) {
        let skipped = outcome.result.is_skipped();
        // A skipped task sets nothing, so earlier values count again.
        for name in set_facts(task).filter(|_| skipped) {
            Arc::make_mut(&mut world.host_mut(host).set).shift_remove(name);
        }
        let store = Store { shared: &entered.shared, before: &entered.world };
        store.store(task, &outcome, host, &mut world)?;
    }
    entered.world = Arc::new(world);
    Ok(())
}

/// Position and action of each task that may set a variable during a run.
pub fn setters(tasks: &[Listed], name: &str) -> Vec<(Arc<Task>, &'static str)> {
    let mut found = Vec::new();
    for listed in tasks {
        let task = &listed.task;
        if task.register.as_deref() == Some(name) {
            found.push((Arc::clone(task), "register"));
        }
        if set_facts(task).any(|set| set == name) {
            found.push((Arc::clone(task), "set_fact"));
        }
    }
    found
}

/// Whether a task reads variables from files during a run.
pub fn includes_vars(task: &Task) -> bool {
    task.short_action() == "include_vars" && task.args.values().any(|node: &Node| !node.is_null())
}
