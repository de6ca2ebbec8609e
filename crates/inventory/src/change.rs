//! Changes to an inventory: statements of sources, and `add_host` and `group_by` during a run.

use std::path::Path;
use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span, Value};

use crate::model::{ALL, Group, GroupId, Host, HostId, UNGROUPED};
use crate::names::{GroupNames, is_variable_name};
use crate::places::Owner;
use crate::step::Step;
use crate::{Error, Inventory, Warning};

pub(crate) const PRIORITY: &str = "ansible_group_priority";

/// The proper place of a host.
enum Place {
    Ungrouped,
    Elsewhere,
}

impl Inventory {
    /// Adds a host (`add_host`), or adds variables and groups to an existing one. Creates missing groups. Returns
    /// whether anything changed.
    pub fn add_host(&mut self, name: &str, groups: &[&str], variables: &Mapping) -> bool {
        let span = variables.values().next().map_or_else(Span::none, |value| value.span.clone());
        let is_new = !self.hosts.contains_key(name);
        let host = self.ensure_host(name, None, None, &span);
        let mut changed = is_new;
        if is_new {
            self.join(host, ALL);
        }
        let merge = self.merge_hashes;
        if let Some((_, host)) = self.hosts.get_index_mut(host) {
            let news =
                variables.iter().any(|(key, value)| host.variables.get_key(key).map(|(_, old)| old) != Some(value));
            if news {
                set_variables(&mut host.variables, variables.iter(), merge);
                changed = true;
            }
        }
        for group in groups {
            changed |= self.add_host_to_group(name, group);
        }
        self.settle_host(host);
        self.forget_layers();
        changed
    }

    /// Adds a group under `all`. Returns whether it is new.
    pub fn add_group(&mut self, name: &str) -> bool {
        let is_new = !self.groups.contains_key(name);
        let group = self.ensure_group(name, &Span::none());
        self.settle_group(group);
        self.forget_layers();
        is_new
    }

    /// Makes one group contain another and creates missing groups. Returns whether the relation is new.
    pub fn add_child(&mut self, parent: &str, child: &str) -> Result<bool, Error> {
        let parent_id = self.ensure_group(parent, &Span::none());
        let child_id = self.ensure_group(child, &Span::none());
        let is_new = self.try_link(parent_id, child_id)?;
        self.settle_group(parent_id);
        self.forget_layers();
        Ok(is_new)
    }

    /// Adds an existing host to a group (`group_by`), and creates a missing group. Returns whether the membership is
    /// new. The implicit localhost can join groups too, but stays outside `all`.
    pub fn add_host_to_group(&mut self, host: &str, group: &str) -> bool {
        let Some(name) = self.host(host).map(|host| Arc::clone(&host.name)) else { return false };
        let implicit = self.implicit.iter().find(|implicit| implicit.name == name);
        if let Some(implicit) = implicit.filter(|_| !self.hosts.contains_key(&name)) {
            self.hosts.insert(Arc::clone(&name), implicit.clone());
        }
        let Some(host) = self.hosts.get_index_of(&name) else { return false };
        let group = self.ensure_group(group, &Span::none());
        self.settle_group(group);
        let is_new = self.join(host, group);
        self.settle_host(host);
        self.forget_layers();
        is_new
    }

    /// Applies one statement of a source.
    pub(crate) fn apply(&mut self, step: Step, source: &Arc<Path>) -> Result<(), Error> {
        match step {
            Step::Group { name, span } => {
                self.ensure_group(&name, &span);
            }
            Step::Hosts { names, group, port, variables, span } => {
                let group = self.ensure_group(&group, &span);
                for name in names {
                    let host = self.ensure_host(&name, Some(source), port.as_ref(), &span);
                    self.join_at(host, group, &span);
                    self.give(host, &variables);
                }
            }
            Step::Host { name, span } => {
                self.ensure_host(&name, Some(source), None, &span);
            }
            Step::Member { group, host, span } => {
                let host = self.ensure_host(&host, Some(source), None, &span);
                let group = self.ensure_group(&group, &span);
                self.join_at(host, group, &span);
            }
            Step::HostVariables { host, variables } => {
                if let Some(host) = self.hosts.get_index_of(&*host) {
                    self.give(host, &variables);
                }
            }
            Step::GroupVariable { group, key, value } => {
                let group = self.ensure_group(&group, &key.span);
                self.set_group_variable(group, key, value)?;
            }
            Step::Child { parent, child, span } => {
                let parent = self.ensure_group(&parent, &span);
                let child = self.ensure_group(&child, &span);
                self.try_link_at(parent, child, &span)?;
            }
        }
        Ok(())
    }

