//! `set_stats`: statistics for the end of a run. They leave as an [`Effect`], because an action cannot change the run.

use windlass_modules::{Kind, Opt, Return, Spec};
use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::outcome::{Effect, StatsUpdate, TaskResult};

pub(super) static SPEC: Spec = Spec {
    name: "set_stats",
    lists_unknown: true,
    summary: "Collect custom statistics of a run",
    description: &["They are printed at the end of the run if `show_custom_stats` is set in ansible.cfg, or \
         ANSIBLE_SHOW_CUSTOM_STATS in the environment."],
    options: &[
        Opt::new("data", Kind::Raw, "A mapping of names to values."),
        Opt::new("per_host", Kind::Raw, "Keep separate values for each host.").default("false"),
        Opt::new("aggregate", Kind::Raw, "Add to an existing value instead of replacing it.").default("true"),
    ],
    examples: "- name: Count the packages\n  ansible.builtin.set_stats:\n    data:\n      packages: \"{{ ansible_facts.packages | length }}\"\n",
    returns: &[Return {
        name: "ansible_stats",
        kind: "dict",
        when: "success",
        doc: "The statistics, and how they were stored.",
    }],
    ..Spec::EMPTY
};

/// Statistics under their rendered names.
fn with_names(context: &ActionContext, data: &Value) -> Result<Value, Failure> {
    let Some(written) = context.task.args.get("data").and_then(|node| node.as_map()) else { return Ok(data.clone()) };
    let mut named = Vec::new();
    for key in written.keys() {
        if let Ok(value) = data.get_item(&Value::from(key.to_text()))
            && !value.is_undefined()
        {
            named.push((Value::from(context.context.render_to_string(&key.as_node())?), value));
        }
    }
    Ok(Value::from_pairs(named))
}

/// `set_stats`: sets statistics of the run or of the host.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let flag = |name: &str, usual: bool| context.arg(name).map_or(usual, crate::vars::truth);
    let data = match context.arg("data") {
        None => Value::from_pairs(std::iter::empty::<(Value, Value)>()),
        Some(data) if data.kind() == minijinja::value::ValueKind::Map => with_names(context, data)?,
        Some(_) => return Err("The 'data' option needs to be a dictionary/hash".into()),
    };
    for name in data.try_iter().into_iter().flatten() {
        super::set_fact::check_name(&windlass_template::text(&name))?;
    }
    let (per_host, aggregate) = (flag("per_host", false), flag("aggregate", true));
    let stats = Value::from_pairs([
        (Value::from("data"), data.clone()),
        (Value::from("per_host"), Value::from(per_host)),
        (Value::from("aggregate"), Value::from(aggregate)),
    ]);
    let data = windlass_template::to_json(&data).as_object().cloned().unwrap_or_default();
    let update = StatsUpdate { data, per_host, aggregate };
    Ok(TaskResult::unchanged().with("ansible_stats", stats).with_effect(Effect::Stats(update)))
}
