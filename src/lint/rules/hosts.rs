//! Host patterns against the inventory.

use std::collections::HashSet;

use windlass_inventory::{Inventory, split_pattern};
use windlass_template::uses::UseKind;

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::UNKNOWN_GROUP;
use crate::lint::source::{is_template, place_of};

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(inventory) = context.inventory else { return };
    let added = added_names(context);
    for entry in context.plays() {
        let Some(hosts) = entry.map.get("hosts") else { continue };
        for node in hosts.as_list().unwrap_or(std::slice::from_ref(hosts)) {
            let Some(text) = node.as_str().filter(|text| !is_template(text)) else { continue };
            for term in split_pattern(text) {
                // An excluded group may be missing on purpose.
                let is_excluded = term.starts_with('!');
                let name = term.trim_start_matches(['!', '&']);
                // A group made from a template can have any name that the project mentions as a key.
                let may_be_added =
                    added.iter().any(|added| is_template(added)) && context.names.possible.contains(name);
                if is_excluded || may_be_added || added.contains(name) || matches_any(inventory, name) {
                    continue;
                }
                let message = format!("`{name}` is not a group or host of the inventory");
                let hint = nearest(name, name.chars().count() / 4 + 1, inventory.names());
                findings.push(Finding::new(&UNKNOWN_GROUP, entry.file, place_of(&node.span), message).help(hint));
            }
        }
    }
    let literals = Literals { inventory, added: &added };
    literals.delegations(context, findings);
    literals.subscripts(context, findings);
}

/// Check of names outside of patterns. Such a name may be missing on purpose, so only one that resembles a name of the
/// inventory is reported.
struct Literals<'p> {
    inventory: &'p Inventory,
    added: &'p HashSet<String>,
}

impl Literals<'_> {
    /// Checks the hosts in `delegate_to`.
    fn delegations(&self, context: &Context<'_>, findings: &mut Vec<Finding>) {
        for task in &context.tree.tasks {
            let Some(node) = task.map.get("delegate_to") else { continue };
            let Some(name) = node.as_str().filter(|text| !is_template(text)) else { continue };
            if let Some(hint) = self.hint(name, true) {
                let message = format!("`{name}` is not a host of the inventory");
                let finding = Finding::new(&UNKNOWN_GROUP, task.file, place_of(&node.span), message).help(Some(hint));
                findings.push(finding.within(task.line()));
            }
        }
    }

    /// Checks `groups['NAME']` and `hostvars['NAME']` in templates and conditions.
    fn subscripts(&self, context: &Context<'_>, findings: &mut Vec<Finding>) {
        for parsed in context.parsed {
            let text = parsed.node.map_or(Some(&*parsed.file.source.text), |node| node.as_str());
            let (Some(text), Ok(uses)) = (text, &*parsed.uses) else { continue };
            for found in uses.names.iter().filter(|found| !found.is_guarded) {
                let is_host = match (found.kind, found.name.as_str()) {
                    (UseKind::Variable, "hostvars") => true,
                    (UseKind::Variable, "groups") => false,
                    _ => continue,
                };
                let after = text.get(found.offset..).and_then(|rest| rest.strip_prefix(found.name.as_str()));
                let Some(name) = after.and_then(literal_subscript) else { continue };
                // A test elsewhere in the text may ask for the name first.
                let is_tested = text.contains(&format!("'{name}' in ")) || text.contains(&format!("\"{name}\" in "));
                if let Some(hint) = self.hint(name, is_host).filter(|_| !is_tested) {
                    let kind = if is_host { "host" } else { "group" };
                    let message = format!("`{name}` is not a {kind} of the inventory");
                    let place = parsed.place_of(found.offset, found.name.len());
                    findings.push(parsed.finding(&UNKNOWN_GROUP, place, message).help(Some(hint)));
                }
            }
        }
    }

    /// The host or group that a missing name resembles.
    fn hint(&self, name: &str, is_host: bool) -> Option<String> {
        let inventory = self.inventory;
        let is_known = inventory.host(name).is_some() || inventory.group(name).is_some() || self.added.contains(name);
        let may_be_added = self.added.iter().any(|added| is_template(added));
        if is_known || may_be_added || ["all", "ungrouped", "localhost", "127.0.0.1", "::1"].contains(&name) {
            return None;
        }
        let limit = (name.chars().count() / 4).min(2);
        let hosts = inventory.hosts().map(|host| host.name().to_string()).filter(|_| is_host);
        let groups = inventory.groups().map(|group| group.name().to_string()).filter(|_| !is_host);
        let names: Vec<String> = hosts.chain(groups).collect();
        nearest(name, limit, names.iter().map(String::as_str))
    }
}

/// The name in `['NAME']` or `["NAME"]` at the beginning of a text.
fn literal_subscript(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let quote = inner.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
    let (name, rest) = inner.get(1..)?.split_once(quote)?;
    (rest.starts_with(']') && !name.is_empty() && !name.contains('\\')).then_some(name)
}

/// Whether a term of a pattern names a group, even an empty one, or matches a host.
fn matches_any(inventory: &Inventory, term: &str) -> bool {
    // A part of a group, such as `web[0]`, may be empty too.
    let group = term.split_once('[').map_or(term, |(group, _)| group);
    inventory.group(group).is_some()
        || inventory.matching_without_limit(term).map_or(true, |matches| !matches.hosts.is_empty())
}

/// Names of groups and hosts that tasks add.
pub(super) fn added_names(context: &Context<'_>) -> HashSet<String> {
    let mut added = HashSet::new();
    for action in context.tree.tasks.iter().filter_map(|task| task.action.as_ref()) {
        let options: &[&str] = match action.short() {
            "add_host" => &["groups", "group", "groupname", "name", "host", "hostname"],
            "group_by" => &["key", "parents"],
            _ => continue,
        };
        for node in options.iter().filter_map(|option| action.args.get(option)) {
            for item in node.as_list().unwrap_or(std::slice::from_ref(node)) {
                added.extend(item.as_str().unwrap_or_default().split(',').map(|name| name.trim().to_owned()));
            }
        }
    }
    added
}
