//! Conditions whose value is not a boolean, which ansible-core refuses from 2.19 on.

use windlass_template::{Part, PartKind, Shape, parts, shape};
use windlass_yaml::{Node, Value};

use crate::lint::context::Context;
use crate::lint::finding::{Edit, Finding};
use crate::lint::rule::CONDITIONAL_NOT_BOOLEAN;
use crate::lint::source::{SourceFile, is_template, place_of};

/// Keywords of tasks that hold conditions.
const CONDITIONS: [&str; 4] = ["changed_when", "failed_when", "until", "when"];

/// Filters whose value is never a boolean, sorted.
const FILTERS: &[&str] = &[
    "b64decode",
    "b64encode",
    "basename",
    "combine",
    "count",
    "dict2items",
    "difference",
    "dirname",
    "flatten",
    "float",
    "hash",
    "int",
    "intersect",
    "items2dict",
    "join",
    "length",
    "list",
    "lower",
    "map",
    "regex_findall",
    "regex_replace",
    "regex_search",
    "reject",
    "rejectattr",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "symmetric_difference",
    "to_json",
    "to_yaml",
    "trim",
    "union",
    "unique",
    "upper",
    "zip",
];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for entry in &context.tree.entries {
        if let Some(node) = entry.map.get("when") {
            conditions(entry.file, node, None, findings);
        }
    }
    for task in &context.tree.tasks {
        let line = Some(task.line());
        for node in CONDITIONS.iter().filter_map(|name| task.map.get(name)) {
            conditions(task.file, node, line, findings);
        }
        let asserted = task.action.as_ref().filter(|action| action.short() == "assert");
        if let Some(node) = asserted.and_then(|action| action.args.get("that")) {
            conditions(task.file, node, line, findings);
        }
    }
}

/// Checks a condition, or each of a list.
fn conditions(file: &SourceFile, node: &Node, line: Option<u32>, findings: &mut Vec<Finding>) {
    for node in node.as_list().unwrap_or(std::slice::from_ref(node)) {
        if node.span.source.name != file.source.name {
            continue;
        }
        let found = match &node.value {
            Value::Int(_) | Value::Float(_) | Value::Map(_) => Some((node.scalar_text().unwrap_or_default(), None)),
            _ => node.as_str().filter(|text| !is_template(text)).and_then(|text| of_text(file, node, text)),
        };
        let Some((written, edit)) = found else { continue };
        let message = match written.is_empty() {
            true => "the value of this condition is not a boolean".to_owned(),
            false => format!("the value of `{written}` is not a boolean"),
        };
        let help = match &edit {
            Some(_) => format!("write `{written} > 0`"),
            None => "compare it, or add `is truthy`; ansible-core 2.19 refuses it otherwise".to_owned(),
        };
        let place = edit.as_ref().map_or_else(|| place_of(&node.span), |edit| file.place(edit.start - written.len()));
        let finding = Finding::new(&CONDITIONAL_NOT_BOOLEAN, file, place, message).help(help).edit(edit);
        findings.push(Finding { task_line: line, ..finding });
    }
}

/// The part of a condition that is not a boolean, and its correction.
fn of_text(file: &SourceFile, node: &Node, text: &str) -> Option<(String, Option<Edit>)> {
    if !may_be_other(text) {
        return None;
    }
    let (part, shape) = not_boolean(&parts(text)?)?;
    let is_count = matches!(&shape, Shape::Filter(name) if matches!(name.as_str(), "length" | "count"));
    let start = text.find(&part).filter(|_| is_count && !part.contains('\n'));
    let start = start.and_then(|start| file.locate(node, start, part.len()));
    let end = start.map(|start| start + part.len());
    let edit = end.map(|end| Edit { start: end, end, text: " > 0".to_owned() });
    Some((part, edit))
}

/// Whether a condition has one of the filters, or a literal that nothing compares. Most conditions have neither, and
/// are not parsed again.
fn may_be_other(text: &str) -> bool {
    let is_name_end = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.');
    let first_word = |rest: &str| rest.trim_start().split(is_name_end).next().is_some_and(is_filter);
    if text.contains('|') {
        return text.split('|').skip(1).any(first_word);
    }
    let is_compared = ["==", "!=", "<", ">", " in ", " is "].iter().any(|operator| text.contains(operator));
    !is_compared && text.contains(|c: char| matches!(c, '\'' | '"' | '[' | '{') || c.is_ascii_digit())
}

fn is_filter(name: &str) -> bool {
    FILTERS.binary_search(&name.trim_start_matches("ansible.builtin.")).is_ok()
}

/// The first operand of connectives whose value is not a boolean. `and` and `or` return one of their operands; `not`
/// returns a boolean of any.
fn not_boolean(part: &Part) -> Option<(String, Shape)> {
    match &part.kind {
        PartKind::And(parts) | PartKind::Or(parts) => parts.iter().find_map(not_boolean),
        PartKind::Not(_) => None,
        PartKind::Test(_) => match shape(&part.text)? {
            Shape::Filter(name) if !is_filter(&name) => None,
            shape => Some((part.text.clone(), shape)),
        },
    }
}
