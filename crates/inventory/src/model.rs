//! Hosts, groups and their relations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use indexmap::{IndexMap, IndexSet};
use windlass_yaml::{Mapping, Node, Span, Value};

use crate::files::VariableFiles;
use crate::layers::Layer;
use crate::names::GroupNames;
use crate::places::Places;

/// Name of a host, shared by all its users.
pub type HostName = Arc<str>;

/// Index of a group in the inventory.
pub(crate) type GroupId = usize;
/// Index of a host in the inventory.
pub(crate) type HostId = usize;

pub(crate) const ALL: GroupId = 0;
pub(crate) const UNGROUPED: GroupId = 1;

/// Names that mean the controller unless an inventory defines them.
pub(crate) const LOCALHOST_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) name: HostName,
    pub(crate) variables: Arc<Mapping>,
    /// Groups that directly contain the host.
    pub(crate) groups: Vec<GroupId>,
    pub(crate) source: Option<Arc<Path>>,
    pub(crate) is_implicit: bool,
    pub(crate) span: Span,
}

impl Host {
    /// The name.
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// The name up to its first dot, or the whole name if it is an address.
    pub fn short_name(&self) -> &str {
        if crate::address::is_ip(&self.name) { &self.name } else { self.name.split('.').next().unwrap_or(&self.name) }
    }

    /// Variables of the host in inventories and from `add_host`.
    pub fn variables(&self) -> &Arc<Mapping> {
        &self.variables
    }

    /// Source in which the host was first seen; for a host list, its text.
    pub fn inventory_file(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// Directory of the source in which the host was first seen.
    pub fn inventory_dir(&self) -> Option<PathBuf> {
        let source = self.source.as_deref()?;
        if source.is_dir() {
            return Some(source.to_path_buf());
        }
        let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent {
            Some(parent) => Some(parent.to_path_buf()),
            None => std::env::current_dir().ok(),
        }
    }

    /// Whether this is the implicit localhost: the control machine under a name that the inventory does not have.
    pub fn is_implicit(&self) -> bool {
        self.is_implicit
    }

    /// Position at which the host was first named.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

/// A group of hosts.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) variables: Arc<Mapping>,
    pub(crate) priority: i64,
    pub(crate) depth: usize,
    pub(crate) hosts: IndexSet<HostId>,
    pub(crate) children: Vec<GroupId>,
    pub(crate) parents: Vec<GroupId>,
    pub(crate) span: Span,
}

impl Group {
    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Variables of the group in inventories.
    pub fn variables(&self) -> &Arc<Mapping> {
        &self.variables
    }

