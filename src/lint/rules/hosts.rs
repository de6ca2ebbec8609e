//! Host patterns against the inventory.

use std::collections::HashSet;

use windlass_inventory::{Inventory, split_pattern};

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::UNKNOWN_GROUP;
use crate::lint::source::{is_template, place_of};
use crate::playbook::On;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(inventory) = context.inventory else { return };
    let names: Vec<String> = inventory
        .groups()
        .map(|group| group.name().to_string())
        .chain(inventory.hosts().map(|host| host.name().to_string()))
        .collect();
    let added = added_names(context);
    for entry in context.tree.entries.iter().filter(|entry| entry.on == On::Play) {
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
                let hint = nearest(name, name.chars().count() / 4 + 1, names.iter().map(String::as_str));
                findings.push(Finding::new(&UNKNOWN_GROUP, entry.file, place_of(&node.span), message).help(hint));
            }
        }
    }
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
