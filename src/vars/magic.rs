//! Magic variables: set by the engine, and never overridden.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexSet;
use windlass_inventory::Inventory;
use windlass_template::{Compat, Value};

use super::scope::TaskScope;
use crate::paths::absolute;
use crate::playbook::Role;

/// Names that [`get`] supports.
pub(crate) const NAMES: &[&str] = &[
    "ansible_check_mode",
    "ansible_collection_name",
    "ansible_config_file",
    "ansible_dependent_role_names",
    "ansible_diff_mode",
    "ansible_facts",
    "ansible_forks",
    "ansible_inventory_sources",
    "ansible_limit",
    "ansible_parent_role_names",
    "ansible_parent_role_paths",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_name",
    "ansible_play_role_names",
    "ansible_playbook_python",
    "ansible_role_name",
    "ansible_role_names",
    "ansible_run_tags",
    "ansible_search_path",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
    "group_names",
    "groups",
    "hostvars",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "play_hosts",
    "playbook_dir",
    "role_name",
    "role_names",
    "role_path",
    "windlass_included_sources",
    "windlass_program",
];

/// Names whose values do not depend on the host.
pub(super) const OF_RUN: &[&str] = &[
    "ansible_check_mode",
    "ansible_config_file",
    "ansible_diff_mode",
    "ansible_forks",
    "ansible_inventory_sources",
    "ansible_limit",
    "ansible_playbook_python",
    "ansible_run_tags",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
    "groups",
    "hostvars",
    "playbook_dir",
    "windlass_included_sources",
    "windlass_program",
];

/// Version of ansible-core to emulate; playbooks check it.
pub(crate) fn ansible_version(compat: Compat) -> (u32, u32, u32) {
    match compat {
        Compat::V2_18 => (2, 18, 19),
        Compat::V2_19 => (2, 19, 14),
    }
}

/// Value of a magic variable; `None` for other names.
pub(super) fn get(scope: &TaskScope, name: &str) -> Option<Value> {
    let world = &scope.world;
    let settings = &world.run.settings;
    let strings = |list: &[String]| list.iter().map(String::as_str).map(Value::from).collect::<Value>();
    let path = |path: &Path| Value::from(path.display().to_string());
    Some(match name {
        "inventory_hostname" => Value::from(&*scope.host),
        "inventory_hostname_short" => Value::from(short(&scope.host)),
        "group_names" => group_names(&world.inventory, &scope.host),
        "groups" => world.groups.get_or_init(|| groups(&world.inventory)).clone(),
        "hostvars" => scope.hostvars(),
        "ansible_facts" => scope.facts(),
        "inventory_dir" => match world.inventory.host(&scope.host)?.inventory_dir() {
            Some(folder) => path(&absolute(&folder)),
            None => of_added_host(scope)?,
        },
        "inventory_file" => match world.inventory.host(&scope.host)?.inventory_file() {
            Some(list) if list.to_string_lossy().contains(',') => path(list),
            Some(file) => path(&absolute(file)),
            None => of_added_host(scope)?,
        },
        "playbook_dir" => path(&absolute(&world.playbook_dir())),
        "ansible_play_name" => Value::from(&*world.play.as_ref()?.name),
        "ansible_play_hosts_all" => world.play.as_ref()?.hosts_all.value(),
        "ansible_play_hosts" => world.play.as_ref()?.hosts.value(),
        "ansible_play_batch" | "play_hosts" => world.play.as_ref()?.batch.value(),
        "ansible_play_role_names" | "role_names" => {
            world.play.as_ref()?.roles().map(|role| Value::from(role.name.as_str())).collect()
        }
        "ansible_dependent_role_names" => names_of(dependencies(world.play.as_ref()?.roles())),
        "ansible_role_names" => {
            let play = world.play.as_ref()?;
            names_of(dependencies(play.roles()).into_iter().chain(play.roles()))
        }
        "role_name" => Value::from(scope.task.as_ref()?.frame.role()?.short_name()),
        "ansible_collection_name" => {
            scope.task.as_ref()?.frame.role()?.collection().map_or_else(|| Value::from(()), Value::from)
        }
        "ansible_role_name" => Value::from(scope.task.as_ref()?.frame.role()?.name.as_str()),
        "role_path" => path(&absolute(&scope.task.as_ref()?.frame.role()?.path)),
        "ansible_parent_role_names" => {
            let names = scope.task.as_ref()?.frame.roles().skip(1).map(|role| Value::from(role.name.as_str()));
            unless_empty(names.collect())?
        }
        "ansible_parent_role_paths" => {
            let paths = scope.task.as_ref()?.frame.roles().skip(1).map(|role| path(&absolute(&role.path)));
            unless_empty(paths.collect())?
        }
        "ansible_search_path" => search_paths(scope).iter().map(|folder| path(folder)).collect(),
        "ansible_check_mode" => Value::from(settings.check),
        "ansible_diff_mode" => Value::from(settings.diff),
        "ansible_forks" => Value::from(settings.forks),
        "ansible_inventory_sources" => strings(&settings.inventory.sources),
        "windlass_included_sources" => strings(world.inventory.included_sources()),
        "ansible_limit" => Value::from(settings.inventory.limit.as_deref()?),
        "ansible_run_tags" => strings(&settings.tags),
        "ansible_skip_tags" => strings(&settings.skip_tags),
        "ansible_verbosity" => Value::from(settings.verbosity),
        "ansible_config_file" => match &settings.config_file {
            Some(file) => path(file),
            None => Value::from(()),
        },
        "windlass_program" => path(&std::env::current_exe().unwrap_or_else(|_| PathBuf::from("windlass"))),
        "ansible_playbook_python" => Value::from(scope.world.run.python.as_str()),
        "ansible_version" => version(settings.compat),
        _ => return None,
    })
}

