//! Knowledge before a task: facts and variables of a run are unknown, unless its journal has them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;
use windlass_template::{Value, Variable};
use windlass_yaml::Node;

use super::{Entered, Include, Listed};
use crate::error::Result;
use crate::journal::{At, Done, ItemDone, Journal, ObjectText, Record, Withheld};
use crate::outcome::{FactNames, HostFacts, InventoryChange, NewGroup, NewHost, truth};
use crate::playbook::{Play, Task, label};
use crate::strategy::recording;
use crate::strategy::store::{Store, extend_inventory};
use crate::vars::World;
use crate::vars::secrecy::MASK;

/// Point of a run up to which its outcomes are known.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// Before a task.
    Task(&'a Listed),
    /// After a play, given by its number in the run.
    Play(u32),
}

impl Until<'_> {
    fn includes(&self) -> &[Include] {
        match self {
            Until::Task(listed) => &listed.includes,
            Until::Play(_) => &[],
        }
    }
}

/// Part of the reason why the variable of a loop over a block is unknown.
const ITEM_OF_BLOCK: &str = ", an item of the loop over the block at ";

/// Whether a variable is that of a loop over a block around the task.
pub fn is_item_of_block(variable: &Variable) -> bool {
    matches!(variable, Variable::Data(value)
        if windlass_template::unknown_reason(value).is_some_and(|reason| reason.contains(ITEM_OF_BLOCK)))
}

/// Makes variables of earlier tasks unknown, then restores those that the journal has.
pub(super) fn assume(
    entered: &mut Entered,
    host: &Arc<str>,
    before: &[Listed],
    until: Until<'_>,
    run: Option<&Journal>,
) -> Result<()> {
    let mut world = entered.world.successor();
    let names: Vec<Arc<str>> = world.inventory.hosts().map(|found| Arc::clone(found.name())).collect();
    let gathers = gathers(&entered.play, entered) || before.iter().any(|listed| listed.task.gathers_facts());
    let mut set = variables(before.iter().map(|listed| &listed.task));
    set.extend(until.includes().iter().filter(|include| include.looped.is_some()).map(|include| {
        let name = include.keywords.get("loop_control").and_then(|control| control.get("loop_var")?.as_str());
        let name: Arc<str> = Arc::from(name.unwrap_or("item"));
        let reason = format!("`{name}`{ITEM_OF_BLOCK}{}", include.span);
        (name, reason)
    }));
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
        Some(journal) => restore(entered, host, before, until, journal),
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

/// Variables that tasks set on their host, with the reason why they are unknown.
fn variables<'a>(tasks: impl Iterator<Item = &'a Arc<Task>>) -> HashMap<Arc<str>, String> {
    let mut found = HashMap::new();
    for task in tasks {
        if let Some(name) = &task.register {
            found.insert(Arc::clone(name), format!("`{name}`, which the task at {} registers", task.span));
        }
        for name in set_facts(task) {
            found.insert(Arc::from(name), format!("{}set_fact at {} sets", pending(name), task.span));
        }
    }
    found
}

