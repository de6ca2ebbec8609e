//! The files of an inventory: problems of reading them, hosts listed twice, and names that resemble others. Variables
//! of plays and tasks are compared with the roles' here too, since one rule covers both.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use windlass_inventory::{Inventory, split_pattern};
use windlass_yaml::{Node, Span};

use super::hosts::added_names;
use crate::error::misspelling;
use crate::lint::context::Context;
use crate::lint::finding::{Finding, Place};
use crate::lint::rule::{DUPLICATE_HOST, INVENTORY_SYNTAX, MISSPELT_GROUP, MISSPELT_VARIABLE, Severity};
use crate::lint::source::{Kind, SourceFile, is_template, place_of};

/// Shortest group whose name is compared with others: short names resemble each other by accident.
const SHORTEST: usize = 4;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    problems(context, findings);
    if let Some(inventory) = context.inventory {
        repeated_hosts(context, inventory, findings);
        groups(context, inventory, findings);
    }
    variables(context, findings);
}

fn problems(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for problem in context.problems {
        let Some(file) = context.file_of(&problem.span) else { continue };
        let severity = if problem.is_error { Severity::Error } else { Severity::Warning };
        let message = problem.message.trim_end_matches('.');
        let finding = Finding::new(&INVENTORY_SYNTAX, file, place_of(&problem.span), message);
        findings.push(finding.help(problem.hint.clone()).at(severity));
    }
}

fn repeated_hosts(context: &Context<'_>, inventory: &Inventory, findings: &mut Vec<Finding>) {
    // A range of hosts has one position.
    let mut reported: HashSet<(&str, u32, u32)> = HashSet::new();
    for (host, group, repeated) in inventory.repeated() {
        let second = &repeated.second;
        let Some(file) = context.file_of(second) else { continue };
        if reported.insert((second.source.name.as_str(), second.line, second.column)) {
            let first = repeated.first.line;
            let message = format!("the group `{group}` has the host `{host}` at line {first} already");
            findings.push(Finding::new(&DUPLICATE_HOST, file, place_of(second), message));
        }
    }
}

/// Reports groups that resemble a missing one which plays or files of variables name.
fn groups(context: &Context<'_>, inventory: &Inventory, findings: &mut Vec<Finding>) {
    let added = added_names(context);
    let named = named_groups(context);
    let is_missing = |name: &str| {
        inventory.group(name).is_none() && inventory.host(name).is_none() && !added.contains(name) && !is_template(name)
    };
    let missing: Vec<&str> = named.iter().map(String::as_str).filter(|name| is_missing(name)).collect();
    for group in inventory.groups() {
        let name: &str = group.name();
        let is_named = named.contains(name) || ["all", "ungrouped"].contains(&name);
        if is_named || name.chars().count() < SHORTEST {
            continue;
        }
        let Some(file) = context.file_of(group.span()) else { continue };
        let Some(hint) = misspelling(name, missing.iter().copied()) else { continue };
        let message = format!("nothing names the group `{name}`");
        findings.push(Finding::new(&MISSPELT_GROUP, file, place_of_group(file, group.span()), message).help(hint));
    }
}

/// Names of groups and hosts in the patterns of plays, and of files in `group_vars`.
fn named_groups(context: &Context<'_>) -> HashSet<String> {
    let mut named = HashSet::new();
    for entry in context.plays() {
        let Some(hosts) = entry.map.get("hosts") else { continue };
        for text in hosts.as_list().unwrap_or(std::slice::from_ref(hosts)).iter().filter_map(|node| node.as_str()) {
            let terms = split_pattern(text).into_iter();
            named.extend(terms.map(|term| {
                let name = term.trim_start_matches(['!', '&']);
                name.split_once('[').map_or(name, |(group, _)| group).to_owned()
            }));
        }
    }
    for file in context.files {
        named.extend(crate::lint::index::name_below(&file.path, "group_vars"));
    }
    named
}

/// Place of the name of a group, whose section in an INI file begins with a bracket.
fn place_of_group(file: &SourceFile, span: &Span) -> Place {
    let place = place_of(span);
    if file.from(place).starts_with('[') { Place { column: place.column + 1, ..place } } else { place }
}

/// Reports variables that nothing uses and that resemble one of a role.
fn variables(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let names = context.names;
    let of_roles: HashSet<&str> = context.files.iter().flat_map(variables_of_role).collect();
    // Many hosts set the same variable.
    let mut known: HashMap<String, Option<String>> = HashMap::new();
    let hint_for = |name: &str| {
        let is_used = names.mentioned.contains(name) || names.optional.contains(name) || of_roles.contains(name);
        if is_used || name.starts_with("ansible_") { None } else { misspelling(name, of_roles.iter().copied()) }
    };
    // A name is reported once for each file.
    let mut reported: HashSet<(usize, String)> = HashSet::new();
    let mut report = |file: &SourceFile, name: &str, span: &Span| {
        if !known.contains_key(name) {
            known.insert(name.to_owned(), hint_for(name));
        }
        if let Some(Some(hint)) = known.get(name)
            && reported.insert((file.index, name.to_owned()))
        {
            let message = format!("nothing in the project uses the variable `{name}`");
            findings.push(Finding::new(&MISSPELT_VARIABLE, file, place_of(span), message).help(hint.clone()));
        }
    };
    for file in context.files.iter().filter(|file| file.kind == Kind::Vars && file.is_chosen) {
        for key in file.node.as_map().into_iter().flat_map(|map| map.keys()) {
            report(file, key.as_str().unwrap_or_default(), &key.span);
        }
    }
    let of_entries = context.tree.entries.iter().map(|entry| (entry.file, entry.map));
    let of_tasks = context.tree.tasks.iter().map(|task| (task.file, task.map));
    for (file, map) in of_entries.chain(of_tasks).filter(|(file, _)| file.is_chosen) {
        for key in map.get("vars").and_then(Node::as_map).into_iter().flat_map(|vars| vars.keys()) {
            report(file, key.as_str().unwrap_or_default(), &key.span);
        }
    }
    let Some(inventory) = context.inventory else { return };
    for key in inventory.variables().flat_map(|variables| variables.keys()) {
        if let Some(file) = context.file_of(&key.span) {
            report(file, key.as_str().unwrap_or_default(), &key.span);
        }
    }
}

/// Variables that a file of a role defines or documents.
fn variables_of_role(file: &SourceFile) -> Vec<&str> {
    let maps = match file.kind {
        Kind::RoleVars => file.node.as_map().into_iter().collect(),
        Kind::ArgumentSpecs => {
            let entries = file.node.get("argument_specs").and_then(|specs| specs.as_map());
            let options = entries.into_iter().flat_map(|map| map.values()).filter_map(|entry| entry.get("options"));
            options.filter_map(|options| options.as_map()).collect()
        }
        _ => Vec::new(),
    };
    maps.into_iter().flat_map(|map| map.keys()).filter_map(|key| key.as_str()).collect()
}

impl Context<'_> {
    /// The file of the project that contains a position.
    pub(super) fn file_of(&self, span: &Span) -> Option<&SourceFile> {
        let path = crate::paths::absolute(Path::new(&span.source.name));
        self.inventory_files.get(&path).and_then(|index| self.files.get(*index)).filter(|file| file.is_chosen)
    }
}
