//! The variables an inventory and the files beside it give to a host, in Ansible's order of precedence.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use windlass_yaml::Mapping;

use crate::files::Kind;
use crate::load::canonical;
use crate::model::{ALL, GroupId, Inventory};
use crate::{Error, Host, Warning};

/// What a `group_vars` or `host_vars` directory stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A source of the inventory.
    Inventory,
    /// The playbook.
    Playbook,
}

/// Where the variables of a layer come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerOrigin {
    /// A group of an inventory.
    GroupInventory {
        /// The group.
        group: Arc<str>,
    },
    /// A file of `group_vars`.
    GroupFile {
        /// The group.
        group: Arc<str>,
        /// The file.
        path: Arc<Path>,
        /// What it stands beside.
        place: Place,
    },
    /// A host of an inventory, or `add_host`.
    HostInventory,
    /// A file of `host_vars`.
    HostFile {
        /// The file.
        path: Arc<Path>,
        /// What it stands beside.
        place: Place,
    },
}

/// Variables that come from one place.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Where they come from.
    pub origin: LayerOrigin,
    /// The variables.
    pub vars: Arc<Mapping>,
}

impl Layer {
    /// Whether the variables are the host's own, rather than those of a group.
    pub fn is_of_host(&self) -> bool {
        matches!(self.origin, LayerOrigin::HostInventory | LayerOrigin::HostFile { .. })
    }
}

impl Inventory {
    /// The layers of a host, lowest precedence first: the inventory's variables of `all`, of the other groups,
    /// `group_vars/all` beside the inventory and the playbook, `group_vars` of the other groups beside them, then the
    /// host's own variables and its `host_vars`. Layers are shared between hosts that are in the same groups.
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

    /// The layers a single group gives to its hosts: its own variables, then its `group_vars`.
    pub fn layers_of_group(&self, name: &str) -> Result<Vec<Layer>, Error> {
        let Some(group) = self.groups.get_index_of(name) else { return Ok(Vec::new()) };
        let mut layers = Vec::new();
        self.push_inventory(&mut layers, &[group]);
        self.push_files(&mut layers, Place::Inventory, &[group])?;
        self.push_files(&mut layers, Place::Playbook, &[group])?;
        Ok(layers)
    }

    /// Whether the `group_vars` and `host_vars` of a playbook in that directory are those that count.
    pub fn is_playbook_dir(&self, directory: &Path) -> bool {
        self.playbook_directory.as_deref() == Some(canonical(directory).as_path())
    }

    /// Sets the directory of the playbook, whose `group_vars` and `host_vars` count from then on.
    pub fn set_playbook_dir(&mut self, directory: Option<&Path>) {
        self.playbook_directory = directory.map(canonical);
        self.forget_layers();
    }

    /// What was remarked while files of variables were read, since this was last asked.
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.files.take_warnings()
    }

    /// What the groups of a host give to it.
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
