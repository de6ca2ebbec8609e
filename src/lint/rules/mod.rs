//! The checks, one file for each group of rules.

mod commands;
mod conditions;
mod connections;
mod files;
mod handlers;
mod hosts;
mod inventory;
mod keywords;
mod modules;
mod options;
mod orphans;
mod paths;
mod roles;
mod secrets;
mod style;
mod templates;
mod values;
mod variables;

pub(super) use paths::{directories, of_playbooks};
pub(super) use roles::folder_among;

use super::context::Context;
use super::finding::Finding;

/// A check of one or a few rules.
type Check = fn(&Context<'_>, &mut Vec<Finding>);

/// All checks.
pub(super) const CHECKS: &[Check] = &[
    commands::check,
    conditions::check,
    connections::check,
    files::check,
    handlers::check,
    hosts::check,
    inventory::check,
    keywords::check,
    modules::check,
    options::check,
    orphans::check,
    paths::check,
    roles::check,
    secrets::check,
    style::check,
    templates::check,
    values::check,
    variables::check,
];
