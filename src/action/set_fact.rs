//! `set_fact`: variables of a host from evaluated arguments.

use std::sync::Arc;

use windlass_template::{Origin, Value};
use windlass_yaml::Node;

use super::{ActionContext, Failure};
use crate::outcome::{Effect, SetFacts, TaskResult};

/// `set_fact`: sets variables of the host.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let cacheable = context.flag("cacheable").unwrap_or(false);
    let mut facts: Vec<(Arc<str>, Value)> = Vec::new();
    for (name, value) in &context.args {
        if &**name == "cacheable" {
            continue;
        }
        check_name(name)?;
        facts.push((Arc::clone(name), converted(context, value)));
    }
    if facts.is_empty() {
        return Err("No key/value pairs provided, at least one is required for this action to succeed".into());
    }
    let origins = match context.world.run.settings.compat.traces_origins() {
        true => origins(context, &facts),
        false => Vec::new(),
    };
    let shown = Value::from_pairs(facts.iter().map(|(name, value)| (Value::from(&**name), value.clone())));
    let effect = Effect::SetFacts(SetFacts { vars: facts, cacheable, origins });
    Ok(TaskResult::unchanged()
        .with("_ansible_facts_cacheable", cacheable)
        .with("ansible_facts", shown)
        .with_effect(effect))
}

/// Origins of the texts.
fn origins(context: &ActionContext, facts: &[(Arc<str>, Value)]) -> Vec<(Arc<str>, Origin)> {
    let args = &context.task.args;
    // Text split from a line (`name=text`) loses its origin: all arguments share the position of the line.
    let is_split = |name: &str, node: &Node| {
        let line = node.span.source.line(node.span.line).unwrap_or_default();
        line.chars().skip(node.span.column.saturating_sub(1) as usize).collect::<String>().contains(&format!("{name}="))
    };
    let origin = |name: &str| match args.get(name).map(|node| (is_split(name, node), context.context.origin(node))) {
        Some((true, Origin::Written)) | None => Origin::Made,
        Some((_, origin)) => origin,
    };
    facts.iter().map(|(name, _)| (Arc::clone(name), origin(name))).collect()
}

/// Fails if a name is not valid for a variable.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    if crate::playbook::is_identifier(name) {
        return Ok(());
    }
    Err(format!(
        "The variable name '{name}' is not valid. Variables must start with a letter or underscore character, and contain only letters, numbers and underscores."
    )
    .into())
}

/// A value as `set_fact` stores it.
fn converted(context: &ActionContext, value: &Value) -> Value {
    let settings = &context.world.run.settings;
    if !settings.compat.converts_words_of_set_fact() || settings.jinja2_native {
        return value.clone();
    }
    match value.as_str().map(str::to_lowercase).as_deref() {
        Some("true" | "yes") => Value::from(true),
        Some("false" | "no") => Value::from(false),
        _ => value.clone(),
    }
}
