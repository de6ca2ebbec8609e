//! Keywords of plays, blocks and tasks, and the structure of their values.

use windlass_yaml::{Key, Mapping, Node};

use crate::error::nearest;
use crate::foreign::Resolution;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{DEPRECATED, NOT_PORTABLE, Rule, SYNTAX_ERROR, Severity, UNKNOWN_KEYWORD};
use crate::lint::source::{SourceFile, is_template, place_of};
use crate::lint::walk::Task;
use crate::loader::{IMPORT_NAMES, several_modules};
use crate::playbook::keyword::{KEYWORDS, TASK_BOOLEANS, is_keyword};
use crate::playbook::{Keywords, On, checked};
use crate::vars::is_boolean;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for file in context.files {
        let is_read = file.kind.is_checked_yaml();
        if let Some(error) = file.error.as_ref().filter(|_| is_read) {
            let finding = Finding::new(&SYNTAX_ERROR, file, place_of(error.span()), error.message());
            findings.push(finding.help(error.hint().map(str::to_owned)));
        }
    }
    for (file, span, message) in &context.tree.faults {
        findings.push(Finding::new(&SYNTAX_ERROR, file, place_of(span), message));
    }
    for entry in &context.tree.entries {
        let is_import =
            |key: &Key| entry.on == On::Import && key.as_str().is_some_and(|key| IMPORT_NAMES.contains(&key));
        if let Some((key, _)) = entry.map.get_entry("include").filter(|_| entry.on == On::Import) {
            let finding =
                Finding::new(&DEPRECATED, entry.file, place_of(&key.span), "`include` was removed from Ansible");
            findings.push(finding.help("use `import_playbook`".to_owned()).at(Severity::Error));
        }
        for key in entry.map.keys().filter(|key| !is_import(key)) {
            if !key.as_str().is_some_and(|word| is_keyword(word, entry.on)) {
                findings.push(unknown(entry.file, key, entry.on));
            }
        }
        if let Some((key, _)) = entry.map.get_entry("loop").filter(|_| entry.on == On::Block) {
            let message = "only Windlass has `loop` on a block";
            findings.push(Finding::new(&NOT_PORTABLE, entry.file, place_of(&key.span), message));
        }
        values(entry.file, entry.map, entry.on, findings);
    }
    for task in &context.tree.tasks {
        of_task(context, task, findings);
        values(task.file, task.map, task.on, findings);
    }
}

fn of_task(context: &Context<'_>, task: &Task<'_>, findings: &mut Vec<Finding>) {
    let replaced = |key: &Key, message: String, help: &str| {
        Finding::new(&DEPRECATED, task.file, place_of(&key.span), message).help(help.to_owned()).within(task.line())
    };
    for key in task.map.keys() {
        let word = key.as_str().unwrap_or_default();
        if word.starts_with("with_") {
            findings.push(replaced(key, format!("`{word}` has the successor `loop`"), "use `loop`"));
        } else if word == "local_action" {
            let help = "use the module and `delegate_to: localhost`";
            findings.push(replaced(key, "`local_action` has a successor".to_owned(), help));
        }
    }
    if let Some(control) = task.map.get("loop_control") {
        parallel(task, control, findings);
    }
    // With a known action, every other word must be a keyword. Without one, they might be modules.
    if let Some(action) = &task.action {
        let is_module = |key: &&&Key| {
            key.as_str().is_some_and(|name| !matches!(context.modules.resolve(name, &[]), Resolution::Unknown(_)))
        };
        let (modules, unknown_words): (Vec<&Key>, Vec<&Key>) = task.others.iter().partition(|key| is_module(key));
        if let Some(second) = modules.first() {
            let mut places = vec![(action.name.as_str(), &action.span)];
            places.extend(modules.iter().filter_map(|key| Some((key.as_str()?, &key.span))));
            let message = several_modules(&places);
            let finding = Finding::new(&SYNTAX_ERROR, task.file, place_of(&second.span), message);
            findings.push(finding.within(task.line()));
        }
        findings.extend(unknown_words.iter().map(|key| unknown(task.file, key, task.on).within(task.line())));
    }
}

/// Reports `loop_control.parallel`, which `ansible-playbook` lacks, and actions whose items cannot run in parallel.
fn parallel(task: &Task<'_>, control: &Node, findings: &mut Vec<Finding>) {
    let Some((key, _)) = control.as_map().and_then(|map| map.get_entry("parallel")) else { return };
    let message = "only Windlass has `loop_control.parallel`";
    findings.push(Finding::new(&NOT_PORTABLE, task.file, place_of(&key.span), message).within(task.line()));
    let action = task.action.as_ref().map(|action| action.name.as_str()).unwrap_or_default();
    if let Err(error) = checked::parallel_action(action, control) {
        let finding = Finding::new(&SYNTAX_ERROR, task.file, place_of(&key.span), error.message());
        findings.push(finding.help(error.advice().map(str::to_owned)).within(task.line()));
    }
}

fn unknown(file: &SourceFile, key: &Key, on: On) -> Finding {
    let word = key.to_text();
    let names = KEYWORDS.iter().map(|(name, _)| *name).filter(|name| is_keyword(name, on));
    let message = format!("`{word}` is not a keyword of a {}", title(on));
    let limit = (word.chars().count() / 3).max(1);
    Finding::new(&UNKNOWN_KEYWORD, file, place_of(&key.span), message).help(nearest(&word, limit, names))
}

fn title(on: On) -> &'static str {
    match on {
        On::Play => "play",
        On::Role => "role",
        On::Block => "block",
        On::Task => "task",
        On::Handler => "handler",
        On::Import => "playbook import",
    }
}

/// Checks values as a run does before it begins, and booleans, which it checks at each task.
fn values(file: &SourceFile, map: &Mapping, on: On, findings: &mut Vec<Finding>) {
    for name in TASK_BOOLEANS.iter() {
        let Some(node) = map.get(name) else { continue };
        if let Some(text) = node.as_str().filter(|text| !is_template(text) && !is_boolean(text)) {
            let message = format!("`{name}` must be true or false, not '{text}'");
            findings.push(Finding::new(&SYNTAX_ERROR, file, place_of(&node.span), message));
        }
    }
    let Err(error) = Keywords::read(map, on, |_, _| Ok(())) else { return };
    let Some(span) = error.span().filter(|span| span.source.name == file.source.name) else { return };
    let rule: &'static Rule = &SYNTAX_ERROR;
    let finding = Finding::new(rule, file, place_of(span), error.message()).at(Severity::Error);
    findings.push(finding.help(error.advice().map(str::to_owned)));
}
