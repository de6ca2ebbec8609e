//! Snapshots of a run's state.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use rpds::HashTrieMapSync;
use windlass_inventory::{Inventory, LayerOrigin};
use windlass_template::{Context, Engine, Origin, Value, Variables};
use windlass_yaml::Mapping;

use super::answers::Answers;
use super::facts::Facts;
use super::ours::Ours;
use super::scope::TaskScope;
use crate::outcome::{CustomStats, InventoryChange, Jobs, LONGEST_HOST, Size};
use crate::output::Secrets;
use crate::playbook::{Play, Role};
use crate::settings::Settings;

/// Values of variables that are data.
pub type Values = IndexMap<Arc<str>, Value, RandomState>;

/// Layers of variables by host.
type GivenVars = HashMap<Arc<str>, Arc<[Given]>, RandomState>;

/// Immutable parts of a run.
#[derive(Debug)]
pub struct Run {
    /// Resolved settings.
    pub settings: Arc<Settings>,
    /// The template engine.
    pub engine: Engine,
    /// Values that no output shows.
    pub secrets: Secrets,
    /// Extra variables (`-e`).
    pub extra_vars: Arc<Mapping>,
    /// Python on the controller, searched on first use.
    pub python: LazyLock<String, FindPython>,
    /// Background jobs that the run has started.
    pub jobs: Jobs,
    /// Answers to `vars_prompt` of the plan that the run carries out.
    pub answers: Answers,
}

/// Finds the Python on the controller.
pub type FindPython = Box<dyn FnOnce() -> String + Send + Sync>;

/// A layer of variables from the inventory, or from a file beside it.
#[derive(Debug, Clone)]
pub struct Given {
    /// Origin of the variables.
    pub origin: LayerOrigin,
    /// The variables.
    pub vars: Arc<Mapping>,
    pub(super) ours: Ours,
}

/// State of one host.
#[derive(Debug, Clone, Default)]
pub struct HostState {
    /// Facts from modules and from `set_fact` with `cacheable`.
    pub facts: Arc<Facts>,
    /// Variables from `set_fact` and `register`, and those about a failed task.
    pub set: Arc<Values>,
    /// Origins of texts set by `set_fact`.
    pub origins: Arc<IndexMap<Arc<str>, Origin>>,
    /// Variables from `include_vars`.
    pub included: Arc<Variables>,
    /// Variables of a host created by `add_host`.
    pub added: Arc<Variables>,
    /// Estimated size of what its tasks registered and set, and of its facts.
    pub kept: Size,
    /// Whether its tasks have changed it or, in check mode, would have.
    pub is_changed: bool,
}

/// State of the running play.
#[derive(Debug, Clone)]
pub struct PlayState {
    /// Play that is running.
    pub play: Arc<Play>,
    /// Its name, rendered.
    pub name: Arc<str>,
    /// Variables from `vars_files` and `vars_prompt`, which outrank the play's own.
    pub files: Vec<Arc<Mapping>>,
    /// `vars_files` of each host, if their names depend on the host.
    pub host_files: HashTrieMapSync<Arc<str>, Vec<Arc<Mapping>>>,
    /// Prompted variables whose answers are unknown, for explanations.
    pub asked: Arc<Variables>,
    /// All hosts of the play.
    pub hosts_all: HostList,
    /// Hosts of the play that have not failed.
    pub hosts: HostList,
    /// Hosts of the running batch that have not failed.
    pub batch: HostList,
    /// Roles included at run time.
    pub included_roles: Vec<Arc<Role>>,
}

impl PlayState {
    /// All roles of the play so far, in the order they were read.
    pub fn roles(&self) -> impl DoubleEndedIterator<Item = &Arc<Role>> {
        self.play.roles.iter().chain(&self.included_roles)
    }
}

/// Names of hosts, with their value for templates, which is built only once.
#[derive(Debug, Clone)]
pub struct HostList {
    names: Arc<[Arc<str>]>,
    value: OnceLock<Value>,
}

impl HostList {
    /// The list as a template value.
    pub fn value(&self) -> Value {
        self.value.get_or_init(|| self.iter().map(|name| Value::from(&**name)).collect()).clone()
    }
}

impl std::ops::Deref for HostList {
    type Target = [Arc<str>];

    fn deref(&self) -> &[Arc<str>] {
        &self.names
    }
}

impl FromIterator<Arc<str>> for HostList {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(names: I) -> HostList {
        HostList { names: names.into_iter().collect(), value: OnceLock::new() }
    }
}