    /// `ansible_group_priority`: among groups of equal depth, the higher wins.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// Number of ancestors on the longest path.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Position at which the group was first named.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

/// Hosts, groups and their variables.
#[derive(Debug)]
pub struct Inventory {
    pub(crate) hosts: IndexMap<HostName, Host>,
    pub(crate) groups: IndexMap<Arc<str>, Group>,
    /// The controller under names that the inventory lacks.
    pub(crate) implicit: Vec<Host>,
    /// Directories with `group_vars` and `host_vars`, in the order of the sources.
    pub(crate) source_directories: Vec<PathBuf>,
    /// Sources that other sources include.
    pub(crate) included: Vec<String>,
    /// Whether a program or a plugin has made hosts, groups or variables.
    pub(crate) made_by_program: bool,
    pub(crate) playbook_directory: Option<PathBuf>,
    pub(crate) files: Arc<VariableFiles>,
    /// Cached layers of hosts, by the groups that directly contain them.
    pub(crate) group_layers: Mutex<HashMap<Vec<GroupId>, Arc<[Layer]>>>,
    /// Patterns of `--limit`.
    pub(crate) limit: Option<Vec<String>>,
    pub(crate) group_names: GroupNames,
    /// Whether a source could be read.
    pub(crate) was_read: bool,
    /// Replaced group names that still await a warning.
    pub(crate) replaced_names: Vec<String>,
    /// Variables of the command line, which apply to every host.
    pub(crate) extra_vars: Arc<Mapping>,
    /// Whether dictionaries from several sources are merged.
    pub(crate) merge_hashes: bool,
    /// Positions of memberships and replaced values, if requested.
    pub(crate) places: Option<Box<Places>>,
}

impl Clone for Inventory {
    fn clone(&self) -> Self {
        Self {
            hosts: self.hosts.clone(),
            groups: self.groups.clone(),
            implicit: self.implicit.clone(),
            source_directories: self.source_directories.clone(),
            included: self.included.clone(),
            made_by_program: self.made_by_program,
            playbook_directory: self.playbook_directory.clone(),
            files: Arc::clone(&self.files),
            group_layers: Mutex::default(),
            limit: self.limit.clone(),
            group_names: self.group_names,
            was_read: self.was_read,
            replaced_names: Vec::new(),
            extra_vars: Arc::clone(&self.extra_vars),
            merge_hashes: self.merge_hashes,
            places: self.places.clone(),
        }
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Self::empty(Arc::default())
    }
}

impl Inventory {
    /// Creates an inventory with the groups `all` and `ungrouped` and no hosts.
    pub(crate) fn empty(files: Arc<VariableFiles>) -> Self {
        let mut inventory = Self {
            hosts: IndexMap::new(),
            groups: IndexMap::new(),
            implicit: LOCALHOST_NAMES.map(implicit_localhost).to_vec(),
            source_directories: Vec::new(),
            included: Vec::new(),
            made_by_program: false,
            playbook_directory: None,
            files,
            group_layers: Mutex::default(),
            limit: None,
            group_names: GroupNames::default(),
            was_read: false,
            replaced_names: Vec::new(),
            extra_vars: Arc::default(),
            merge_hashes: false,
            places: None,
        };
        let all = inventory.ensure_group("all", &Span::none());
        let ungrouped = inventory.ensure_group("ungrouped", &Span::none());
        inventory.link(all, ungrouped);
        inventory
    }

    /// The hosts in the order in which they were first named.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = &Host> {
        self.hosts.values()
    }

    /// The groups in the order in which they were first named, always including `all` and `ungrouped`.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.values()
    }

