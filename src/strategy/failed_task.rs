//! `ansible_failed_task`: description of the failed task for `rescue`.

use windlass_template::{Context, Value, from_json};
use windlass_yaml::Node;

use crate::outcome::Arguments;
use crate::playbook::Task;
use crate::settings::Settings;
use crate::vars::given;

/// Keywords with a single value, sorted by name.
const SINGLE: &[&str] = &[
    "any_errors_fatal",
    "async",
    "become",
    "become_exe",
    "become_flags",
    "become_method",
    "become_user",
    "check_mode",
    "collections",
    "connection",
    "debugger",
    "delay",
    "delegate_facts",
    "delegate_to",
    "diff",
    "environment",
    "ignore_errors",
    "ignore_unreachable",
    "loop",
    "loop_control",
    "module_defaults",
    "no_log",
    "notify",
    "poll",
    "port",
    "remote_user",
    "retries",
    "run_once",
    "throttle",
    "timeout",
];

/// Describes a task with its templates evaluated. A looped task is described as written because each item has its own
/// values.
pub(super) fn described(task: &Task, context: &Context, settings: &Settings, args: Option<&Arguments>) -> Value {
    let is_loop = task.with_lookup.is_some() || task.keywords.get("loop").is_some();
    let written = |node: &Node| from_json(&node.to_json());
    let evaluated = |node: &Node| match is_loop {
        true => written(node),
        false => given(context, node).map_or_else(|_| written(node), |value| value.unwrap_or_else(nothing)),
    };
    let all = |nodes: &[Node]| nodes.iter().map(written).collect::<Value>();
    let of_task = |map: &windlass_yaml::Mapping, value: &dyn Fn(&Node) -> Value| {
        Value::from_pairs(map.iter().map(|(key, node)| (Value::from(key.to_text()), value(node))))
    };
    let args = match args.filter(|_| !is_loop && !task.may_be_hidden(settings.no_log)) {
        Some(args) => Value::from_pairs(args.iter().map(|(name, value)| (Value::from(&**name), value.clone()))),
        None => of_task(&task.args, &written),
    };
    let mut described: Vec<(&str, Value)> = SINGLE
        .iter()
        .map(|&name| (name, task.keyword(name).map_or_else(|| default(name, settings), evaluated)))
        .collect();
    described.extend([
        ("action", Value::from(task.action.as_str())),
        ("args", args),
        ("async_val", task.keyword("async").map_or_else(|| Value::from(0), evaluated)),
        ("changed_when", all(&task.keywords.list("changed_when"))),
        ("failed_when", all(&task.keywords.list("failed_when"))),
        ("loop_with", task.with_lookup.as_ref().map_or_else(nothing, |(lookup, _)| Value::from(lookup.as_str()))),
        ("name", task.name.as_ref().map_or_else(|| Value::from(""), evaluated)),
        ("register", task.register.as_ref().map_or_else(nothing, |name| Value::from(&**name))),
        ("tags", task.tags.iter().map(|tag| Value::from(tag.as_str())).collect()),
        ("until", all(&task.keywords.list("until"))),
        ("vars", of_task(&task.vars, &evaluated)),
        ("when", all(&task.when)),
    ]);
    described.sort_by_key(|(name, _)| *name);
    Value::from_pairs(described)
}

/// Default of a keyword that is not set.
fn default(name: &str, settings: &Settings) -> Value {
    match name {
        "any_errors_fatal" => Value::from(settings.any_errors_fatal),
        "async" | "throttle" => Value::from(0),
        "become" => Value::from(settings.r#become.enabled),
        "become_method" => Value::from(settings.r#become.method.as_str()),
        "check_mode" => Value::from(settings.check),
        "connection" => Value::from(settings.connect.transport.as_str()),
        "delay" => Value::from(5),
        "diff" => Value::from(settings.diff),
        "collections" | "environment" | "module_defaults" => Value::from(Vec::<Value>::new()),
        "no_log" => Value::from(settings.no_log),
        "poll" => Value::from(settings.poll_interval),
        "timeout" => Value::from(settings.task_timeout),
        _ => nothing(),
    }
}

fn nothing() -> Value {
    Value::from(())
}
