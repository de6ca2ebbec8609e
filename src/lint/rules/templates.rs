//! Templates and conditions: syntax, filters, tests, and their style.

use windlass_template::uses::{self, Form, LiteralComparison, Use, UseKind, Uses};
use windlass_template::{LIBRARY, PluginKind};
use windlass_yaml::{Node, Options, Source, Value};

use crate::error::nearest;
use crate::lint::context::{Context, Parsed};
use crate::lint::finding::{Edit, Finding, Place};
use crate::lint::rule::{
    JINJA_SPACING, LITERAL_COMPARE, Rule, TEMPLATE_SYNTAX, UNKNOWN_FILTER, UNKNOWN_LOOKUP, UNKNOWN_TEST, WHEN_BRACES,
};
use crate::lint::source::{is_template, place_of};

/// Usual lookups, to suggest.
const LOOKUPS: &[&str] = &[
    "config",
    "csvfile",
    "dict",
    "env",
    "file",
    "fileglob",
    "first_found",
    "indexed_items",
    "ini",
    "inventory_hostnames",
    "items",
    "lines",
    "list",
    "nested",
    "password",
    "pipe",
    "random_choice",
    "sequence",
    "subelements",
    "template",
    "together",
    "unvault",
    "url",
    "varnames",
    "vars",
];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    loops(context, findings);
    for parsed in context.parsed {
        match &*parsed.uses {
            Err(fault) => {
                let place = match (parsed.node, fault.line) {
                    (Some(node), _) => place_of(&node.span),
                    (None, line) => Place { line: line.unwrap_or(1), column: fault.column.unwrap_or(1) },
                };
                findings.push(parsed.finding(&TEMPLATE_SYNTAX, place, fault.message.trim_end_matches('.').to_owned()));
            }
            Ok(uses) => {
                for found in &uses.names {
                    plugin(context, parsed, found, findings);
                }
                spacing(parsed, uses, findings);
            }
        }
        if parsed.form == Form::Expression {
            condition(parsed, findings);
        }
    }
}

impl Parsed<'_> {
    /// A finding in this text.
    pub(super) fn finding(&self, rule: &'static Rule, place: Place, message: String) -> Finding {
        Finding { task_line: self.task_line, ..Finding::new(rule, self.file, place, message) }
    }

    /// Byte offset in the file of a part of this text.
    pub(in crate::lint) fn offset_of(&self, offset: usize, length: usize) -> Option<usize> {
        match self.node {
            None => Some(offset),
            Some(node) => self.file.locate(node, offset, length),
        }
    }

    /// Place of a part of this text, or else of its beginning.
    pub(super) fn place_of(&self, offset: usize, length: usize) -> Place {
        match (self.offset_of(offset, length), self.node) {
            (Some(offset), _) => self.file.place(offset),
            (None, Some(node)) => place_of(&node.span),
            (None, None) => Place { line: 1, column: 1 },
        }
    }
}

fn plugin(context: &Context<'_>, parsed: &Parsed<'_>, found: &Use, findings: &mut Vec<Finding>) {
    let (kind, rule): (_, &'static Rule) = match found.kind {
        UseKind::Filter => (PluginKind::Filter, &UNKNOWN_FILTER),
        UseKind::Test => (PluginKind::Test, &UNKNOWN_TEST),
        UseKind::Variable => return lookup(context, parsed, found, findings),
    };
    let name = found.name.strip_prefix("ansible.builtin.").or_else(|| found.name.strip_prefix("ansible.legacy."));
    let name = name.unwrap_or(&found.name);
    // A plugin of the project has its name as a text in a Python file. Plugins of collections need Python to be found.
    if name.contains('.') || LIBRARY.has(kind, name) || context.names.python.contains(name) {
        return;
    }
    let first = name.split('.').next().unwrap_or(name);
    let place = parsed.place_of(found.offset, first.len());
    let names = LIBRARY.names(kind);
    let hint = nearest(name, (name.chars().count() / 3).max(1), names.iter().copied());
    findings.push(parsed.finding(rule, place, format!("there is no {} `{name}`", kind.word())).help(hint));
}

/// Reports an unknown name in `lookup('NAME', ...)` and its short forms.
fn lookup(context: &Context<'_>, parsed: &Parsed<'_>, found: &Use, findings: &mut Vec<Finding>) {
    if !matches!(found.name.as_str(), "lookup" | "q" | "query") {
        return;
    }
    let text = parsed.node.map_or(Some(parsed.file.text()), Node::as_str);
    let call = text.and_then(|text| text.get(found.offset..)?.strip_prefix(found.name.as_str()));
    let Some(first) = call.and_then(|call| call.trim_start().strip_prefix('(')) else { return };
    let first = first.trim_start();
    let Some(quote) = first.chars().next().filter(|quote| ['\'', '"'].contains(quote)) else { return };
    let Some((name, _)) = first.get(1..).and_then(|rest| rest.split_once(quote)) else { return };
    if let Some((message, hint)) = unknown_lookup(context, name) {
        let place = parsed.place_of(found.offset, found.name.len());
        findings.push(parsed.finding(&UNKNOWN_LOOKUP, place, message).help(hint));
    }
}

/// Reports unknown lookups in `with_NAME`.
fn loops(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for task in &context.tree.tasks {
        for key in task.map.keys() {
            let Some(name) = key.as_str().and_then(|key| key.strip_prefix("with_")) else { continue };
            if let Some((message, hint)) = unknown_lookup(context, name) {
                let finding = Finding::new(&UNKNOWN_LOOKUP, task.file, place_of(&key.span), message);
                findings.push(finding.help(hint).within(task.line()));
            }
        }
    }
}