    /// Names of all groups, then of all hosts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.values().map(|group| &*group.name).chain(self.hosts.values().map(|host| &**host.name()))
    }

    /// Variables that the inventory sets for each host, then for each group.
    pub fn variables(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.hosts.values().map(Host::variables).chain(self.groups.values().map(Group::variables))
    }

    /// A host by its name. `localhost`, `127.0.0.1` and `::1` always exist.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.get(name).or_else(|| self.localhost(name))
    }

    /// The controller under a name that the inventory lacks: the first of its other names that the inventory has,
    /// otherwise an implicit host.
    pub(crate) fn localhost(&self, name: &str) -> Option<&Host> {
        let implicit = self.implicit.iter().find(|host| *host.name == *name)?;
        let named = self.hosts.values().find(|host| LOCALHOST_NAMES.contains(&&*host.name));
        Some(named.unwrap_or(implicit))
    }

    /// A group by its name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    /// The hosts of a group and its descendants, without duplicates, in the order used by patterns and `groups`.
    pub fn hosts_of_group(&self, name: &str) -> Vec<&Host> {
        let Some(group) = self.groups.get_index_of(name) else { return Vec::new() };
        self.hosts_below(group).into_iter().filter_map(|host| self.host_at(host)).collect()
    }

    /// The hosts that a group directly contains.
    pub fn direct_hosts_of_group(&self, name: &str) -> Vec<&Host> {
        let hosts = self.groups.get(name).map(|group| &group.hosts);
        hosts.into_iter().flatten().filter_map(|host| self.host_at(*host)).collect()
    }

    /// The groups that a group directly contains.
    pub fn children_of_group(&self, name: &str) -> Vec<&Group> {
        let children = self.groups.get(name).map(|group| &group.children);
        children.into_iter().flatten().filter_map(|group| self.group_at(*group)).collect()
    }

    /// The groups that contain a host, directly or not, sorted by depth, priority and name: later ones win. `all` is
    /// the first; no group contains the implicit localhost.
    pub fn groups_of(&self, host: &Host) -> Vec<&Group> {
        self.sorted_groups(host).into_iter().filter_map(|group| self.group_at(group)).collect()
    }

    /// Whether a source could be read.
    pub fn was_read(&self) -> bool {
        self.was_read
    }

    /// Sources that the given sources include (`windlass.group`): paths, or lists of hosts.
    pub fn included_sources(&self) -> &[String] {
        &self.included
    }

    /// Whether a source was a script, a pipe or the configuration of a plugin, so that no file has all that it gave.
    pub fn is_made_by_program(&self) -> bool {
        self.made_by_program
    }

    /// The directories whose `group_vars` and `host_vars` are read, in the order of the sources.
    pub fn source_directories(&self) -> &[PathBuf] {
        &self.source_directories
    }

    pub(crate) fn host_at(&self, host: HostId) -> Option<&Host> {
        self.hosts.get_index(host).map(|(_, host)| host)
    }

    pub(crate) fn group_at(&self, group: GroupId) -> Option<&Group> {
        self.groups.get_index(group).map(|(_, group)| group)
    }

    pub(crate) fn group_at_mut(&mut self, group: GroupId) -> Option<&mut Group> {
        self.groups.get_index_mut(group).map(|(_, group)| group)
    }

    /// The groups of a host, in ascending precedence.
    pub(crate) fn sorted_groups(&self, host: &Host) -> Vec<GroupId> {
        let mut groups: Vec<GroupId> = self.with_ancestors(&host.groups).into_iter().collect();
        let rank = |group: &GroupId| self.group_at(*group).map(|group| (group.depth, group.priority, &group.name));
        groups.sort_by(|a, b| rank(a).cmp(&rank(b)));
        groups
    }

    /// The groups and all their ancestors.
    pub(crate) fn with_ancestors(&self, groups: &[GroupId]) -> IndexSet<GroupId> {
        let mut found: IndexSet<GroupId> = groups.iter().copied().collect();
        let mut next = 0;
        while let Some(group) = found.get_index(next).copied() {
            found.extend(self.group_at(group).map(|group| &group.parents).into_iter().flatten());
            next += 1;
        }
        found
    }

    /// The hosts of a group: its own, then its children's, level by level.
    pub(crate) fn hosts_below(&self, top: GroupId) -> IndexSet<HostId> {
        let mut groups = IndexSet::from([top]);
        let mut hosts = IndexSet::new();
        let mut next = 0;
        while let Some(group) = groups.get_index(next).and_then(|group| self.group_at(*group)) {
            hosts.extend(group.hosts.iter().copied());
            groups.extend(group.children.iter().copied());
            next += 1;
        }
        if top == ALL {
            hosts.retain(|host| !self.host_at(*host).is_some_and(Host::is_implicit));
        }
        hosts
    }
}

fn implicit_localhost(name: &str) -> Host {
    let mut variables = Mapping::new();
    let span = Span::synthetic("implicit localhost");
    variables.insert_str("ansible_connection", Node::new(Value::Literal("local".into()), span.clone()));
    // A template, so that the interpreter is only searched for when the variable is used.
    #[expect(clippy::disallowed_methods, reason = "a constant")]
    let python = Node::of_project("{{ ansible_playbook_python }}", span.clone());
    variables.insert_str("ansible_python_interpreter", python);
    Host {
        name: name.into(),
        variables: Arc::new(variables),
        groups: Vec::new(),
        source: None,
        is_implicit: true,
        span,
    }
}