/// An immutable snapshot of all sources of variables. A successor shares everything unchanged.
#[derive(Debug)]
pub struct World {
    /// Immutable parts of the run.
    pub run: Arc<Run>,
    /// Hosts and groups.
    pub inventory: Arc<Inventory>,
    /// Changes by `add_host` and `group_by` in order, each with the host of its task.
    pub dynamic: Arc<Vec<(Arc<str>, InventoryChange)>>,
    /// State of hosts; a missing host has none yet.
    pub hosts: HashTrieMapSync<Arc<str>, Arc<HostState>>,
    /// The running play.
    pub play: Option<Arc<PlayState>>,
    /// Statistics from `set_stats`.
    pub custom_stats: Arc<CustomStats>,
    /// Value of `groups`, built on first use.
    pub(super) groups: Arc<OnceLock<Value>>,
    /// Inventory variables of hosts, highest precedence first, cached on first use.
    given: Arc<Mutex<GivenVars>>,
    contexts: Mutex<HashMap<Arc<str>, Context>>,
}

impl World {
    /// The initial state of a run.
    pub fn new(run: Arc<Run>, inventory: Arc<Inventory>) -> World {
        World {
            run,
            inventory,
            dynamic: Arc::default(),
            hosts: HashTrieMapSync::new_sync(),
            play: None,
            custom_stats: Arc::default(),
            groups: Arc::default(),
            given: Arc::default(),
            contexts: Mutex::default(),
        }
    }

    /// A copy to be changed before it is shared.
    pub fn successor(&self) -> World {
        World {
            run: Arc::clone(&self.run),
            inventory: Arc::clone(&self.inventory),
            dynamic: Arc::clone(&self.dynamic),
            hosts: self.hosts.clone(),
            play: self.play.clone(),
            custom_stats: Arc::clone(&self.custom_stats),
            groups: Arc::clone(&self.groups),
            given: Arc::clone(&self.given),
            contexts: Mutex::default(),
        }
    }

    /// Variables of a host from the inventory and the files beside it, highest precedence first.
    pub(crate) fn given_to(&self, name: &Arc<str>) -> Arc<[Given]> {
        let lock = || self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return Arc::clone(known);
        }
        let layers = self.inventory.host(name).and_then(|host| self.inventory.layers(host).ok()).unwrap_or_default();
        let layers = layers.into_iter().rev().map(|layer| {
            let ours = Ours::of(layer.vars.string_entries().map(|(name, _)| name));
            Given { origin: layer.origin, vars: layer.vars, ours }
        });
        let given: Arc<[Given]> = layers.collect();
        lock().insert(Arc::clone(name), Arc::clone(&given));
        given
    }

    /// State of a host.
    pub fn host(&self, name: &str) -> Arc<HostState> {
        // Each variable that a task reads asks for it, and few hosts have state at the start of a run.
        static NONE: LazyLock<Arc<HostState>> = LazyLock::new(Arc::default);
        self.hosts.get(name).cloned().unwrap_or_else(|| Arc::clone(&NONE))
    }

    /// State of a host, for changes.
    pub fn host_mut(&mut self, name: &Arc<str>) -> &mut HostState {
        if !self.hosts.contains_key(name) {
            self.hosts.insert_mut(Arc::clone(name), Arc::default());
        }
        Arc::make_mut(self.hosts.get_mut(name).expect("it was put there above"))
    }

    /// The inventory, for changes.
    pub fn inventory_mut(&mut self) -> &mut Inventory {
        self.groups = Arc::default();
        self.given = Arc::default();
        Arc::make_mut(&mut self.inventory)
    }

    /// Variables of a host outside any play, as in `hostvars`.
    pub fn host_context(self: &Arc<World>, name: &Arc<str>) -> Context {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(name) {
            return context.clone();
        }
        let context = self.run.engine.scope(Arc::new(TaskScope::of_host(self, name)));
        contexts.insert(Arc::clone(name), context.clone());
        context
    }

    /// Address that the variables of a host name, with a port if that is not 22. Empty if they name none, or one too
    /// long to be an address.
    pub fn address_of(self: &Arc<World>, name: &Arc<str>) -> String {
        let context = self.host_context(name);
        let named = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| context.variable(name).ok().flatten());
            let found = found.map(|value| windlass_template::text(&value).trim().to_lowercase());
            found.filter(|text| !text.is_empty() && text.len() <= LONGEST_HOST)
        };
        let Some(address) = named(["ansible_host", "ansible_ssh_host"]) else { return String::new() };
        match named(["ansible_port", "ansible_ssh_port"]).filter(|port| port != "22") {
            Some(port) => format!("{address} port {port}"),
            None => address,
        }
    }

    /// Directory of the running playbook, or the configured one.
    pub fn playbook_dir(&self) -> PathBuf {
        match &self.play {
            Some(play) if !play.play.dir.as_os_str().is_empty() => play.play.dir.clone(),
            _ => self.run.settings.playbook_dir.clone(),
        }
    }
}

/// Looks up the name of a host that has state in the run.
pub(crate) fn known_host(world: &World, name: &str) -> Option<Arc<str>> {
    world.hosts.get_key_value(name).map(|(name, _)| Arc::clone(name))
}