/// Message and remedy, if there is no lookup of this name. Plugins of collections need Python to be found.
fn unknown_lookup(context: &Context<'_>, name: &str) -> Option<(String, Option<String>)> {
    let name = name.strip_prefix("ansible.builtin.").or_else(|| name.strip_prefix("ansible.legacy.")).unwrap_or(name);
    let is_odd = name.is_empty() || name.contains(|c: char| !c.is_alphanumeric() && c != '_');
    if is_odd || LIBRARY.has(PluginKind::Lookup, name) || context.names.python.contains(name) {
        return None;
    }
    let file = format!("lookup_plugins/{name}.py");
    if context.files.iter().any(|known| known.path.ends_with(&file)) {
        return None;
    }
    let hint = nearest(name, (name.chars().count() / 3).max(1), LOOKUPS.iter().copied());
    Some((format!("there is no lookup `{name}`"), hint))
}

/// Reports `{{x}}` in YAML. Templates may need exact columns, so files are left alone.
fn spacing(parsed: &Parsed<'_>, uses: &Uses, findings: &mut Vec<Finding>) {
    let Some(text) = parsed.node.and_then(Node::as_str) else { return };
    for expression in &uses.expressions {
        let Some(inner) = text.get(expression.start..expression.end) else { continue };
        let sign_before = text.get(..expression.start).is_some_and(|before| before.ends_with('-'));
        let sign_after = text.get(expression.end..).is_some_and(|after| after.starts_with('-'));
        let body = inner.trim();
        let is_tight = |edge: Option<char>| edge.is_some_and(|edge| !edge.is_whitespace());
        let bad = is_tight(inner.chars().next()) || is_tight(inner.chars().next_back());
        if !bad || body.is_empty() {
            continue;
        }
        // The delimiters make the place in the file certain.
        let start = parsed.offset_of(expression.start.saturating_sub(2), inner.len() + 4).map(|start| start + 2);
        let is_mechanical = !sign_before && !sign_after && !inner.contains('\n');
        let edit = start.filter(|_| is_mechanical);
        let edit = edit.map(|start| Edit { start, end: start + inner.len(), text: format!(" {body} ") });
        let place = start.map_or_else(|| parsed.place_of(0, 0), |start| parsed.file.place(start));
        let finding = parsed.finding(&JINJA_SPACING, place, format!("`{{{{{inner}}}}}` has no space at its ends"));
        findings.push(finding.help(format!("write `{{{{ {body} }}}}`")).edit(edit));
    }
}

fn condition(parsed: &Parsed<'_>, findings: &mut Vec<Finding>) {
    let Some(node) = parsed.node else { return };
    let Some(text) = node.as_str() else { return };
    if is_template(text) {
        braces(parsed, node, text, findings);
        return;
    }
    for found in uses::literal_comparisons(text) {
        let path = text.get(found.start..found.path_end).unwrap_or_default();
        let written = text.get(found.start..found.end).unwrap_or_default();
        let instead = format!("{}{path} | bool", if found.holds_if_true { "" } else { "not " });
        let place = parsed.place_of(found.start, written.len());
        let edit = comparison(parsed, &found, written, &instead);
        let finding = parsed.finding(&LITERAL_COMPARE, place, format!("`{written}` compares with a literal"));
        findings.push(finding.help(format!("write `{instead}`")).edit(edit));
    }
}

fn comparison(parsed: &Parsed<'_>, found: &LiteralComparison, written: &str, instead: &str) -> Option<Edit> {
    let start = parsed.offset_of(found.start, written.len()).filter(|_| found.is_whole)?;
    Some(Edit { start, end: start + written.len(), text: instead.to_owned() })
}

fn braces(parsed: &Parsed<'_>, node: &Node, text: &str, findings: &mut Vec<Finding>) {
    let Ok(uses) = &*parsed.uses else { return };
    let inner = match uses.expressions.as_slice() {
        [only] if text.trim().starts_with("{{") && text.trim().ends_with("}}") => text.get(only.start..only.end),
        _ => None,
    };
    let inner = inner.map(str::trim);
    let place = place_of(&node.span);
    let finding = parsed.finding(&WHEN_BRACES, place, "a condition is an expression and needs no `{{ }}`".to_owned());
    let help = inner.map(|inner| format!("write `{inner}`"));
    let edit = inner.and_then(|inner| without_braces(parsed, place, text, inner));
    findings.push(finding.help(help).edit(edit));
}

/// Replaces a whole quoted condition by its expression, unquoted if YAML reads that as the same text.
fn without_braces(parsed: &Parsed<'_>, place: Place, text: &str, inner: &str) -> Option<Edit> {
    if inner.contains('\n') {
        return None;
    }
    let written = parsed.file.from(place);
    let quoted = ['"', '\''].iter().map(|quote| format!("{quote}{text}{quote}"));
    let whole = quoted.into_iter().find(|whole| written.starts_with(whole.as_str()))?;
    let line = format!("- {inner}\n");
    let read = windlass_yaml::load_one(Source::new("condition", line), &Options::default()).ok();
    let is_same = read.as_ref().and_then(Node::as_list).is_some_and(
        |items| matches!(items, [item] if matches!(item.value, Value::String(_)) && item.as_str() == Some(inner)),
    );
    let quote = whole.get(..1)?;
    let new = if is_same && !inner.contains(['{', '}', '[', ']', ',']) {
        inner.to_owned()
    } else if inner.contains(quote) {
        return None;
    } else {
        format!("{quote}{inner}{quote}")
    };
    let start = parsed.file.offset(place);
    Some(Edit { start, end: start + whole.len(), text: new })
}
