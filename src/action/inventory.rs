//! `add_host` and `group_by`: the strategy changes the inventory by what is in the result.

use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

/// `add_host`.
pub(super) async fn add_host(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(name) = ["name", "hostname", "host"].iter().find_map(|key| context.text(key)) else {
        return Err("name, host or hostname needs to be provided".into());
    };
    let groups = ["groups", "group", "groupname"].iter().find_map(|key| context.arg(key));
    let groups: Vec<Value> = match groups {
        None => Vec::new(),
        Some(value) => names(value).into_iter().map(Value::from).collect(),
    };
    let special = ["name", "hostname", "host", "groups", "group", "groupname"];
    let vars = context.args.iter().filter(|(key, _)| !special.contains(&&***key));
    let vars = Value::from_pairs(vars.map(|(key, value)| (Value::from(&**key), value.clone())));
    let changed = is_new(context, &name, &groups, &vars);
    let entry = Value::from_pairs([
        ("host_name", Value::from(name)),
        ("groups", groups.into_iter().collect()),
        ("host_vars", vars),
    ]);
    Ok(TaskResult::ok(changed).with("add_host", entry))
}

/// `group_by`.
pub(super) async fn group_by(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(key) = context.text("key") else { return Err("the 'key' param is required when using group_by".into()) };
    let clean = |name: &str| name.replace(' ', "-");
    let parents: Vec<Value> = match context.arg("parents") {
        None => vec![Value::from("all")],
        Some(value) => names(value).iter().map(|name| Value::from(clean(name))).collect(),
    };
    let group = clean(&key);
    let inventory = &context.world.inventory;
    let is_in = inventory
        .host(&context.host)
        .is_some_and(|host| inventory.groups_of(host).iter().any(|known| **known.name() == *group));
    Ok(TaskResult::ok(!is_in).with("add_group", group).with("parent_groups", parents.into_iter().collect::<Value>()))
}

/// Whether a host, its groups or its variables say something new.
fn is_new(context: &ActionContext, name: &str, groups: &[Value], vars: &Value) -> bool {
    let inventory = &context.world.inventory;
    let Some(host) = inventory.host(name) else { return true };
    let in_groups = inventory.groups_of(host);
    let in_all = groups.iter().all(|group| in_groups.iter().any(|known| Some(&**known.name()) == group.as_str()));
    let known = context.world.host_context(&std::sync::Arc::from(name));
    let same = |key: &Value| {
        let given = vars.get_item(key).unwrap_or_default();
        key.as_str().is_some_and(|key| known.variable(key).ok().flatten() == Some(given))
    };
    !in_all || !vars.try_iter().into_iter().flatten().all(|key| same(&key))
}

/// A list of names, or a text with commas.
fn names(value: &Value) -> Vec<String> {
    match value.as_str() {
        Some(text) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        None => value.try_iter().into_iter().flatten().map(|item| windlass_template::text(&item)).collect(),
    }
}
