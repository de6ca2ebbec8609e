//! Files in `group_vars` and `host_vars` that belong to no group or host of the inventory.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::hosts::added_names;
use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::{Finding, Place};
use crate::lint::index::name_below;
use crate::lint::rule::ORPHAN_VARS;
use crate::lint::source::{Kind, is_template};

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(inventory) = context.inventory else { return };
    let added = added_names(context);
    let has_template = added.iter().any(|name| is_template(name));
    let beside: BTreeSet<&Path> = context.inventory_files.keys().filter_map(|path| path.parent()).collect();
    let mut reported: HashSet<(PathBuf, String)> = HashSet::new();
    for file in context.files.iter().filter(|file| file.kind == Kind::Vars && file.is_chosen) {
        let path = crate::paths::absolute(&file.path);
        for (folder, kind) in [("group_vars", "group"), ("host_vars", "host")] {
            let Some(name) = name_below(&path, folder) else { continue };
            let is_known = match kind {
                "group" => inventory.group(&name).is_some() || ["all", "ungrouped"].contains(&name.as_str()),
                _ => inventory.host(&name).is_some() || name == "localhost",
            };
            // A name made from a template can be any that the project mentions as a key.
            let is_added = added.contains(&name) || (has_template && context.names.possible.contains(name.as_str()));
            let Some(parent) = path.ancestors().find(|path| path.ends_with(folder)).and_then(Path::parent) else {
                continue;
            };
            if is_known || is_added || !reported.insert((parent.join(folder), name.clone())) {
                continue;
            }
            let groups = inventory.groups().map(|group| &**group.name()).filter(|_| kind == "group");
            let hosts = inventory.hosts().map(|host| &**host.name()).filter(|_| kind == "host");
            let hint = nearest(&name, name.chars().count() / 4 + 1, groups.chain(hosts));
            // Variables beside a playbook may belong to another inventory.
            if !beside.contains(parent) && hint.is_none() {
                continue;
            }
            let message = format!("the inventory has no {kind} `{name}`, so nothing reads this file");
            findings.push(Finding::new(&ORPHAN_VARS, file, Place { line: 1, column: 1 }, message).help(hint));
        }
    }
}
