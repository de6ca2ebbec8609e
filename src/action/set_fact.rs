use std::sync::Arc;

use windlass_template::{Compat, Value};

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

/// `set_fact`: the strategy stores what is in `ansible_facts`.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let cacheable = context.flag("cacheable").unwrap_or(false);
    let mut facts: Vec<(Arc<str>, Value)> = Vec::new();
    for (name, value) in &context.args {
        if &**name == "cacheable" {
            continue;
        }
        let mut characters = name.chars();
        let valid = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !valid {
            return Err(format!(
                "The variable name '{name}' is not valid. Variables must start with a letter or underscore character, and contain only letters, numbers and underscores."
            )
            .into());
        }
        facts.push((Arc::clone(name), classic(context, value)));
    }
    if facts.is_empty() {
        return Err("No key/value pairs provided, at least one is required for this action to succeed".into());
    }
    let facts = Value::from_pairs(facts.iter().map(|(name, value)| (Value::from(&**name), value.clone())));
    Ok(TaskResult::ok(false).with("ansible_facts", facts).with("_ansible_facts_cacheable", cacheable))
}

/// Before 2.19 texts such as `yes` became booleans.
fn classic(context: &ActionContext, value: &Value) -> Value {
    if context.world.run.settings.compat != Compat::V2_18 {
        return value.clone();
    }
    match value.as_str().map(str::to_lowercase).as_deref() {
        Some("true" | "yes") => Value::from(true),
        Some("false" | "no") => Value::from(false),
        _ => value.clone(),
    }
}
