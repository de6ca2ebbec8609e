//! What is known at one moment of a run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use rpds::HashTrieMapSync;
use windlass_inventory::Inventory;
use windlass_template::{Context, Engine, Origin, Value, Variable};
use windlass_yaml::Mapping;

use super::facts::Facts;
use super::scope::TaskScope;
use crate::outcome::InventoryChange;
use crate::playbook::{Play, Role};
use crate::settings::Settings;
use crate::strategy::CustomStats;

/// Variables that may be text or data.
pub type VarMap = IndexMap<Arc<str>, Variable>;

/// Layers of variables by host.
type GivenVars = HashMap<Arc<str>, Arc<[Arc<Mapping>]>, RandomState>;

/// What does not change during a run.
#[derive(Debug)]
pub struct Run {
    /// The resolved settings.
    pub settings: Arc<Settings>,
    /// The template engine.
    pub engine: Engine,
    /// `-e`.
    pub extra_vars: Arc<Mapping>,
    /// The Python of the control machine, which is looked for when it is first asked for.
    pub python: LazyLock<String, FindPython>,
}

/// Finds the Python of the control machine.
pub type FindPython = Box<dyn FnOnce() -> String + Send + Sync>;

/// What is known of one host.
#[derive(Debug, Clone, Default)]
pub struct HostState {
    /// Facts, of modules and of `set_fact` with `cacheable`.
    pub facts: Arc<Facts>,
    /// `set_fact`, `register` and what a failed block leaves.
    pub set: Arc<IndexMap<Arc<str>, Value>>,
    /// Where the texts that `set_fact` has set come from.
    pub origins: Arc<IndexMap<Arc<str>, Origin>>,
    /// `include_vars`.
    pub included: Arc<VarMap>,
    /// Variables of a host that `add_host` made.
    pub added: Arc<VarMap>,
    /// Estimated bytes of memory of its registered results.
    pub kept: usize,
}

/// What is known of the running play.
#[derive(Debug, Clone)]
pub struct PlayState {
    /// The play.
    pub play: Arc<Play>,
    /// Its name, rendered.
    pub name: Arc<str>,
    /// `vars_files`, and answers of `vars_prompt`, above the play's own variables.
    pub files: Vec<Arc<Mapping>>,
    /// `vars_files` of each host, where their names depend on the host.
    pub host_files: HashTrieMapSync<Arc<str>, Vec<Arc<Mapping>>>,
    /// All hosts of the play.
    pub hosts_all: HostList,
    /// The hosts of the play that have not failed.
    pub hosts: HostList,
    /// The hosts of the running batch that have not failed.
    pub batch: HostList,
    /// Roles that were included while running.
    pub included_roles: Vec<Arc<Role>>,
}

impl PlayState {
    /// All roles of the play so far, in the order in which they were read.
    pub fn roles(&self) -> impl DoubleEndedIterator<Item = &Arc<Role>> {
        self.play.roles.iter().chain(&self.included_roles)
    }
}

/// Names of hosts, and the list that templates see of them: it is made once and not for every host that asks for it.
#[derive(Debug, Clone)]
pub struct HostList {
    names: Arc<[Arc<str>]>,
    value: OnceLock<Value>,
}

impl HostList {
    /// The list as templates see it.
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

/// A snapshot of everything variables are made of. A successor shares all that is the same in both.
#[derive(Debug)]
pub struct World {
    /// What does not change.
    pub run: Arc<Run>,
    /// Hosts and groups.
    pub inventory: Arc<Inventory>,
    /// What `add_host` and `group_by` have added to the inventory, in order, with the host each was done for.
    pub dynamic: Arc<Vec<(Arc<str>, InventoryChange)>>,
    /// What is known of hosts; a host that is missing here has nothing yet.
    pub hosts: HashTrieMapSync<Arc<str>, Arc<HostState>>,
    /// The running play.
    pub play: Option<Arc<PlayState>>,
    /// What `set_stats` has collected.
    pub custom_stats: Arc<CustomStats>,
    /// The value of `groups`, once somebody has asked for it.
    pub(super) groups: Arc<OnceLock<Value>>,
    /// What the inventory gives to hosts, highest rank first, of those somebody has asked for.
    given: Arc<Mutex<GivenVars>>,
    contexts: Mutex<HashMap<Arc<str>, Context>>,
}

impl World {
    /// The world before anything has run.
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

    /// The same world, to be changed before it is shared.
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

    /// The variables the inventory and the files beside it give to a host, highest rank first.
    pub(super) fn given_to(&self, name: &Arc<str>) -> Arc<[Arc<Mapping>]> {
        let lock = || self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return Arc::clone(known);
        }
        let layers = self.inventory.host(name).and_then(|host| self.inventory.layers(host).ok()).unwrap_or_default();
        let given: Arc<[Arc<Mapping>]> = layers.iter().rev().map(|layer| Arc::clone(&layer.vars)).collect();
        lock().insert(Arc::clone(name), Arc::clone(&given));
        given
    }

    /// What is known of a host.
    pub fn host(&self, name: &str) -> Arc<HostState> {
        self.hosts.get(name).cloned().unwrap_or_default()
    }

    /// What is known of a host, to be changed.
    pub fn host_mut(&mut self, name: &Arc<str>) -> &mut HostState {
        if !self.hosts.contains_key(name) {
            self.hosts.insert_mut(Arc::clone(name), Arc::default());
        }
        Arc::make_mut(self.hosts.get_mut(name).expect("it has just been put there"))
    }

    /// Hosts and groups, to be changed.
    pub fn inventory_mut(&mut self) -> &mut Inventory {
        self.groups = Arc::default();
        self.given = Arc::default();
        Arc::make_mut(&mut self.inventory)
    }

    /// Evaluates a host's variables outside any play, as `hostvars` shows them.
    pub fn host_context(self: &Arc<World>, name: &Arc<str>) -> Context {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(name) {
            return context.clone();
        }
        let context = self.run.engine.scope(Arc::new(TaskScope::of_host(self, name)));
        contexts.insert(Arc::clone(name), context.clone());
        context
    }

    /// The folder of the playbook that runs, or the current one.
    pub fn playbook_dir(&self) -> PathBuf {
        match &self.play {
            Some(play) if !play.play.dir.as_os_str().is_empty() => play.play.dir.clone(),
            _ => self.run.settings.playbook_dir.clone(),
        }
    }
}

/// The name of a host that is known to the run but not to the inventory.
pub(crate) fn world_knows(world: &World, name: &str) -> Option<Arc<str>> {
    world.hosts.get_key_value(name).map(|(name, _)| Arc::clone(name))
}
