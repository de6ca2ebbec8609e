//! Variables that nothing defines, and variables that nothing uses.

use std::collections::HashSet;
use std::path::Path;

use windlass_template::uses::UseKind;

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{UNDEFINED_VARIABLE, UNUSED_VARIABLE};
use crate::lint::source::{Kind, place_of};
use crate::vars::magic::NAMES as MAGIC;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    undefined(context, findings);
    unused(context, findings);
}

fn undefined(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let names = context.names;
    // A name is reported once for each file.
    let mut reported: HashSet<(&Path, &str)> = HashSet::new();
    for parsed in context.parsed.iter().filter(|parsed| parsed.file.is_chosen) {
        let Ok(uses) = &*parsed.uses else { continue };
        for found in uses.names.iter().filter(|found| found.kind == UseKind::Variable && !found.is_guarded) {
            let name = found.name.as_str();
            if names.is_known(name) || uses.bound.contains(&found.name) || !reported.insert((&parsed.file.path, name)) {
                continue;
            }
            let limit = (name.chars().count() / 6).clamp(1, 3);
            let hint = nearest(name, limit, names.defined.iter().copied().chain(MAGIC.iter().copied()));
            // An encrypted file may define anything; only a likely misspelling is worth a report.
            if hint.is_none() && names.has_hidden {
                continue;
            }
            let place = parsed.place_of(found.offset, name.len());
            let message = format!("nothing in the project defines the variable `{name}`");
            findings.push(parsed.finding(&UNDEFINED_VARIABLE, place, message).help(hint));
        }
    }
}

fn unused(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let names = context.names;
    for file in context.files.iter().filter(|file| file.kind == Kind::RoleVars && file.is_chosen) {
        for key in file.node.as_map().into_iter().flat_map(|map| map.keys()) {
            let Some(name) = key.as_str() else { continue };
            // Variables of connections and of the engine are read by their names.
            if name.starts_with("ansible_") || names.is_used(name) {
                continue;
            }
            let message = format!("nothing in the project uses the variable `{name}`");
            findings.push(Finding::new(&UNUSED_VARIABLE, file, place_of(&key.span), message));
        }
    }
}
