//! YAML's traps, and names of tasks.

use windlass_yaml::{Node, Value, Warning};

use crate::lint::context::Context;
use crate::lint::finding::{Edit, Finding};
use crate::lint::rule::{DUPLICATE_KEY, NAME_CASING, NAME_MISSING, YAML_TRUTHY};
use crate::lint::source::{SourceFile, place_of};
use crate::playbook::On;

/// Actions whose purpose is plain without a name.
const PLAIN: [&str; 6] = ["meta", "include_tasks", "import_tasks", "include_role", "import_role", "include_vars"];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for file in context.files.iter().filter(|file| file.kind.is_checked_yaml() && file.error.is_none()) {
        for warning in &file.warnings {
            if let Warning::DuplicateKey { key, first, second } = warning {
                let message = format!("the key `{key}` is at line {} already, and the value here is used", first.line);
                findings.push(Finding::new(&DUPLICATE_KEY, file, place_of(second), message));
            }
        }
        truthy(file, &file.node, findings);
    }
    names(context, findings);
}

/// Reports booleans written as other words, at any depth.
fn truthy(file: &SourceFile, node: &Node, findings: &mut Vec<Finding>) {
    match &node.value {
        Value::Bool(value) => {
            let place = place_of(&node.span);
            let word: String = file.from(place).chars().take_while(char::is_ascii_alphabetic).collect();
            if !matches!(word.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off") {
                return;
            }
            let start = file.offset(place);
            let edit = Edit { start, end: start + word.len(), text: value.to_string() };
            let message = format!("`{word}` is a boolean for YAML 1.1 only");
            let finding = Finding::new(&YAML_TRUTHY, file, place, message).help(format!("write `{value}`"));
            findings.push(finding.edit(Some(edit)));
        }
        Value::List(items) => items.iter().for_each(|item| truthy(file, item, findings)),
        Value::Map(map) => map.iter().for_each(|(_, value)| truthy(file, value, findings)),
        _ => {}
    }
}

fn names(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut casing = |file: &SourceFile, node: &Node, line: u32| {
        let name = node.as_str().unwrap_or_default();
        // A name may begin with the name of a file or program.
        let first = name.split_whitespace().next().unwrap_or_default();
        if first.starts_with(|c: char| c.is_ascii_lowercase()) && first.chars().all(|c| c.is_ascii_alphabetic()) {
            let message = format!("the name `{name}` begins with a lower-case letter");
            findings.push(Finding::new(&NAME_CASING, file, place_of(&node.span), message).within(line));
        }
    };
    for entry in context.tree.entries.iter().filter(|entry| entry.on == On::Play) {
        if let Some(node) = entry.map.get("name") {
            casing(entry.file, node, entry.node.span.line);
        }
    }
    for task in &context.tree.tasks {
        if let Some(node) = task.map.get("name") {
            casing(task.file, node, task.line());
        }
    }
    for task in &context.tree.tasks {
        let Some(action) = &task.action else { continue };
        if task.map.get("name").is_none() && !PLAIN.contains(&action.short()) {
            let message = format!("this task with `{}` has no name", action.last_word());
            let place = place_of(&task.node.span);
            findings.push(Finding::new(&NAME_MISSING, task.file, place, message).within(task.line()));
        }
    }
}
