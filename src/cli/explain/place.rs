//! Positions and levels of values, as text and as JSON.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_inventory::LayerOrigin;
use windlass_yaml::Span;

use crate::vars::{Level, World};

/// Shows positions relative to the current directory.
pub(super) struct Places {
    current: PathBuf,
}

impl Places {
    pub(super) fn new() -> Places {
        Places { current: std::env::current_dir().unwrap_or_default() }
    }

    /// A path, relative if it lies below the current directory.
    pub(super) fn path(&self, path: &Path) -> String {
        path.strip_prefix(&self.current).unwrap_or(path).display().to_string()
    }

    /// `file:line:column`, or the name of a source without lines.
    pub(super) fn span(&self, span: &Span) -> String {
        let name = self.path(Path::new(&span.source.name));
        if span.is_located() { format!("{name}:{}:{}", span.line, span.column) } else { name }
    }

    pub(super) fn optional(&self, span: Option<&Span>) -> String {
        span.map(|span| self.span(span)).unwrap_or_default()
    }
}

/// A position as JSON; null without one.
pub(super) fn json(span: Option<&Span>) -> Json {
    match span {
        Some(span) if span.is_located() => {
            json!({"file": span.source.name, "line": span.line, "column": span.column})
        }
        Some(span) => json!({"file": span.source.name, "line": null, "column": null}),
        None => Json::Null,
    }
}

/// Name of a level for people.
pub(super) fn level(level: Level, world: &World, host: &Arc<str>) -> String {
    let fixed = match level {
        Level::Extra => "extra variable (-e)",
        Level::Include => "vars of an include",
        Level::RoleParameters => "parameter of a role",
        Level::Set => "set_fact or register",
        Level::IncludedVars => "include_vars",
        Level::Task => "vars of the task",
        Level::Block => "vars of a block or import",
        Level::RoleEntry => "vars of a role's entry",
        Level::Role => "vars of a role",
        Level::VarsFile => "vars_files or vars_prompt",
        Level::Play => "vars of the play",
        Level::Facts => "fact",
        Level::AddHost => "add_host",
        Level::RoleDefaults => "defaults of a role",
        Level::ModuleFacts => "fact of a module of the project",
        Level::Inventory(index) => {
            return world.given_to(host).get(index).map(|layer| layer.origin.to_string()).unwrap_or_default();
        }
    };
    fixed.to_owned()
}

/// Name of a level for programs.
pub(super) fn level_word(level: Level, world: &World, host: &Arc<str>) -> &'static str {
    match level {
        Level::Extra => "extra_vars",
        Level::Include => "include_parameters",
        Level::RoleParameters => "role_parameters",
        Level::Set => "set_fact",
        Level::IncludedVars => "include_vars",
        Level::Task => "task_vars",
        Level::Block => "block_vars",
        Level::RoleEntry => "role_entry_vars",
        Level::Role => "role_vars",
        Level::VarsFile => "vars_files",
        Level::Play => "play_vars",
        Level::Facts => "facts",
        Level::AddHost => "add_host",
        Level::RoleDefaults => "role_defaults",
        Level::ModuleFacts => "module_facts",
        Level::Inventory(index) => match world.given_to(host).get(index).map(|layer| &layer.origin) {
            Some(LayerOrigin::GroupInventory { .. }) => "inventory_group",
            Some(LayerOrigin::GroupFile { .. }) => "group_vars",
            Some(LayerOrigin::HostInventory) => "inventory_host",
            Some(LayerOrigin::HostFile { .. }) => "host_vars",
            None => "inventory",
        },
    }
}