/// Place of a host without an inventory: null for one of `add_host`, and undefined for the implicit localhost.
fn of_added_host(scope: &TaskScope) -> Option<Value> {
    (!scope.world.inventory.host(&scope.host)?.is_implicit()).then(|| Value::from(()))
}

/// Name of a host without its domain.
fn short(host: &str) -> &str {
    let numeric = host.parse::<std::net::IpAddr>().is_ok();
    if numeric { host } else { host.split('.').next().unwrap_or(host) }
}

fn group_names(inventory: &Inventory, host: &str) -> Value {
    let groups = inventory.host(host).map(|host| inventory.groups_of(host)).unwrap_or_default();
    let mut sorted: Vec<&str> = groups.iter().map(|group| &**group.name()).filter(|name| *name != "all").collect();
    sorted.sort_unstable();
    sorted.into_iter().map(Value::from).collect()
}

fn version(compat: Compat) -> Value {
    let (major, minor, revision) = ansible_version(compat);
    let full = format!("{major}.{minor}.{revision}");
    Value::from_pairs([
        ("full", Value::from(full.as_str())),
        ("major", Value::from(major)),
        ("minor", Value::from(minor)),
        ("revision", Value::from(revision)),
        ("string", Value::from(full.as_str())),
    ])
}

/// Direct and indirect dependencies of roles.
fn dependencies<'a>(roles: impl Iterator<Item = &'a Arc<Role>>) -> Vec<&'a Arc<Role>> {
    roles.flat_map(dependencies_of).collect()
}

fn dependencies_of(role: &Arc<Role>) -> Vec<&Arc<Role>> {
    role.dependencies.iter().chain(role.dependencies.iter().flat_map(dependencies_of)).collect()
}

/// Names of roles, without duplicates.
fn names_of<'a>(roles: impl IntoIterator<Item = &'a Arc<Role>>) -> Value {
    let names: IndexSet<&str> = roles.into_iter().map(|role| role.name.as_str()).collect();
    names.into_iter().map(Value::from).collect()
}

/// A list, or `None` to make an empty one undefined.
fn unless_empty(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then(|| Value::from(items))
}

fn groups(inventory: &Inventory) -> Value {
    let hosts =
        |group: &str| inventory.hosts_of_group(group).iter().map(|host| Value::from(&**host.name())).collect::<Value>();
    Value::from_pairs(inventory.groups().map(|group| (Value::from(&**group.name()), hosts(group.name()))))
}

/// Directories searched for a task's files: its role, those that contain it or depend on it, the directory of its file,
/// the playbook's.
pub(super) fn search_paths(scope: &TaskScope) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut add = |folder: PathBuf| {
        let folder = absolute(&folder);
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    };
    if let Some(task) = &scope.task {
        for folder in task.frame.role_folders() {
            add(folder.to_owned());
        }
        if let Some(folder) = Path::new(&task.span.source.name).parent().filter(|_| task.span.is_located()) {
            add(folder.to_owned());
        }
    }
    add(scope.world.playbook_dir());
    folders
}
