//! Handlers: notified and not defined, or defined and not notified.

use std::collections::HashSet;

use windlass_yaml::Node;

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{HANDLER_UNKNOWN, HANDLER_UNUSED, Severity};
use crate::lint::source::{is_template, place_of};
use crate::playbook::On;

/// A name of which some parts may be templates.
struct Pattern(Vec<String>);

impl Pattern {
    /// Splits a name at its templates.
    fn new(name: &str) -> Pattern {
        let mut parts = Vec::new();
        let mut rest = name;
        while let Some(start) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
            parts.push(rest.get(..start).unwrap_or_default().to_owned());
            rest = rest.get(start + 2..).unwrap_or_default();
            let end = rest.find("}}").into_iter().chain(rest.find("%}")).min();
            rest = end.and_then(|end| rest.get(end + 2..)).unwrap_or_default();
        }
        parts.push(rest.to_owned());
        Pattern(parts)
    }

    /// Whether a name could be this one.
    fn matches(&self, name: &str) -> bool {
        let [first, rest @ ..] = self.0.as_slice() else { return false };
        let Some(mut remaining) = name.strip_prefix(first.as_str()) else { return false };
        for (index, part) in rest.iter().enumerate() {
            let is_last = index + 1 == rest.len();
            let found = if is_last {
                remaining.ends_with(part.as_str()).then_some(remaining.len())
            } else {
                remaining.find(part.as_str()).map(|at| at + part.len())
            };
            let Some(end) = found else { return false };
            remaining = remaining.get(end..).unwrap_or_default();
        }
        remaining.is_empty()
    }
}

/// Name without the role before it.
fn plain(name: &str) -> &str {
    name.split_once(" : ").map_or(name, |(_, name)| name)
}

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let notified = notified(context);
    let mut defined: HashSet<String> = HashSet::new();
    let mut patterns = Vec::new();
    for handler in context.tree.tasks.iter().filter(|task| task.on == On::Handler) {
        let own = handler.map.get("name").and_then(Node::scalar_text);
        let names: Vec<String> =
            own.into_iter().chain(texts(handler.map.get("listen")).map(|(name, _)| name)).collect();
        for name in &names {
            match is_template(name) {
                true => patterns.push(Pattern::new(name)),
                false => drop(defined.insert(name.clone())),
            }
        }
        let is_templated = names.iter().any(|name| is_template(name));
        let is_used = names.iter().any(|name| {
            notified.names.contains(name.as_str()) || notified.patterns.iter().any(|pattern| pattern.matches(name))
        });
        let includes = handler
            .action
            .as_ref()
            .is_some_and(|action| matches!(action.short(), "include_tasks" | "import_tasks" | "meta"));
        let Some(name) = names.first().filter(|_| !is_templated && !is_used && !includes) else { continue };
        let node = handler.map.get("name").unwrap_or(handler.node);
        let message = format!("nothing notifies the handler `{name}`");
        let finding = Finding::new(&HANDLER_UNUSED, handler.file, place_of(&node.span), message);
        findings.push(finding.within(handler.line()));
    }
    let has_missing_role = has_missing_role(context);
    // An included file of handlers is known by the name of its include.
    for (task, node, name) in &notified.places {
        let is_known = defined.contains(plain(name))
            || defined.contains(name.as_str())
            || patterns.iter().any(|pattern| pattern.matches(plain(name)));
        if is_known {
            continue;
        }
        let message = format!("no handler is called `{name}`, and none listens to it");
        let hint = nearest(name, name.chars().count() / 4 + 1, defined.iter().map(String::as_str));
        let severity = if has_missing_role { Severity::Warning } else { Severity::Error };
        let finding = Finding::new(&HANDLER_UNKNOWN, task.file, place_of(&node.span), message);
        findings.push(finding.help(hint).at(severity).within(task.line()));
    }
}

/// Whether some role of the project is not in it.
fn has_missing_role(context: &Context<'_>) -> bool {
    context.tree.roles.iter().any(|role| super::roles::folder_of(context, &role.name).is_none())
}

/// Names that tasks notify.
struct Notified<'p> {
    names: HashSet<String>,
    patterns: Vec<Pattern>,
    places: Vec<(&'p crate::lint::walk::Task<'p>, &'p Node, String)>,
}

fn notified<'p>(context: &Context<'p>) -> Notified<'p> {
    let mut found = Notified { names: HashSet::new(), patterns: Vec::new(), places: Vec::new() };
    let mut add = |name: &str| match is_template(name) {
        true => found.patterns.push(Pattern::new(name)),
        false => found.names.extend([name.to_owned(), plain(name).to_owned()]),
    };
    for entry in &context.tree.entries {
        texts(entry.map.get("notify")).for_each(|(name, _)| add(&name));
    }
    for task in &context.tree.tasks {
        for (name, node) in texts(task.map.get("notify")) {
            add(&name);
            if !is_template(&name) {
                found.places.push((task, node, name));
            }
        }
    }
    found
}

/// Texts of a value or list.
fn texts(node: Option<&Node>) -> impl Iterator<Item = (String, &Node)> {
    let items = node.map(|node| node.as_list().unwrap_or(std::slice::from_ref(node))).unwrap_or_default();
    items.iter().filter_map(|item| Some((item.as_str()?.to_owned(), item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_template_matches_its_values() {
        let pattern = Pattern::new("restart {{ service }} on {{ host }}");
        assert!(pattern.matches("restart nginx on web1"));
        assert!(!pattern.matches("reload nginx on web1") && !pattern.matches("restart nginx"));
        assert!(Pattern::new("{{ all }}").matches("anything"));
    }
}
