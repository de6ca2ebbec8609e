//! `add_host` and `group_by`, which change the inventory of the run.

use windlass_template::Value;
use windlass_yaml::{Node, Span};

use super::{ActionContext, Failure};
use crate::builtin::ADD_HOST;
use crate::outcome::{Effect, InventoryChange, LONGEST_HOST, NewGroup, NewHost, TaskResult};

/// `add_host`: adds a host to the inventory of the run.
pub(super) async fn add_host(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(given) = context.text("name") else {
        return Err("name, host or hostname needs to be provided".into());
    };
    let (name, port) = windlass_inventory::parse_address(&given).unwrap_or((&given, None));
    let name = name.to_owned();
    if name.len() > LONGEST_HOST {
        let length = name.len();
        return Err(format!("the name of the new host has {length} bytes, and {LONGEST_HOST} are the most").into());
    }
    let groups: Vec<String> = match context.arg("groups") {
        None => Vec::new(),
        Some(value) if value.kind() == minijinja::value::ValueKind::Map => {
            return Err("groups must be a list of names, not a mapping".into());
        }
        Some(value) => names(value),
    };
    let vars = context.args.iter().filter(|(key, _)| ADD_HOST.option(key).is_none());
    let vars = vars.map(|(key, value)| (Value::from(&**key), value.clone()));
    let port = port.map(|port| (Value::from("ansible_ssh_port"), Value::from(port)));
    let vars = Value::from_pairs(vars.chain(port));
    let changed = is_new(context, &name, &groups, &vars);
    let entry = Value::from_pairs([
        ("host_name", Value::from(name.as_str())),
        ("groups", groups.iter().map(|group| Value::from(group.as_str())).collect()),
        ("host_vars", vars.clone()),
    ]);
    let vars = Node::from_json(&windlass_template::to_json(&vars), &Span::synthetic("add_host"));
    let vars = vars.as_map().cloned().unwrap_or_default();
    let effect = Effect::Inventory(InventoryChange::Host(NewHost { name, groups, vars }));
    Ok(TaskResult::ok(changed).with("add_host", entry).with_effect(effect))
}

/// `group_by`: adds the host to a group named by a template.
pub(super) async fn group_by(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(key) = context.text("key") else { return Err("the 'key' param is required when using group_by".into()) };
    let clean = |name: &str| name.replace(' ', "-");
    let parents: Vec<String> = match context.arg("parents") {
        None => vec!["all".to_owned()],
        Some(value) => names(value).iter().map(|name| clean(name)).collect(),
    };
    let group = clean(&key);
    let inventory = &context.world.inventory;
    let is_in = inventory
        .host(&context.host)
        .is_some_and(|host| inventory.groups_of(host).iter().any(|known| **known.name() == *group));
    // The first host of the batch puts the group below its parents.
    let is_below = |parent: &String| {
        let children = inventory.children_of_group(parent);
        children.iter().any(|child| **child.name() == *group)
    };
    let batch = context.world.play.as_ref().map(|play| &play.batch);
    let is_first = batch.is_none_or(|batch| batch.first().is_none_or(|host| *host == context.host));
    let is_moved = is_first && is_in && parents.iter().any(|parent| parent != "all" && !is_below(parent));
    Ok(TaskResult::ok(!is_in || is_moved)
        .with("add_group", group.as_str())
        .with("parent_groups", parents.iter().map(|parent| Value::from(parent.as_str())).collect::<Value>())
        .with_effect(Effect::Inventory(InventoryChange::Group(NewGroup { name: group, parents }))))
}

/// Whether a host, one of its groups or one of its variables is new.
fn is_new(context: &ActionContext, name: &str, groups: &[String], vars: &Value) -> bool {
    let inventory = &context.world.inventory;
    let Some(host) = inventory.host(name) else { return true };
    let in_groups = inventory.groups_of(host);
    let in_all = groups.iter().all(|group| in_groups.iter().any(|known| **known.name() == **group));
    let known = context.world.host_context(&std::sync::Arc::from(name));
    let same = |key: &Value| {
        let given = vars.get_item(key).unwrap_or_default();
        key.as_str().is_some_and(|key| known.variable(key).ok().flatten() == Some(given))
    };
    !in_all || !vars.try_iter().into_iter().flatten().all(|key| same(&key))
}

/// Names from a list, or from a text separated by commas.
fn names(value: &Value) -> Vec<String> {
    match value.as_str() {
        Some(text) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        None => value.try_iter().into_iter().flatten().map(|item| windlass_template::text(&item)).collect(),
    }
}
