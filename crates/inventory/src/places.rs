//! Positions of memberships, and values that later sources replace. Explanations need them, runs do not.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span};

use crate::model::{ALL, GroupId, HostId, Inventory, UNGROUPED};
use crate::{Group, Host, HostName, LayerOrigin};

/// Owner of variables in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Host(Arc<str>),
    Group(Arc<str>),
}

/// Value of a variable that a later source replaced.
#[derive(Clone, Debug)]
pub struct Replaced {
    owner: Owner,
    /// The variable, as written.
    pub key: Key,
    /// Value before the replacement.
    pub value: Node,
}

/// A host that a source names in the same group again.
#[derive(Clone, Debug)]
pub struct Repeated {
    host: HostId,
    group: GroupId,
    /// The first position.
    pub first: Span,
    /// The second position.
    pub second: Span,
}

/// Positions and replaced values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Positions that put a host into a group.
    pub(crate) members: HashMap<(GroupId, HostId), Span>,
    /// Positions that put a group (second) into another (first).
    pub(crate) children: HashMap<(GroupId, GroupId), Span>,
    replaced: Vec<Replaced>,
    repeated: Vec<Repeated>,
}

impl Places {
    /// Keeps the position that puts a host into a group.
    pub(crate) fn join(&mut self, group: GroupId, host: HostId, is_new: bool, span: &Span) {
        if is_new {
            self.members.insert((group, host), span.clone());
            return;
        }
        let first = self.members.get(&(group, host)).filter(|first| first.source.name == span.source.name);
        if let Some(first) = first.filter(|first| *first != span) {
            let (first, second) = (first.clone(), span.clone());
            self.repeated.push(Repeated { host, group, first, second });
        }
    }

    /// Keeps the values that `news` is about to replace.
    pub(crate) fn replace<'n>(
        &mut self,
        owner: &Owner,
        old: &Mapping,
        news: impl Iterator<Item = (&'n Key, &'n Node)>,
    ) {
        for (key, value) in news.filter_map(|(key, _)| old.get_key(key)) {
            self.replaced.push(Replaced { owner: owner.clone(), key: key.clone(), value: value.clone() });
        }
    }
}

/// Reason why a group contains a host.
#[derive(Clone, Debug)]
pub enum Membership<'i> {
    /// A source names the host in the group, at this position if it is known.
    Direct(Option<&'i Span>),
    /// A child of the group contains the host; the position makes it a child.
    Child(&'i Group, Option<&'i Span>),
    /// No source puts the group into another one, so `all` contains it.
    Parentless(&'i Group),
    /// No group but `all` contains the host.
    Ungrouped,
}

impl Inventory {
    /// The groups that contain a host, later ones win, each with all reasons.
    pub fn memberships<'i>(&'i self, host: &Host) -> Vec<(&'i Group, Vec<Membership<'i>>)> {
        let groups = self.sorted_groups(host);
        let id = self.hosts.get_index_of(&host.name);
        let places = self.places.as_deref();
        let reasons = |group: GroupId| {
            let mut reasons = Vec::new();
            if host.groups.contains(&group) {
                let span = places.zip(id).and_then(|(places, host)| places.members.get(&(group, host)));
                reasons.push(match group {
                    UNGROUPED if span.is_none() => Membership::Ungrouped,
                    _ => Membership::Direct(span),
                });
            }
            for child in groups.iter().copied() {
                let Some(found) = self.group_at(child).filter(|found| found.parents.contains(&group)) else { continue };
                let span = places.and_then(|places| places.children.get(&(group, child)));
                reasons.push(match span {
                    None if group == ALL => Membership::Parentless(found),
                    span => Membership::Child(found, span),
                });
            }
            reasons
        };
        groups.iter().filter_map(|group| Some((self.group_at(*group)?, reasons(*group)))).collect()
    }

    /// Hosts that a source names in the same group again, with the names of host and group.
    pub fn repeated(&self) -> impl Iterator<Item = (&HostName, &Arc<str>, &Repeated)> {
        let all = self.places.iter().flat_map(|places| &places.repeated);
        all.filter_map(|repeated| {
            let (host, group) = (self.host_at(repeated.host)?, self.group_at(repeated.group)?);
            Some((host.name(), group.name(), repeated))
        })
    }

    /// Values of a variable that later sources replaced within a layer of a host, the latest first.
    pub fn replaced(&self, host: &str, origin: &LayerOrigin, name: &str) -> Vec<&Replaced> {
        let owner = match origin {
            LayerOrigin::HostInventory => Owner::Host(host.into()),
            LayerOrigin::GroupInventory { group } => Owner::Group(Arc::clone(group)),
            LayerOrigin::GroupFile { .. } | LayerOrigin::HostFile { .. } => return Vec::new(),
        };
        let all = self.places.iter().flat_map(|places| &places.replaced);
        let mut found: Vec<_> =
            all.filter(|replaced| replaced.owner == owner && replaced.key.as_str() == Some(name)).collect();
        found.reverse();
        found
    }
}
