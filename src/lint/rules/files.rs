//! Modes of files.

use windlass_yaml::{Node, Value};

use crate::lint::context::Context;
use crate::lint::finding::{Edit, Finding};
use crate::lint::rule::{RISKY_FILE_PERMISSIONS, RISKY_OCTAL, Severity};
use crate::lint::source::{is_dynamic, place_of};
use crate::lint::walk::Task;

/// Modules that create a file unless they are given no content.
const ALWAYS: [&str; 4] = ["assemble", "copy", "get_url", "template"];

/// Modules that create a file if `create` is on.
const IF_CREATE: [&str; 2] = ["blockinfile", "lineinfile"];

/// Options that hold a mode.
const MODES: [&str; 2] = ["mode", "directory_mode"];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for task in &context.tree.tasks {
        permissions(task, findings);
        octal(task, findings);
    }
}

fn permissions(task: &Task<'_>, findings: &mut Vec<Finding>) {
    let Some(action) = &task.action else { return };
    let args = &action.args;
    let text = |name: &str| args.get(name).and_then(Node::scalar_text);
    let is_on = |name: &str| text(name).is_some_and(|text| ["true", "yes"].contains(&text.to_lowercase().as_str()));
    let creates = match action.short() {
        // Copies on the host and whole directories keep their modes.
        "copy" => !is_on("remote_src") && !text("src").is_some_and(|src| src.ends_with('/')),
        name if ALWAYS.contains(&name) => true,
        name if IF_CREATE.contains(&name) => is_on("create"),
        "file" => matches!(text("state").as_deref(), Some("directory" | "touch")),
        _ => false,
    };
    let has_defaults =
        std::iter::once(task.map).chain(task.outer.iter().copied()).any(|map| map.contains_key("module_defaults"));
    if !creates || args.contains_key("mode") || action.has_template || has_defaults || args.contains_key("_raw_params")
    {
        return;
    }
    let message = format!("`{}` creates a file without a `mode`", action.short());
    let finding = Finding::new(&RISKY_FILE_PERMISSIONS, task.file, place_of(&action.span), message);
    findings.push(finding.help("add `mode`, such as \"0644\"".to_owned()).within(task.line()));
}

fn octal(task: &Task<'_>, findings: &mut Vec<Finding>) {
    let Some(action) = &task.action else { return };
    for node in MODES.iter().filter_map(|name| action.args.get(name)) {
        let Value::Int(value) = node.value else { continue };
        if is_dynamic(node) || node.span.source.name != task.file.source.name {
            continue;
        }
        let place = place_of(&node.span);
        let written: String = task.file.from(place).chars().take_while(char::is_ascii_digit).collect();
        let start = task.file.offset(place);
        let is_octal = written.starts_with('0');
        if !(3..=5).contains(&written.len()) || !written.chars().all(|digit| ('0'..='7').contains(&digit)) {
            continue;
        }
        let wanted = if is_octal { written.clone() } else { format!("0{written}") };
        let message = match is_octal {
            true => format!("`{written}` is an octal number for YAML 1.1 only"),
            false => format!("`{written}` is a decimal number, which is the mode {value:04o}"),
        };
        let edit = Edit { start, end: start + written.len(), text: format!("\"{wanted}\"") };
        let finding = Finding::new(&RISKY_OCTAL, task.file, place, message).help(format!("write \"{wanted}\""));
        let severity = if is_octal { Severity::Info } else { Severity::Warning };
        findings.push(finding.edit(Some(edit)).at(severity).within(task.line()));
    }
}
