//! Variables of a host from the inventory and the files beside it, in Ansible's order of precedence.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use windlass_yaml::Mapping;

use crate::files::{Kind, PluginVars};
use crate::load::canonical;
use crate::model::{ALL, GroupId, Inventory};
use crate::{Error, Host, Warning};

/// Owner of a `group_vars` or `host_vars` directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The directory lies beside an inventory source.
    Inventory,
    /// The directory lies beside the playbook.
    Playbook,
}

/// Origin of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerOrigin {
    /// A group of an inventory.
    GroupInventory {
        /// Name of the group.
        group: Arc<str>,
    },
    /// A file of `group_vars`.
    GroupFile {
        /// Name of the group.
        group: Arc<str>,
        /// The file.
        path: Arc<Path>,
        /// Owner of the directory.
        place: Place,
    },
    /// A host of an inventory, or `add_host`.
    HostInventory,
    /// A file of `host_vars`.
    HostFile {
        /// The file.
        path: Arc<Path>,
        /// Owner of the directory.
        place: Place,
    },
}

/// Formats the origin for messages, without the path of a file.
impl fmt::Display for LayerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = |place: &Place| match place {
            Place::Inventory => "",
            Place::Playbook => " beside the playbook",
        };
        match self {
            LayerOrigin::GroupInventory { group } => write!(f, "group {group} in the inventory"),
            LayerOrigin::GroupFile { group, place, .. } => write!(f, "group_vars of {group}{}", beside(place)),
            LayerOrigin::HostInventory => f.write_str("host in the inventory"),
            LayerOrigin::HostFile { place, .. } => write!(f, "host_vars{}", beside(place)),
        }
    }
}

/// Variables of one origin.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Origin of the variables.
    pub origin: LayerOrigin,
    /// The variables.
    pub vars: Arc<Mapping>,
}

impl Layer {
    /// Whether the variables belong to the host itself, rather than to a group.
    pub fn is_of_host(&self) -> bool {
        matches!(self.origin, LayerOrigin::HostInventory | LayerOrigin::HostFile { .. })
    }
}

impl Inventory {
    /// The layers of a host, lowest precedence first:
    ///
    /// * the inventory's variables of `all`, then of the other groups;
    /// * `group_vars/all` beside the inventory and the playbook, then `group_vars` of the other groups;
    /// * the host's own variables, then its `host_vars`.
    ///
    /// Hosts in the same groups share layers.
    pub fn layers(&self, host: &Host) -> Result<Vec<Layer>, Error> {
        let mut layers = self.layers_of_groups(host)?.to_vec();
        push(&mut layers, LayerOrigin::HostInventory, &host.variables);
        for place in [Place::Inventory, Place::Playbook] {
            for directory in self.directories(place) {
                for (path, vars) in self.files.find(directory, Kind::Host, &host.name)? {
                    push(&mut layers, LayerOrigin::HostFile { path, place }, &vars);
                }
            }
        }
        Ok(layers)
    }

    /// The layers that a single group gives to its hosts: its own variables, then its `group_vars`.
    pub fn layers_of_group(&self, name: &str) -> Result<Vec<Layer>, Error> {
        let Some(group) = self.groups.get_index_of(name) else { return Ok(Vec::new()) };
        let mut layers = Vec::new();
        self.push_inventory(&mut layers, &[group]);
        self.push_files(&mut layers, Place::Inventory, &[group])?;
        self.push_files(&mut layers, Place::Playbook, &[group])?;
        Ok(layers)
    }

    /// Whether `directory` is the current playbook directory.
    pub fn is_playbook_dir(&self, directory: &Path) -> bool {
        self.playbook_directory.as_deref() == Some(canonical(directory).as_path())
    }

    /// Sets the playbook directory, from which `group_vars` and `host_vars` are read.
    pub fn set_playbook_dir(&mut self, directory: Option<&Path>) {
        self.playbook_directory = directory.map(canonical);
        self.forget_layers();
    }

    /// Returns the warnings from reading variable files since the last call.
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.files.take_warnings()
    }

    /// Variables that vars plugins have given so far, without this number of first requests.
    pub fn given_by_plugins(&self, from: usize) -> Vec<PluginVars> {
        self.files.given_by_plugins(from)
    }

    /// Variables that vars plugins give to a group or host, of a directory with an inventory or a playbook. What they
    /// have given once they are not asked for again.
    pub fn ask_plugins(&self, directory: &Path, is_group: bool, name: &str) -> Result<PluginVars, Error> {
        self.files.ask_plugins(directory, is_group, name)
    }

    /// Layers from the groups of a host.
    fn layers_of_groups(&self, host: &Host) -> Result<Arc<[Layer]>, Error> {
        if let Some(layers) = self.group_layers.lock().unwrap_or_else(PoisonError::into_inner).get(&host.groups) {
            return Ok(Arc::clone(layers));
        }
        let groups = self.sorted_groups(host);
        let others: Vec<GroupId> = groups.iter().copied().filter(|group| *group != ALL).collect();
        let mut layers = Vec::new();
        self.push_inventory(&mut layers, &[ALL]);
        self.push_inventory(&mut layers, &others);
        for groups in [[ALL].as_slice(), &others] {
            for place in [Place::Inventory, Place::Playbook] {
                self.push_files(&mut layers, place, groups)?;
            }
        }
        let layers: Arc<[Layer]> = layers.into();
        self.group_layers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(host.groups.clone(), Arc::clone(&layers));
        Ok(layers)
    }

    fn push_inventory(&self, layers: &mut Vec<Layer>, groups: &[GroupId]) {
        for group in groups.iter().filter_map(|group| self.group_at(*group)) {
            push(layers, LayerOrigin::GroupInventory { group: Arc::clone(&group.name) }, &group.variables);
        }
    }

    fn push_files(&self, layers: &mut Vec<Layer>, place: Place, groups: &[GroupId]) -> Result<(), Error> {
        for directory in self.directories(place) {
            for group in groups.iter().filter_map(|group| self.group_at(*group)) {
                for (path, vars) in self.files.find(directory, Kind::Group, &group.name)? {
                    push(layers, LayerOrigin::GroupFile { group: Arc::clone(&group.name), path, place }, &vars);
                }
            }
        }
        Ok(())
    }

    fn directories(&self, place: Place) -> impl Iterator<Item = &Path> {
        let (sources, playbook) = match place {
            Place::Inventory => (self.source_directories.as_slice(), None),
            Place::Playbook => ([].as_slice(), self.playbook_directory.as_deref()),
        };
        sources.iter().map(AsRef::as_ref).chain(playbook)
    }
}

fn push(layers: &mut Vec<Layer>, origin: LayerOrigin, vars: &Arc<Mapping>) {
    if !vars.is_empty() {
        layers.push(Layer { origin, vars: Arc::clone(vars) });
    }
}
