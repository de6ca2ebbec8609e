//! Parameters of roles against their argument specifications.

use std::path::Path;

use windlass_yaml::Node;

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::names::words_of;
use crate::lint::rule::{ROLE_ARGUMENT, Severity};
use crate::lint::source::{Kind, SourceFile, is_dynamic, is_template, place_of};
use crate::lint::walk::RoleUse;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for role in &context.tree.roles {
        let Some(folder) = folder_of(context, &role.name) else { continue };
        let Some(options) = specification(context, folder, &role.tasks_from) else { continue };
        one(context, role, folder, options, findings);
    }
}

/// Directory of a role of the project.
pub(super) fn folder_of<'p>(context: &Context<'p>, name: &str) -> Option<&'p Path> {
    folder_among(context.roles, name)
}

/// Directory of a role, among all.
pub(in crate::lint) fn folder_among<'p>(roles: &[&'p Path], name: &str) -> Option<&'p Path> {
    // A role of a collection has its name as last part.
    let short = if name.contains('/') { name } else { name.rsplit('.').next().unwrap_or(name) };
    let named = |name: &str| roles.iter().copied().find(|folder| folder.ends_with(name));
    named(name).or_else(|| named(short))
}

/// Options of an entry point, if the role has a specification.
fn specification<'p>(context: &Context<'p>, folder: &Path, entry: &str) -> Option<&'p Node> {
    let of_role = |file: &&SourceFile| {
        matches!(file.kind, Kind::ArgumentSpecs | Kind::Meta) && file.role.as_deref() == Some(folder)
    };
    let entry = entry.trim_end_matches(".yml").trim_end_matches(".yaml");
    context.files.iter().filter(of_role).find_map(|file| file.node.get("argument_specs")?.get(entry)?.get("options"))
}

fn one(context: &Context<'_>, role: &RoleUse<'_>, folder: &Path, options: &Node, findings: &mut Vec<Finding>) {
    let Some(options) = options.as_map() else { return };
    for (key, value) in &role.params {
        let name = key.to_text();
        let Some(option) = options.get(&name) else {
            if is_template(&name) || is_mentioned(context, folder, &name) {
                continue;
            }
            let message = format!("the role `{}` has no parameter `{name}`", role.name);
            let known = options.keys().filter_map(|key| key.as_str());
            let hint = nearest(&name, (name.chars().count() / 3).max(1), known);
            findings.push(Finding::new(&ROLE_ARGUMENT, role.file, place_of(&key.span), message).help(hint));
            continue;
        };
        let choices = option.get("choices").and_then(Node::as_list).unwrap_or_default();
        let choices: Vec<String> = choices.iter().filter_map(Node::scalar_text).collect();
        for item in value.as_list().unwrap_or(std::slice::from_ref(value)).iter().filter(|item| !is_dynamic(item)) {
            let Some(text) = item.scalar_text().filter(|_| !item.is_null()) else { continue };
            if choices.is_empty() || choices.contains(&text) {
                continue;
            }
            let message =
                format!("`{name}` of the role `{}` cannot be `{text}`, only {}", role.name, choices.join(", "));
            let hint = nearest(&text, (text.chars().count() / 3).max(1), choices.iter().map(String::as_str));
            let finding = Finding::new(&ROLE_ARGUMENT, role.file, place_of(&item.span), message).help(hint);
            findings.push(finding.at(Severity::Error));
        }
    }
    for (key, option) in options.iter() {
        let Some(name) = key.as_str() else { continue };
        let is_required =
            option.get("required").and_then(Node::as_bool) == Some(true) && option.get("default").is_none();
        let is_given = role.params.iter().any(|(key, _)| key.as_str() == Some(name));
        if is_required && !is_given && !is_defined(context, name) {
            let message = format!("the role `{}` needs the parameter `{name}`, which nothing defines", role.name);
            findings.push(Finding::new(&ROLE_ARGUMENT, role.file, place_of(&role.span), message));
        }
    }
}

/// Whether a file of the role mentions a name, as a whole word.
fn is_mentioned(context: &Context<'_>, folder: &Path, name: &str) -> bool {
    let of_role = |file: &&SourceFile| file.role.as_deref() == Some(folder);
    context.files.iter().filter(of_role).any(|file| words_of(file.text()).any(|word| word == name))
}

/// Whether any file but a specification defines a variable.
fn is_defined(context: &Context<'_>, name: &str) -> bool {
    let is_key = |file: &SourceFile| {
        let is_specification = matches!(file.kind, Kind::ArgumentSpecs | Kind::Meta);
        let prefix = |line: &str| {
            let line = line.trim_start_matches([' ', '-', '"', '\'']);
            line.strip_prefix(name)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with([':', '=']))
        };
        !is_specification && (file.text().lines().any(prefix) || file.text().contains(&format!("register: {name}")))
    };
    context.names.has_hidden || context.files.iter().any(is_key)
}
