//! `set_stats`: statistics for the end of a run. They leave as an [`Effect`], because an action cannot change the run.

use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::outcome::{Effect, StatsUpdate, TaskResult};

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
    let flag = |name: &str, usual: bool| context.arg(name).map_or(usual, crate::outcome::truth);
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
