//! YAML's traps, and names of tasks.

use windlass_yaml::{Node, Value, Warning};

use crate::lint::context::Context;
use crate::lint::finding::{Edit, Finding};
use crate::lint::rule::{DUPLICATE_KEY, NAME_CASING, NAME_MISSING, YAML_NUMBER, YAML_TRUTHY};
use crate::lint::source::{SourceFile, place_of};

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
        scalars(file, &file.node, false, findings);
    }
    names(context, findings);
}

/// Reports booleans and numbers that YAML 1.2 reads as something else, at any depth. `is_mode` is set for the value
/// of an option that holds a mode, which has a rule of its own.
fn scalars(file: &SourceFile, node: &Node, is_mode: bool, findings: &mut Vec<Finding>) {
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
        Value::Int(_) | Value::Float(_) if !is_mode => findings.extend(number(file, node)),
        Value::String(_) if node.as_str().is_some_and(|text| text.starts_with("0o")) => {
            findings.extend(octal_text(file, node))
        }
        Value::List(items) => items.iter().for_each(|item| scalars(file, item, is_mode, findings)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            let is_mode = key.as_str().is_some_and(|key| matches!(key, "mode" | "directory_mode"));
            scalars(file, value, is_mode, findings);
        }),
        _ => {}
    }
}

/// Reports octal numbers with a leading 0, and numbers to the base 60.
fn number(file: &SourceFile, node: &Node) -> Option<Finding> {
    let place = place_of(&node.span);
    let written = file.from(place).split(|c: char| c.is_whitespace() || ",]}#".contains(c)).next()?;
    let digits = written.trim_start_matches(['-', '+']);
    let is_octal = digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| ('0'..='7').contains(&c));
    let is_sexagesimal = digits.contains(':') && digits.starts_with(|c: char| c.is_ascii_digit());
    let kind = match (is_octal, is_sexagesimal) {
        (true, _) => "an octal number",
        (_, true) => "a number to the base 60",
        _ => return None,
    };
    let value = node.scalar_text()?;
    let message = format!("`{written}` is {kind} for YAML 1.1 only, with the value {value}");
    let help = format!("write \"{written}\" for a text, or {value}");
    Some(Finding::new(&YAML_NUMBER, file, place, message).help(help))
}

/// Reports `0o644`, which is a text for YAML 1.1. Quotes keep it so.
fn octal_text(file: &SourceFile, node: &Node) -> Option<Finding> {
    let place = place_of(&node.span);
    let text = node.as_str()?;
    let digits = text.strip_prefix("0o")?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| ('0'..='7').contains(&c));
    if !is_number || !file.from(place).starts_with(text) {
        return None;
    }
    let start = file.offset(place);
    let edit = Edit { start, end: start + text.len(), text: format!("\"{text}\"") };
    let message = format!("`{text}` is a text for YAML 1.1, and an octal number for YAML 1.2");
    let finding = Finding::new(&YAML_NUMBER, file, place, message).help(format!("write \"{text}\""));
    Some(finding.edit(Some(edit)))
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
    for entry in context.plays() {
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
