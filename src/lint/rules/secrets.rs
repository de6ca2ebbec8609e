//! Secrets that tasks show: in command lines, which each user of a host can read, and in messages.

use windlass_template::uses::{Form, uses};
use windlass_yaml::{Mapping, Node};

use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::NO_LOG_MISSING;
use crate::lint::source::place_of;
use crate::lint::walk::Task;

/// Actions whose arguments appear in lists of processes, in results or in messages.
const SHOWING: &[&str] = &["command", "debug", "expect", "raw", "script", "shell"];

/// Ends of names of secrets.
const ENDS: &[&str] = &[
    "access_key",
    "api_key",
    "apikey",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "secret",
    "secret_key",
    "token",
];

/// Filters that pass a text on.
const PASSING: &[&str] = &["d", "default", "quote", "string", "to_json", "trim", "urlencode"];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for task in &context.tree.tasks {
        let Some(action) = task.action.as_ref().filter(|action| SHOWING.contains(&action.short())) else { continue };
        let has_no_log = |map: &Mapping| map.contains_key("no_log");
        if has_no_log(task.map) || task.outer.iter().any(|outer| has_no_log(outer)) {
            continue;
        }
        let named = action.args.get("var").filter(|_| action.short() == "debug");
        let named = named.and_then(|node| Some((node, node.as_str().filter(|name| is_secret(name))?)));
        let shown = named.map(|(node, name)| (node, name.to_owned()));
        // Standard input is in no list of processes.
        let arguments = action.args.string_entries().filter(|(name, _)| *name != "stdin");
        let found = arguments.into_iter().find_map(|(_, value)| secret_in(value));
        if let Some((node, name)) = shown.or(found) {
            findings.push(finding(task, node, action.short(), &name));
        }
    }
}

fn finding(task: &Task<'_>, node: &Node, action: &str, name: &str) -> Finding {
    let message = format!("`{action}` shows `{name}`, which seems to be a secret");
    let help = "add `no_log: true`, and pass it by `stdin` or `environment`".to_owned();
    Finding::new(&NO_LOG_MISSING, task.file, place_of(&node.span), message).help(help).within(task.line())
}

/// First text in a value that renders a secret, with the variable.
fn secret_in(value: &Node) -> Option<(&Node, String)> {
    if let Some(items) = value.as_list() {
        return items.iter().find_map(secret_in);
    }
    let text = value.as_str()?;
    let uses = uses(text, Form::Text).ok()?;
    let expressions = uses.expressions.iter().filter_map(|expression| text.get(expression.start..expression.end));
    let name = expressions.filter_map(rendered).find(|name| is_secret(name))?;
    Some((value, name.to_owned()))
}

/// The variable whose value an expression renders as it is.
fn rendered(expression: &str) -> Option<&str> {
    let mut parts = expression.split('|').map(str::trim);
    let name = parts.next()?;
    let filter = |part: &str| part.split('(').next().unwrap_or_default().trim().to_owned();
    parts.all(|part| PASSING.contains(&filter(part).as_str())).then_some(name)
}

/// Whether a variable, or its last attribute, sounds like a secret.
fn is_secret(path: &str) -> bool {
    let is_path = path.chars().all(|character| character.is_alphanumeric() || "_.[]'\"".contains(character));
    let last = path.rsplit(['.', '[']).next().unwrap_or_default().trim_matches(['\'', '"', ']']).to_lowercase();
    is_path && ENDS.iter().any(|end| last.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_')))
}
