//! Names of tasks and hosts in the output.

use std::path::Path;
use std::sync::Arc;

use windlass_template::Context;

use super::model::Task;

/// `role : name`. A task without a name is labelled by its action.
pub(crate) fn of_task(task: &Arc<Task>, context: Option<&Context>) -> String {
    let name = match (&task.name, context) {
        (Some(node), Some(context)) => context.render_tolerant(node),
        (Some(node), None) => node.scalar_text().unwrap_or_default(),
        (None, _) if task.short_action() == "include_role" => {
            let role = ["name", "role"].iter().find_map(|name| task.args.get(name)).and_then(|node| node.scalar_text());
            return format!("{} : {}", task.action, role.unwrap_or_default());
        }
        (None, _) => task.action.clone(),
    };
    match task.frame.role() {
        // ansible-core prints the names of included roles without a prefix.
        Some(role) if task.short_action() != "include_role" => format!("{} : {name}", role.name),
        _ => name,
    }
}

/// Name of a task in the lines about its attempts: without the role, if it has a name.
pub(crate) fn of_attempt(task: &Arc<Task>, context: &Context) -> String {
    task.name.as_ref().map_or_else(|| of_task(task, Some(context)), |name| context.render_tolerant(name))
}

/// Identifies a task by label and position, which are equal in every run over the same files. The name of a task in an
/// encrypted file is left out: journals hold the result as it is.
pub(crate) fn with_position(task: &Arc<Task>) -> String {
    let label = if task.span.source.is_secret() { "********".to_owned() } else { of_task(task, None) };
    if !task.span.is_located() {
        return format!("'{label}'");
    }
    let file = crate::paths::absolute(Path::new(&task.span.source.name));
    format!("'{label}' ({}:{})", file.display(), task.span.line)
}

/// `host`, or `host -> other` for a delegated task, with the other's address if it differs from its name.
pub(crate) fn of_host(host: &str, delegate: Option<&str>, address: Option<&str>) -> String {
    match (delegate, address) {
        (Some(other), Some(address)) if other != host && address != other => format!("{host} -> {other}({address})"),
        (Some(other), _) if other != host => format!("{host} -> {other}"),
        _ => host.to_owned(),
    }
}