    /// Adds variables to a host; hosts of one range share them.
    pub(crate) fn give(&mut self, host: HostId, variables: &Arc<Mapping>) {
        let merge = self.merge_hashes;
        let Some((name, host)) = self.hosts.get_index_mut(host) else { return };
        if let Some(places) = &mut self.places {
            places.replace(&Owner::Host(Arc::clone(name)), &host.variables, variables.iter());
        }
        if host.variables.is_empty() {
            host.variables = Arc::clone(variables);
        } else if !variables.is_empty() {
            set_variables(&mut host.variables, variables.iter(), merge);
        }
    }

    fn set_group_variable(&mut self, group: GroupId, key: Key, value: Node) -> Result<(), Error> {
        let merge = self.merge_hashes;
        let Some((name, group)) = self.groups.get_index_mut(group) else { return Ok(()) };
        if key.as_str() != Some(PRIORITY) {
            if let Some(places) = &mut self.places {
                places.replace(&Owner::Group(Arc::clone(name)), &group.variables, std::iter::once((&key, &value)));
            }
            set_variables(&mut group.variables, std::iter::once((&key, &value)), merge);
            return Ok(());
        }
        let priority = match &value.value {
            Value::Int(number) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            Value::Float(number) => Some(*number as i64),
            _ => value.as_str().and_then(|text| text.trim().parse().ok()),
        };
        group.priority = priority.ok_or_else(|| {
            let message = format!("`{PRIORITY}` must be an integer, but this is {}.", value.kind());
            Error::at(&value.span, message)
        })?;
        Ok(())
    }

    pub(crate) fn ensure_group(&mut self, name: &str, span: &Span) -> GroupId {
        let usable = self.group_names.usable(name);
        if let Some(group) = self.groups.get_index_of(&*usable) {
            return group;
        }
        if *usable != *name {
            self.replaced_names.push(name.to_owned());
        }
        let name: Arc<str> = usable.into();
        let group = Group {
            name: Arc::clone(&name),
            variables: Arc::default(),
            priority: 1,
            depth: 0,
            hosts: indexmap::IndexSet::new(),
            children: Vec::new(),
            parents: Vec::new(),
            span: span.clone(),
        };
        self.groups.insert_full(name, group).0
    }

    /// Finds a host, or creates it with its source and port.
    fn ensure_host(&mut self, name: &str, source: Option<&Arc<Path>>, port: Option<&Node>, span: &Span) -> HostId {
        if let Some(host) = self.hosts.get_index_of(name) {
            return host;
        }
        let name: Arc<str> = name.into();
        let mut variables = Arc::default();
        if let Some(port) = port {
            variables = Arc::new(Mapping::from(vec![(Key::string("ansible_port", span.clone()), port.clone())]));
        }
        let host = Host {
            name: Arc::clone(&name),
            variables,
            groups: Vec::new(),
            source: source.cloned(),
            is_implicit: false,
            span: span.clone(),
        };
        self.hosts.insert_full(name, host).0
    }

    /// Adds a host to a group.
    pub(crate) fn join(&mut self, host: HostId, group: GroupId) -> bool {
        let is_new = self.group_at_mut(group).is_some_and(|group| group.hosts.insert(host));
        if is_new && let Some((_, host)) = self.hosts.get_index_mut(host) {
            host.groups.push(group);
        }
        is_new
    }

    /// Adds a host to a group, and keeps the position that requests it.
    pub(crate) fn join_at(&mut self, host: HostId, group: GroupId, span: &Span) {
        let is_new = self.join(host, group);
        if let Some(places) = &mut self.places {
            places.join(group, host, is_new, span);
        }
    }

    /// Makes one group contain another, and keeps the position that requests it.
    pub(crate) fn try_link_at(&mut self, parent: GroupId, child: GroupId, span: &Span) -> Result<(), Error> {
        let is_new = self.try_link(parent, child).map_err(|error| Error::at(span, error.to_string()))?;
        if let Some(places) = self.places.as_mut().filter(|_| is_new) {
            places.children.insert((parent, child), span.clone());
        }
        Ok(())
    }

    fn leave(&mut self, host: HostId, group: GroupId) {
        if let Some(group) = self.group_at_mut(group) {
            group.hosts.shift_remove(&host);
        }
        if let Some((_, host)) = self.hosts.get_index_mut(host) {
            host.groups.retain(|joined| *joined != group);
        }
    }

    pub(crate) fn try_link(&mut self, parent: GroupId, child: GroupId) -> Result<bool, Error> {
        if self.with_ancestors(&[parent]).contains(&child) {
            let name = |group| self.group_at(group).map(|group| group.name.to_string()).unwrap_or_default();
            return Err(Error::Loop { parent: name(parent), child: name(child) });
        }
        Ok(self.link(parent, child))
    }

