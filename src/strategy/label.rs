//! How tasks are called in output.

use std::sync::Arc;

use windlass_template::Context;

use crate::playbook::Task;

/// `role : name`; a task without a name is called by its action.
pub(super) fn of_task(task: &Arc<Task>, context: Option<&Context>) -> String {
    let name = match (&task.name, context) {
        (Some(node), Some(context)) => context.render_tolerant(node),
        (Some(node), None) => node.scalar_text().unwrap_or_default(),
        (None, _) => match task.args.get("_raw_params").and_then(|node| node.as_str()) {
            Some(text) if task.short_action() == "meta" => format!("meta: {text}"),
            _ => task.short_action().to_owned(),
        },
    };
    match task.frame.role() {
        Some(role) => format!("{} : {name}", role.name),
        None => name,
    }
}

/// `host`, or `host -> other` when the task is delegated.
pub(super) fn of_host(host: &str, delegate: Option<&str>) -> String {
    match delegate {
        Some(other) if other != host => format!("{host} -> {other}"),
        _ => host.to_owned(),
    }
}
