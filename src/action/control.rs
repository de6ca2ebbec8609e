//! `debug`, `fail`, `assert`: nothing leaves the controller.

use windlass_template::Value;
use windlass_yaml::Node;

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

/// `debug`.
pub(super) async fn debug(context: &ActionContext) -> Result<TaskResult, Failure> {
    let verbosity = context.arg("verbosity").and_then(crate::vars::number).unwrap_or(0);
    if verbosity > u64::from(context.world.run.settings.verbosity) {
        return Ok(TaskResult::new().with("skipped_reason", "Verbosity threshold not met.").with("skipped", true));
    }
    let mut result = TaskResult::new().with("_ansible_verbose_always", true);
    // The name of a variable, or an expression; it is not rendered before, so that an undefined one can be told.
    if let Some(node) = context.task.args.get("var") {
        let name = context.context.render_to_string(&Node::clone(node))?;
        let value = match context.context.evaluate(&name, &node.span) {
            Ok(value) => value,
            Err(error) if error.is_undefined() => Value::from(match context.world.run.settings.verbosity {
                0 => "VARIABLE IS NOT DEFINED!".to_owned(),
                _ => format!("VARIABLE IS NOT DEFINED!: {error}"),
            }),
            Err(error) => return Err(error.into()),
        };
        result.set(&name, value);
    } else {
        result.set("msg", context.args.get("msg").cloned().unwrap_or_else(|| Value::from("Hello world!")));
    }
    result.set("changed", false);
    result.set("failed", false);
    Ok(result)
}

/// `fail`.
pub(super) async fn fail(context: &ActionContext) -> Result<TaskResult, Failure> {
    let message = context.arg("msg").cloned().unwrap_or_else(|| Value::from("Failed as requested from task"));
    Ok(TaskResult::new().with("changed", false).with("failed", true).with("msg", message))
}

/// `assert`.
pub(super) async fn assert(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(that) = context.task.args.get("that") else {
        return Err("conditional required in \"that\" string".into());
    };
    let quiet = context.flag("quiet").unwrap_or(false);
    let conditions = match that.as_list() {
        Some(list) => list.to_vec(),
        // A template may stand for the whole list.
        None => match context.context.render(that) {
            Ok(value) if value.kind() == minijinja::value::ValueKind::Seq => {
                let texts = value.try_iter().into_iter().flatten();
                texts.map(|item| Node::string(windlass_template::text(&item), that.span.clone())).collect()
            }
            _ => vec![that.clone()],
        },
    };
    for condition in &conditions {
        if !context.context.condition(condition)? {
            let message = context
                .arg("fail_msg")
                .or_else(|| context.arg("msg"))
                .cloned()
                .unwrap_or_else(|| Value::from("Assertion failed"));
            let assertion = condition.scalar_text().unwrap_or_default();
            let mut result = TaskResult::new().with("changed", false).with("failed", true);
            if !quiet {
                result.set("_ansible_verbose_always", true);
            }
            result.set("evaluated_to", false);
            result.set("assertion", assertion);
            result.set("msg", message);
            return Ok(result);
        }
    }
    let mut result = TaskResult::ok(false);
    result.set("msg", context.arg("success_msg").cloned().unwrap_or_else(|| Value::from("All assertions passed")));
    if !quiet {
        result.set("_ansible_verbose_always", true);
    }
    Ok(result)
}