    /// Makes one group contain another, which must not be its ancestor.
    pub(crate) fn link(&mut self, parent: GroupId, child: GroupId) -> bool {
        let Some(group) = self.group_at_mut(parent) else { return false };
        if group.children.contains(&child) {
            return false;
        }
        group.children.push(child);
        let depth = group.depth + 1;
        if let Some(group) = self.group_at_mut(child) {
            group.parents.push(parent);
        }
        let mut deeper = vec![(child, depth)];
        while let Some((group, depth)) = deeper.pop() {
            if let Some(group) = self.group_at_mut(group).filter(|group| group.depth < depth) {
                group.depth = depth;
                deeper.extend(group.children.iter().map(|child| (*child, depth + 1)));
            }
        }
        true
    }

    /// Makes a group without parents a child of `all`.
    fn settle_group(&mut self, group: GroupId) {
        if group != ALL && self.group_at(group).is_some_and(|group| group.parents.is_empty()) {
            self.link(ALL, group);
        }
    }

    /// Puts a host into `ungrouped` exactly if it has no other group.
    fn settle_host(&mut self, host: HostId) {
        match self.place_of(host) {
            Some(Place::Elsewhere) => self.leave(host, UNGROUPED),
            Some(Place::Ungrouped) => {
                self.join(host, UNGROUPED);
            }
            None => {}
        }
    }

    /// The proper place of a host, unless it is already there.
    fn place_of(&self, host: HostId) -> Option<Place> {
        let found = self.host_at(host)?;
        let in_ungrouped = found.groups.contains(&UNGROUPED);
        let is_other = |group: &GroupId| *group != ALL && *group != UNGROUPED;
        let in_others = found.groups.iter().any(is_other) || self.with_ancestors(&found.groups).iter().any(is_other);
        match (in_ungrouped, in_others) {
            (true, true) => Some(Place::Elsewhere),
            (false, false) if !found.is_implicit => Some(Place::Ungrouped),
            _ => None,
        }
    }

    /// Settles all hosts. Those that leave `ungrouped` are removed together, because removing them one by one would
    /// take quadratic time.
    fn settle_hosts(&mut self) {
        let mut leaving = std::collections::HashSet::new();
        for host in 0..self.hosts.len() {
            match self.place_of(host) {
                Some(Place::Elsewhere) => {
                    leaving.insert(host);
                }
                Some(Place::Ungrouped) => {
                    self.join(host, UNGROUPED);
                }
                None => {}
            }
        }
        if let Some(ungrouped) = self.group_at_mut(UNGROUPED) {
            ungrouped.hosts.retain(|host| !leaving.contains(host));
        }
        for host in leaving {
            if let Some((_, host)) = self.hosts.get_index_mut(host) {
                host.groups.retain(|group| *group != UNGROUPED);
            }
        }
    }

    /// Settles groups and hosts after all sources are read, and warns about their names.
    pub(crate) fn settle(&mut self) -> Vec<Warning> {
        for group in 0..self.groups.len() {
            self.settle_group(group);
        }
        self.settle_hosts();
        self.forget_layers();
        let mut warnings = Vec::new();
        let are_replaced = self.group_names == GroupNames::Always;
        let names: Vec<String> = match self.group_names {
            GroupNames::Always => std::mem::take(&mut self.replaced_names),
            GroupNames::Never => {
                self.groups.keys().filter(|name| !is_variable_name(name)).map(|name| name.to_string()).collect()
            }
            GroupNames::Ignore | GroupNames::Silently => Vec::new(),
        };
        if !names.is_empty() {
            warnings.push(Warning::GroupNames { names, are_replaced });
        }
        let both = self.groups.keys().filter(|name| self.hosts.contains_key(&***name));
        warnings.extend(both.map(|name| Warning::GroupAndHost { name: name.to_string() }));
        warnings
    }

    pub(crate) fn forget_layers(&mut self) {
        self.group_layers.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}

/// Adds variables. With `merge`, dictionaries of the same name are merged instead of replaced.
pub(crate) fn set_variables<'n>(
    variables: &mut Arc<Mapping>,
    news: impl Iterator<Item = (&'n Key, &'n Node)>,
    merge: bool,
) {
    let variables = Arc::make_mut(variables);
    for (key, value) in news {
        let former = if merge { variables.get_key(key) } else { None };
        let value = former.map_or_else(|| value.clone(), |(_, former)| value.merged_over(former));
        variables.insert(key.clone(), value);
    }
}
