//! Names of modules.

use std::collections::HashSet;

use windlass_yaml::Span;

use crate::error::nearest;
use crate::foreign::Resolution;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{DEPRECATED, MISSING_COLLECTION, Severity, UNKNOWN_KEYWORD, UNKNOWN_MODULE};
use crate::lint::source::{is_template, place_of};
use crate::lint::walk::Task;
use crate::playbook::keyword::{KEYWORDS, is_keyword};
use crate::playbook::short_name;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut missing = HashSet::new();
    for task in &context.tree.tasks {
        match &task.action {
            Some(action) => one(context, task, &action.name, &action.span, &mut missing, findings),
            // None of several unknown words is a module.
            None => {
                for key in &task.others {
                    one(context, task, &key.to_text(), &key.span, &mut missing, findings);
                }
            }
        }
    }
}

fn one(
    context: &Context<'_>,
    task: &Task<'_>,
    name: &str,
    span: &Span,
    missing: &mut HashSet<String>,
    findings: &mut Vec<Finding>,
) {
    if is_template(name) {
        return;
    }
    let Resolution::Unknown(reason) = context.modules.resolve(name, &[]) else { return };
    let place = place_of(span);
    let short = short_name(name);
    if short == "include" {
        let help = "use `import_tasks`, `include_tasks` or `import_playbook`".to_owned();
        let finding = Finding::new(&DEPRECATED, task.file, place, "`include` was removed from Ansible").help(help);
        findings.push(finding.at(Severity::Error).within(task.line()));
        return;
    }
    if short.contains('.') {
        if task.file.is_chosen && missing.insert(name.to_owned()) {
            let collection: Vec<&str> = name.splitn(3, '.').take(2).collect();
            let message =
                format!("`{name}` is not checked: the collection {} is not installed here", collection.join("."));
            findings.push(Finding::new(&MISSING_COLLECTION, task.file, place, message).within(task.line()));
        }
        return;
    }
    // Short names of uninstalled collections resemble built-in ones by accident, so the limit is strict.
    let limit = if short.chars().count() < 8 { 1 } else { 2 };
    let keywords = KEYWORDS.iter().map(|(word, _)| *word).filter(|word| is_keyword(word, task.on));
    if let Some(hint) = nearest(short, limit, keywords) {
        let message = format!("`{short}` is neither a keyword nor a module");
        findings.push(Finding::new(&UNKNOWN_KEYWORD, task.file, place, message).help(hint).within(task.line()));
        return;
    }
    let hint = nearest(short, limit, crate::builtin::names());
    let is_certain = hint.is_some() || name.starts_with("ansible.builtin.");
    let severity = if is_certain { Severity::Error } else { Severity::Warning };
    let other = "if it belongs to a collection, install that, or write the module's full name".to_owned();
    let help = hint.or(reason).unwrap_or(other);
    let message = format!("there is no module `{name}`");
    findings.push(Finding::new(&UNKNOWN_MODULE, task.file, place, message).help(help).at(severity).within(task.line()));
}
