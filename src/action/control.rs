//! `debug`, `fail`, `assert`: actions that never leave the controller.

use minijinja::value::ValueKind;
use windlass_template::Value;
use windlass_yaml::{Node, Value as Yaml};

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;

/// Message of an action: a text, or a list of texts.
fn message(context: &ActionContext, name: &str) -> Result<Option<Value>, Failure> {
    let Some(value) = context.arg(name) else { return Ok(None) };
    let is_text = |value: &Value| value.kind() == ValueKind::String;
    let is_list = value.kind() == ValueKind::Seq && value.try_iter().into_iter().flatten().all(|item| is_text(&item));
    if !is_text(value) && !is_list {
        return Err(Failure::Failed(format!(
            "{name} must be a text or a list of texts, not {}.",
            windlass_template::type_name(value)
        )));
    }
    Ok(Some(value.clone()))
}

/// Result keys that decide the outcome of a task.
const VERDICTS: &[&str] = &["failed_when_result", "rc", "results", "skipped", "unreachable"];

/// `debug`: prints a message or a variable.
pub(super) async fn debug(context: &ActionContext) -> Result<TaskResult, Failure> {
    let verbosity = match context.arg("verbosity") {
        None => 0,
        Some(value) => crate::vars::number(value)
            .ok_or_else(|| Failure::Failed(format!("verbosity must be a number, not `{value}`")))?,
    };
    if verbosity > u64::from(context.world.run.settings.verbosity) {
        let skipped = TaskResult::new().with("skipped_reason", "Verbosity threshold not met.").with("skipped", true);
        return Ok(skipped.with("failed", false).with("changed", false));
    }
    let mut result = TaskResult::new().always_shown();
    // `var` is not rendered beforehand, so that an undefined variable can be reported.
    if let Some(node) = context.task.args.get("var") {
        let mut name = context.context.render_to_string(node)?;
        let is_template = node.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"));
        let value = match is_template || !context.world.run.settings.compat.renders_debug_var() {
            true => context.context.evaluate(node),
            false => context.context.render(&node.reworded(format!("{{{{ {name} }}}}"))),
        };
        let value = match value {
            Ok(value) => value,
            Err(error) if error.is_undefined() => Value::from(match context.world.run.settings.verbosity {
                0 => "VARIABLE IS NOT DEFINED!".to_owned(),
                _ => format!("VARIABLE IS NOT DEFINED!: {error}"),
            }),
            Err(error) => return Err(error.into()),
        };
        // Data must not choose a key that decides the outcome.
        if is_template && VERDICTS.contains(&name.as_str()) {
            name = node.scalar_text().unwrap_or_default();
        }
        result.set(&name, value);
    } else {
        result.set("msg", context.args.get("msg").cloned().unwrap_or_else(|| Value::from("Hello world!")));
    }
    result.set("changed", false);
    result.set("failed", false);
    Ok(result)
}

/// `fail`: fails with a message.
pub(super) async fn fail(context: &ActionContext) -> Result<TaskResult, Failure> {
    let message = context.arg("msg").cloned().unwrap_or_else(|| Value::from("Failed as requested from task"));
    Ok(TaskResult::new().with("changed", false).with("failed", true).with("msg", message))
}

/// `assert`: fails if one of its conditions is false.
pub(super) async fn assert(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(that) = context.task.args.get("that") else { return Err("missing required arguments: that".into()) };
    let fail_message = message(context, "fail_msg")?;
    let success_message = message(context, "success_msg")?;
    let quiet = context.flag("quiet").unwrap_or(false);
    let renders = context.world.run.settings.compat.renders_assertions();
    // A template may produce the whole list.
    let written = that.as_list().map(<[Node]>::to_vec).or_else(|| context.context.list_of_project(that));
    let conditions = match written {
        Some(list) => list,
        None => match context.context.render(that) {
            // Text in a list that a template produced is data, and data is never evaluated as a condition.
            Ok(value) if value.kind() == minijinja::value::ValueKind::Seq => {
                let items = value.try_iter().into_iter().flatten();
                items.map(|item| Node::from_json(&windlass_template::to_json(&item), &that.span)).collect()
            }
            Ok(value) if renders && value.kind() == ValueKind::Bool => {
                vec![Node::new(Yaml::Bool(value.is_true()), that.span.clone())]
            }
            _ => vec![that.clone()],
        },
    };
    for condition in &conditions {
        let holds = match renders && that.as_list().is_none() {
            true => context.context.condition_with_delimiters(condition)?,
            false => context.context.condition(condition)?,
        };
        if !holds {
            let message = fail_message.unwrap_or_else(|| Value::from("Assertion failed"));
            let assertion = match condition.as_bool() {
                Some(constant) => Value::from(constant),
                None => Value::from(condition.scalar_text().unwrap_or_default()),
            };
            let mut result = TaskResult::new().with("changed", false).with("failed", true);
            if !quiet {
                result = result.always_shown();
            }
            result.set("evaluated_to", false);
            result.set("assertion", assertion);
            result.set("msg", message);
            return Ok(result);
        }
    }
    let mut result = TaskResult::unchanged();
    result.set("msg", success_message.unwrap_or_else(|| Value::from("All assertions passed")));
    if !quiet {
        result = result.always_shown();
    }
    Ok(result)
}