/// Beginning of the reason why a variable is unknown that a task may set.
fn pending(name: &str) -> String {
    format!("`{name}`, which ")
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
    until: Until<'_>,
    journal: &Journal,
) -> Result<()> {
    let tasks: HashMap<String, &Arc<Task>> =
        before.iter().map(|listed| (label::with_position(&listed.task), &listed.task)).collect();
    let (end, last) = match until {
        Until::Task(target) => (label::with_position(&target.task), u32::MAX),
        Until::Play(number) => (String::new(), number),
    };
    let mut items: HashMap<&At, Vec<ItemDone>> = HashMap::new();
    let delegated = delegated(journal);
    for record in &journal.records {
        match record {
            Record::Play(play) if play.play > last => break,
            Record::Item(item) => {
                effect(&mut entered.world, &item.host, of_item(item, &delegated), &item.effect)?;
                if *item.host == **host {
                    items.entry(&item.at).or_default().push(ItemDone::clone(item));
                }
            }
            Record::Done(done) => {
                let is_own = *done.host == **host || done.once;
                if is_own && *done.at.task == *end {
                    break;
                }
                effect(&mut entered.world, &done.host, of_facts(done), &done.effect)?;
                let task = tasks.get(&*done.at.task).filter(|_| is_own && done.effect.is_empty());
                let Some(task) = task else { continue };
                let items = items.remove(&done.at).unwrap_or_default();
                store(entered, host, task, done, items)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Applies the groups, hosts and facts that the tasks of a play added to a run, to a world after that play.
pub(super) fn effects(world: &mut Arc<World>, journal: &Journal, play: u32) -> Result<()> {
    let delegated = delegated(journal);
    for record in &journal.records {
        match record {
            Record::Item(item) if item.at.play == play => {
                effect(world, &item.host, of_item(item, &delegated), &item.effect)?;
            }
            Record::Done(done) if done.at.play == play => effect(world, &done.host, of_facts(done), &done.effect)?,
            _ => {}
        }
    }
    Ok(())
}

/// Host that the facts of a task belong to, if it is another one.
fn of_facts(done: &Done) -> Option<&str> {
    done.delegate.as_deref().filter(|_| done.delegate_facts)
}

/// Loops on hosts whose facts belong to the hosts that their items were delegated to.
fn delegated(journal: &Journal) -> HashSet<(&At, &str)> {
    let done = journal.records.iter().filter_map(|record| match record {
        Record::Done(done) => Some(done),
        _ => None,
    });
    done.filter(|done| done.delegate_facts).map(|done| (&done.at, done.host.as_str())).collect()
}

/// Host that the facts of an item belong to, if it is another one.
fn of_item<'i>(item: &'i ItemDone, delegated: &HashSet<(&At, &str)>) -> Option<&'i str> {
    item.delegate.as_deref().filter(|_| delegated.contains(&(&item.at, item.host.as_str())))
}

/// Reason why a fact that a run gathered is unknown.
const LEFT_OUT: &str = "a fact that the journal of the run leaves out";

/// Applies an effect of a journal, which is data: names that are not texts are ignored, and facts pass the checks of a
/// host's answer.
fn effect(world: &mut Arc<World>, host: &str, delegate: Option<&str>, effect: &ObjectText) -> Result<()> {
    if effect.is_empty() {
        return Ok(());
    }
    let effect = effect.read();
    let text = |json: &Json| json.as_str().filter(|text| !text.contains(MASK)).map(str::to_owned);
    let texts = |json: Option<&Json>| -> Vec<String> {
        json.and_then(Json::as_array).into_iter().flatten().filter_map(text).collect()
    };
    let mut next = world.successor();
    let host: Arc<str> = Arc::from(host);
    if let Some(name) = effect.get("add_group").and_then(text) {
        let group = NewGroup { name, parents: texts(effect.get("parent_groups")) };
        extend_inventory(&host, &InventoryChange::Group(group), &mut next)?;
    }
    if let Some(added) = effect.get("add_host")
        && let Some(name) = added.get("host_name").and_then(text)
    {
        let new = NewHost { name, groups: texts(added.get("groups")), vars: Arc::default() };
        extend_inventory(&host, &InventoryChange::Host(new), &mut next)?;
    }
    if let Some(facts) = effect.get("ansible_facts") {
        let owner = delegate.map_or(host, Arc::from);
        super::facts_unknown_on(&mut next, &owner);
        let read = HostFacts::of_host(&windlass_template::from_json(facts), FactNames::of_module("setup"));
        let known = Arc::make_mut(&mut next.host_mut(&owner).facts);
        known.extend(&read);
        known.explain_unknown(LEFT_OUT);
    }
    *world = Arc::new(next);
    Ok(())
}

fn store(entered: &mut Entered, host: &Arc<str>, task: &Arc<Task>, done: &Done, items: Vec<ItemDone>) -> Result<()> {
    let mut world = entered.world.successor();
    if let Some(reason) = done.withheld {
        for name in task.register.iter().map(|name| &**name).chain(set_facts(task)) {
            let reason = format!("`{name}`: in this run, {}", reason.reason());
            let unknown = windlass_template::unknown(reason);
            Arc::make_mut(&mut world.host_mut(host).set).insert(Arc::from(name), unknown);
        }
    } else if let Some(outcome) = recording::restored(task, host, done.clone(), items) {
        let skipped = outcome.result.is_skipped();
        // A skipped task sets nothing, so a variable that no earlier task has set is not unknown.
        for name in set_facts(task).filter(|_| skipped) {
            let set = Arc::make_mut(&mut world.host_mut(host).set);
            let reason = set.get(name).and_then(windlass_template::unknown_reason);
            if reason.is_some_and(|reason| reason.starts_with(&pending(name))) {
                set.shift_remove(name);
            }
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

/// Value that a task gave a variable on a host in a run, as its journal has it: masked, and without large values.
pub fn set_in_run(journal: &Journal, (task, how): (&Arc<Task>, &str), host: &str, name: &str) -> Option<Json> {
    let done = outcome(journal, task, host).filter(|done| done.withheld.is_none_or(|why| why == Withheld::Masked))?;
    if how == "register" {
        return (!done.result.is_empty()).then(|| Json::Object(done.result.read()));
    }
    let of_items = journal.records.iter().filter_map(|record| match record {
        Record::Item(item) if item.at == done.at && item.host == done.host => Some(&item.result),
        _ => None,
    });
    let set = std::iter::once(&done.result).chain(of_items);
    set.filter_map(|result| result.get("ansible_facts")?.get(name).cloned()).next_back()
}

/// Last outcome of a task on a host in a run.
pub fn outcome<'j>(journal: &'j Journal, task: &Arc<Task>, host: &str) -> Option<&'j Done> {
    let name = label::with_position(task);
    let mut done = journal.records.iter().filter_map(|record| match record {
        Record::Done(done) => Some(&**done),
        _ => None,
    });
    done.rfind(|done| *done.at.task == *name && (done.host == host || done.once))
}

/// Whether a task reads variables from files during a run.
pub fn includes_vars(task: &Task) -> bool {
    task.short_action() == "include_vars" && task.args.values().any(|node: &Node| !node.is_null())
}

/// Whether a task adds groups or hosts during a run.
pub fn is_grouping(task: &Task) -> bool {
    matches!(task.short_action(), "add_host" | "group_by")
}
