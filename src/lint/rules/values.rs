//! Values of keywords that a run refuses, or reads as something else.

use windlass_yaml::{Mapping, Node, Value};

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::KEYWORD_VALUE;
use crate::lint::source::{SourceFile, is_template, place_of};
use crate::playbook::keyword::{DEBUGGER, ORDER};
use crate::playbook::short_name;

const STRATEGY: &[&str] = &["debug", "free", "host_pinned", "linear"];
const BECOME: &[&str] = &["doas", "dzdo", "enable", "ksu", "machinectl", "pbrun", "pfexec", "runas", "su", "sudo"];
const CONNECTIONS: &[&str] =
    &["docker", "kubectl", "local", "network_cli", "paramiko", "podman", "psrp", "smart", "ssh", "winrm"];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for entry in &context.tree.entries {
        of_keywords(entry.file, entry.map, None, findings);
    }
    for task in &context.tree.tasks {
        of_keywords(task.file, task.map, Some(task.line()), findings);
    }
}

fn of_keywords(file: &SourceFile, map: &Mapping, line: Option<u32>, findings: &mut Vec<Finding>) {
    let mut report = |name: &str, node: &Node, needs: &str, hint: Option<String>| {
        if node.span.source.name == file.source.name {
            let text = node.scalar_text().unwrap_or_default();
            let message = format!("`{name}` cannot be `{text}`: it needs {needs}");
            let finding = Finding::new(&KEYWORD_VALUE, file, place_of(&node.span), message).help(hint);
            findings.push(Finding { task_line: line, ..finding });
        }
    };
    for (key, node) in map.iter() {
        let name = key.as_str().unwrap_or_default();
        match name {
            "async" | "delay" | "gather_timeout" | "poll" | "port" | "retries" | "throttle" | "timeout"
                if !may_be_number(node, false) =>
            {
                report(name, node, "a number", None);
            }
            "max_fail_percentage" if !may_be_number(node, true) => {
                report(name, node, "a number of percent", None);
            }
            "serial" => {
                let items = node.as_list().unwrap_or(std::slice::from_ref(node));
                for item in items.iter().filter(|item| !may_be_number(item, true)) {
                    report(name, item, "a number of hosts, a percentage such as `30%`, or a list of these", None);
                }
            }
            "debugger" => choice(name, node, DEBUGGER, &mut report),
            "order" => choice(name, node, ORDER, &mut report),
            "strategy" => choice(name, node, STRATEGY, &mut report),
            "become_method" => plugin(name, node, BECOME, &mut report),
            "connection" => plugin(name, node, CONNECTIONS, &mut report),
            _ => {}
        }
    }
}

/// Reports a wrong value of a keyword: its name, the value, the values that it needs, and a suggestion.
type Report<'r> = dyn FnMut(&str, &Node, &str, Option<String>) + 'r;

/// Checks a keyword with a fixed set of values.
fn choice(name: &str, node: &Node, choices: &[&str], report: &mut Report<'_>) {
    let text = node.as_str().filter(|text| !is_template(text)).map(short_name);
    if let Some(text) = text.filter(|text| !text.contains('.') && !choices.contains(text)) {
        let hint = nearest(text, (text.chars().count() / 3).max(1), choices.iter().copied());
        report(name, node, &format!("one of {}", choices.join(", ")), hint);
    }
}

/// Checks the name of a plugin. Further plugins may be installed, so an unknown name is reported only if it resembles a
/// usual one.
fn plugin(name: &str, node: &Node, plugins: &[&str], report: &mut Report<'_>) {
    if let Some(text) = node.as_str().filter(|text| !text.contains(['.', '{']) && !plugins.contains(text))
        && let Some(hint) = nearest(text, (text.chars().count() / 4).clamp(1, 2), plugins.iter().copied())
    {
        report(name, node, "the name of a plugin", Some(hint));
    }
}

/// Whether a value is a number, or may be one in a run.
fn may_be_number(node: &Node, is_percentage: bool) -> bool {
    match &node.value {
        Value::Int(_) | Value::Float(_) | Value::Null => true,
        Value::Bool(_) | Value::List(_) | Value::Map(_) => false,
        _ => node.as_str().is_none_or(|text| {
            let number = text.trim();
            let number = number.strip_suffix('%').filter(|_| is_percentage).unwrap_or(number);
            is_template(text) || number.parse::<f64>().is_ok()
        }),
    }
}
