//! Checks includes and imports of tasks and roles: their arguments and the keywords beside them.

use windlass_yaml::Node;

use crate::error::{Error, Result, did_you_mean};
use crate::playbook::Task;
use crate::playbook::keyword::KEYWORDS;

/// Keywords allowed on a dynamic include.
const BESIDE_INCLUDES: &[&str] = &[
    "action",
    "args",
    "collections",
    "debugger",
    "ignore_errors",
    "loop",
    "loop_control",
    "name",
    "no_log",
    "register",
    "run_once",
    "tags",
    "timeout",
    "vars",
    "when",
    "listen",
    "delegate_to",
    "notify",
];

/// Arguments that select a file of a role.
const FROM: &[&str] = &["tasks_from", "vars_from", "defaults_from", "handlers_from"];

const OF_ROLES: &[&str] = &["name", "role", "allow_duplicates", "public", "rolespec_validate"];

const OF_TASKS: &[&str] = &["file", "_raw_params"];

/// Fails for keywords that a dynamic include cannot have.
pub(super) fn keywords(task: &Task) -> Result<()> {
    for (word, _) in KEYWORDS {
        if let Some(node) = task.keywords.get(word)
            && !BESIDE_INCLUDES.contains(word)
        {
            return Err(Error::parse(format!("'{word}' is not a valid attribute for a TaskInclude"), &node.span)
                .hint(format!("put it under `apply:` of {} to give it to the included tasks", task.short_action())));
        }
    }
    Ok(())
}

/// Fails for arguments that no variable can make valid.
pub(super) fn arguments(task: &Task) -> Result<()> {
    // All arguments come from a variable.
    if task.args_template.is_some() {
        return Ok(());
    }
    let action = &task.action;
    let is_role = task.short_action().ends_with("_role");
    let is_include = task.short_action().starts_with("include_");
    let given = |names: &[&str]| {
        let found = names.iter().find_map(|name| task.args.get(name));
        found.is_some_and(|node| !node.is_null() && node.as_str() != Some(""))
    };
    if is_role && !given(&["name", "role"]) {
        return Err(Error::parse(format!("'name' is a required field for {action}."), &task.span));
    }
    let known: Vec<&str> = if is_role { [OF_ROLES, FROM].concat() } else { OF_TASKS.to_vec() };
    for (key, node) in task.args.iter() {
        let name = key.to_text();
        if name == "apply" && is_include {
            if node.as_map().is_none() && !node.is_null() {
                let message = format!("Expected a dict for apply but got {} instead", node.kind());
                return Err(Error::parse(message, &node.span).hint("`apply` must be a mapping of keywords to values"));
            }
            continue;
        }
        if !known.contains(&name.as_str()) {
            let hint = match name.as_str() {
                "apply" => Some(format!(
                    "keywords of an import apply to everything it imports; `apply` is for includes of {}",
                    if is_role { "roles" } else { "tasks" }
                )),
                _ => did_you_mean(&name, known.iter().copied().chain(is_include.then_some("apply"))),
            };
            return Err(Error::parse(format!("Invalid options for {action}: {name}"), &key.span).maybe_hint(hint));
        }
        if FROM.contains(&name.as_str()) && node.as_str().is_none() {
            let message = format!("Expected a string for {name} but got {} instead", shown(node));
            return Err(Error::parse(message, &node.span).hint("it is the name of one file of the role"));
        }
    }
    if !is_role && !given(OF_TASKS) {
        return Err(Error::parse(format!("No file specified for {action}"), &task.span));
    }
    Ok(())
}

fn shown(node: &Node) -> String {
    match node.scalar_text() {
        Some(text) => format!("`{text}`, {}", node.kind()),
        None => node.kind().to_owned(),
    }
}
