//! Variables that one host sees in one task, in Ansible's precedence.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexSet;
use windlass_template::{Origin, Scope, Value, Variable, Variables};
use windlass_yaml::{Mapping, Span};

use super::facts::Facts;
use super::ours::{self, Ours};
use super::world::{Values, World};
use super::{hostvars::HostVars, magic, secrecy};
use crate::output::Secrets;
use crate::paths::absolute;
use crate::playbook::{Frame, FrameKind, Role, Task};

/// Layers of variables from the highest precedence to the lowest.
#[derive(Debug)]
pub struct TaskScope {
    pub(super) world: Arc<World>,
    pub(super) host: Arc<str>,
    pub(super) task: Option<Arc<Task>>,
    layers: Vec<Layer>,
}

/// Level of Ansible's precedence, from the highest to the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `-e`.
    Extra,
    /// `vars` of a dynamic include.
    Include,
    /// Parameters of a role's entry.
    RoleParameters,
    /// `set_fact` and `register`.
    Set,
    /// `include_vars`.
    IncludedVars,
    /// `vars` of the task.
    Task,
    /// `vars` of a block or an import.
    Block,
    /// `vars` of a role's entry.
    RoleEntry,
    /// `vars/` of a role.
    Role,
    /// `vars_prompt` and `vars_files`.
    VarsFile,
    /// `vars` of the play.
    Play,
    /// Facts.
    Facts,
    /// `add_host`.
    AddHost,
    /// A layer of the inventory, by its index in [`World::given_to`].
    Inventory(usize),
    /// `defaults/` of a role.
    RoleDefaults,
    /// Facts of modules that are not built in.
    ModuleFacts,
}

/// Variables of one level.
#[derive(Debug)]
struct Layer {
    level: Level,
    vars: Vars,
    ours: Ours,
}

#[derive(Debug)]
enum Vars {
    Text(Arc<Mapping>),
    Data(Arc<Values>),
    Mixed(Arc<Variables>),
    Facts(Arc<Facts>),
    ModuleFacts(Arc<Facts>),
}

impl Vars {
    fn ours(&self) -> Ours {
        match self {
            Vars::Text(map) => Ours::at_a_glance(map.len(), map.string_entries().map(|(name, _)| name)),
            Vars::Data(map) => Ours::at_a_glance(map.len(), map.keys().map(|name| &**name)),
            Vars::Mixed(map) => Ours::at_a_glance(map.len(), map.keys().map(|name| &**name)),
            Vars::Facts(_) | Vars::ModuleFacts(_) => Ours::Unknown,
        }
    }
}

/// Value of a variable in one layer.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Level of the layer.
    pub level: Level,
    /// Position of the name, if a file has it.
    pub span: Option<Span>,
    /// The value, not yet rendered.
    pub variable: Variable,
}

impl Layer {
    fn new(level: Level, vars: Vars) -> Layer {
        Layer { level, ours: vars.ours(), vars }
    }

    fn get(&self, name: &str) -> Option<Variable> {
        match &self.vars {
            Vars::Text(map) => map.get(name).map(|node| Variable::Text(node.clone())),
            Vars::Data(map) => map.get(name).map(|value| Variable::Data(value.clone())),
            Vars::Mixed(map) => map.get(name).cloned(),
            Vars::Facts(facts) => facts.ranked(name).map(|value| Variable::Data(value.clone())),
            Vars::ModuleFacts(facts) => facts.free(name).map(|value| Variable::Data(value.clone())),
        }
    }

    fn names(&self, names: &mut IndexSet<Arc<str>>) {
        match &self.vars {
            Vars::Text(map) => names.extend(map.string_entries().map(|(name, _)| Arc::from(name))),
            Vars::Data(map) => names.extend(map.keys().cloned()),
            Vars::Mixed(map) => names.extend(map.keys().cloned()),
            Vars::Facts(facts) => names.extend(facts.names().filter(|name| facts.free(name).is_none()).cloned()),
            Vars::ModuleFacts(facts) => names.extend(facts.free_names().cloned()),
        }
    }

    fn span_of(&self, name: &str) -> Option<Span> {
        match &self.vars {
            Vars::Text(map) => map.get_entry(name).map(|(key, _)| key.span.clone()),
            Vars::Mixed(map) => match map.get(name)? {
                Variable::Text(node) => Some(node.span.clone()),
                Variable::Data(_) => None,
            },
            Vars::Data(_) | Vars::Facts(_) | Vars::ModuleFacts(_) => None,
        }
    }
}

impl TaskScope {
    /// Variables of a host outside any play, for `hostvars`.
    pub fn of_host(world: &Arc<World>, host: &Arc<str>) -> TaskScope {
        let mut layers = Layers::new(world);
        layers.host_variables(world, host);
        layers.facts(world, host);
        layers.inventory(world, host);
        layers.module_facts(world, host);
        TaskScope { world: Arc::clone(world), host: Arc::clone(host), task: None, layers: layers.done() }
    }

    /// Variables visible while resolving a play's `hosts`.
    pub fn before_hosts(world: &Arc<World>, vars: &[&Arc<Mapping>]) -> RunScope {
        let mut layers = Layers::new(world);
        for map in vars {
            // Only runs resolve `hosts`, and they need no levels.
            layers.text(Level::Play, map);
        }
        RunScope(TaskScope { world: Arc::clone(world), host: Arc::from(""), task: None, layers: layers.done() })
    }

    /// Variables visible to imports, which are resolved before any host is known, in a playbook or a role.
    pub fn before_import(
        world: &Arc<World>,
        vars: &[&Arc<Mapping>],
        dir: &Path,
        role: Option<&Arc<Role>>,
    ) -> impl Scope + use<> {
        ImportScope { run: Self::before_hosts(world, vars), dir: dir.to_owned(), role: role.cloned() }
    }

    /// Variables of a host in a play, outside any task.
    pub fn of_play(world: &Arc<World>, host: &Arc<str>) -> TaskScope {
        let mut layers = Layers::new(world);
        layers.host_variables(world, host);
        layers.play(world, host);
        layers.facts(world, host);
        layers.inventory(world, host);
        layers.public_roles(Level::RoleDefaults, world, |role| &role.defaults);
        layers.module_facts(world, host);
        TaskScope { world: Arc::clone(world), host: Arc::clone(host), task: None, layers: layers.done() }
    }

    /// Masks the passwords of a host in a play from now on, before any task of another host could show one.
    pub fn mask_passwords(world: &Arc<World>, host: &Arc<str>) {
        drop(TaskScope::of_play(world, host));
    }

    /// Variables for the names of `vars_files`, without those set by tasks.
    pub fn of_vars_files(world: &Arc<World>, host: &Arc<str>) -> TaskScope {
        let mut layers = Layers::new(world);
        layers.text(Level::Extra, &world.run.extra_vars);
        layers.play(world, host);
        layers.facts(world, host);
        layers.inventory(world, host);
        layers.module_facts(world, host);
        TaskScope { world: Arc::clone(world), host: Arc::clone(host), task: None, layers: layers.done() }
    }

    /// Variables of a host in a task.
    pub fn of_task(world: &Arc<World>, host: &Arc<str>, task: &Arc<Task>) -> TaskScope {
        let mut layers = Layers::new(world);
        layers.text(Level::Extra, &world.run.extra_vars);
        // Variables of includes and role parameters, innermost first.
        if crate::playbook::short_name(&task.action).starts_with("include_") {
            layers.text(Level::Include, &task.vars);
        }
        for frame in task.frame.chain() {
            match &frame.kind {
                FrameKind::Include => layers.text(Level::Include, &frame.vars),
                FrameKind::Role(role) => layers.text(Level::RoleParameters, &role.params),
                FrameKind::Dependent(role) => layers.text(Level::RoleParameters, &role.params),
                FrameKind::Play(_) | FrameKind::Block | FrameKind::Import => {}
            }
        }
        let state = world.host(host);
        layers.data(Level::Set, &state.set);
        layers.mixed(Level::IncludedVars, &state.included);
        layers.text(Level::Task, &task.vars);
        for frame in task.frame.chain() {
            if matches!(frame.kind, FrameKind::Block | FrameKind::Import) {
                layers.text(Level::Block, &frame.vars);
            }
        }
        layers.role_variables(&task.frame);
        layers.public_roles(Level::Role, world, |role| &role.vars);
        layers.play(world, host);
        layers.facts(world, host);
        layers.inventory(world, host);
        // Defaults of the current role, of enclosing roles, then of the play's other roles.
        for frame in task.frame.chain() {
            match &frame.kind {
                FrameKind::Role(role) => layers.role(Level::RoleDefaults, role, |role| &role.defaults),
                FrameKind::Dependent(role) => layers.text(Level::RoleDefaults, &role.defaults),
                _ => {}
            }
        }
        layers.public_roles(Level::RoleDefaults, world, |role| &role.defaults);
        layers.module_facts(world, host);
        TaskScope {
            world: Arc::clone(world),
            host: Arc::clone(host),
            task: Some(Arc::clone(task)),
            layers: layers.done(),
        }
    }

    /// `ansible_facts` of the host.
    pub(super) fn facts(&self) -> Value {
        self.world.host(&self.host).facts.namespaced()
    }

    pub(super) fn hostvars(&self) -> Value {
        Value::from_object(HostVars(Arc::clone(&self.world)))
    }
}

/// Layers while they are collected. Each passes through [`Layers::push`], so no scope shows a password that is not
/// masked.
struct Layers<'w> {
    secrets: &'w Secrets,
    layers: Vec<Layer>,
    /// Variables that passwords consist of.
    passwords: Vec<String>,
}

impl<'w> Layers<'w> {
    fn new(world: &'w Arc<World>) -> Layers<'w> {
        Layers { secrets: &world.run.secrets, layers: Vec::new(), passwords: Vec::new() }
    }

    fn push(&mut self, layer: Layer) {
        if layer.ours.may_have_password() {
            self.passwords.extend(secrecy::learn(self.secrets, |name| layer.get(name)));
        }
        self.layers.push(layer);
    }

    /// All layers.
    fn done(self) -> Vec<Layer> {
        // A variable may refer to another one and so on, or to itself.
        const HOPS: usize = 8;
        for password in self.passwords {
            let mut next = Some(password);
            for _ in 0..HOPS {
                let Some(name) = next.take() else { break };
                let found = self.layers.iter().find_map(|layer| layer.get(&name));
                next = found.and_then(|found| secrecy::learn_one(self.secrets, &found));
            }
        }
        self.layers
    }

    fn text(&mut self, level: Level, map: &Arc<Mapping>) {
        if !map.is_empty() {
            self.push(Layer::new(level, Vars::Text(Arc::clone(map))));
        }
    }

    fn data(&mut self, level: Level, map: &Arc<Values>) {
        if !map.is_empty() {
            self.push(Layer::new(level, Vars::Data(Arc::clone(map))));
        }
    }

    fn mixed(&mut self, level: Level, map: &Arc<Variables>) {
        if !map.is_empty() {
            self.push(Layer::new(level, Vars::Mixed(Arc::clone(map))));
        }
    }

    /// Variables set on the host during the run, for a scope without a task.
    fn host_variables(&mut self, world: &Arc<World>, host: &Arc<str>) {
        self.text(Level::Extra, &world.run.extra_vars);
        let state = world.host(host);
        self.data(Level::Set, &state.set);
        self.mixed(Level::IncludedVars, &state.included);
    }

    fn facts(&mut self, world: &Arc<World>, host: &Arc<str>) {
        let state = world.host(host);
        if world.run.settings.facts.inject {
            if !state.facts.is_empty() {
                self.push(Layer::new(Level::Facts, Vars::Facts(Arc::clone(&state.facts))));
            }
        } else if let Some(local) = state.facts.get("ansible_local") {
            state.facts.note("ansible_local");
            // Facts from files on the host are variables even if facts are not injected.
            self.data(Level::Facts, &Arc::new(Values::from_iter([(Arc::from("ansible_local"), local.clone())])));
        }
    }

    fn module_facts(&mut self, world: &Arc<World>, host: &Arc<str>) {
        let facts = &world.host(host).facts;
        if world.run.settings.facts.inject && facts.free_names().next().is_some() {
            self.push(Layer::new(Level::ModuleFacts, Vars::ModuleFacts(Arc::clone(facts))));
        }
    }

    fn inventory(&mut self, world: &Arc<World>, host: &Arc<str>) {
        let state = world.host(host);
        self.mixed(Level::AddHost, &state.added);
        for (index, layer) in world.given_to(host).iter().enumerate() {
            if !layer.vars.is_empty() {
                let (level, vars) = (Level::Inventory(index), Vars::Text(Arc::clone(&layer.vars)));
                self.push(Layer { level, vars, ours: layer.ours.clone() });
            }
        }
    }

    fn play(&mut self, world: &Arc<World>, host: &Arc<str>) {
        if let Some(play) = &world.play {
            self.mixed(Level::VarsFile, &play.asked);
            for file in play.host_files.get(host).unwrap_or(&play.files).iter().rev() {
                self.text(Level::VarsFile, file);
            }
            self.text(Level::Play, &play.play.frame.vars);
        }
    }

    /// Variables of the role: from its entry, `vars/`, exports of dependencies, and enclosing roles.
    fn role_variables(&mut self, frame: &Arc<Frame>) {
        for frame in frame.chain() {
            match &frame.kind {
                FrameKind::Role(role) => {
                    self.text(Level::RoleEntry, &frame.vars);
                    self.role(Level::Role, role, |role| &role.vars);
                }
                FrameKind::Dependent(role) => {
                    self.text(Level::RoleEntry, &frame.vars);
                    self.text(Level::Role, &role.vars);
                }
                FrameKind::Play(_) | FrameKind::Block | FrameKind::Include | FrameKind::Import => {}
            }
        }
    }

    /// Variables of a role, then of its dependencies, the last one first.
    fn role(&mut self, level: Level, role: &Role, own: fn(&Role) -> &Arc<Mapping>) {
        self.text(level, own(role));
        for dependency in role.dependencies.iter().rev() {
            self.role(level, dependency, own);
        }
    }

    /// Variables of the play's public roles, the last one first.
    fn public_roles(&mut self, level: Level, world: &Arc<World>, own: fn(&Role) -> &Arc<Mapping>) {
        if let Some(play) = &world.play {
            for role in play.roles().rev().filter(|role| role.public) {
                self.role(level, role, own);
            }
        }
    }
}

impl TaskScope {
    /// The layers with a variable, highest precedence first, with its value in each.
    fn found<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s Layer, Variable)> {
        let is_ours = ours::is_ours(name);
        let layers = self.layers.iter().filter(move |layer| !is_ours || layer.ours.may_have(name));
        layers.filter_map(move |layer| Some((layer, layer.get(name)?)))
    }

    /// Definitions of a variable that is not magic, highest precedence first.
    pub fn definitions(&self, name: &str) -> Vec<Definition> {
        let definition = |(layer, variable): (&Layer, Variable)| {
            let level = layer.level;
            Definition { level, span: layer.span_of(name), variable }
        };
        self.found(name).map(definition).collect()
    }

    /// Value of a magic variable, which outranks every definition.
    pub fn magic(&self, name: &str) -> Option<Value> {
        magic::get(self, name)
    }

    /// The world whose variables the scope shows.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The host whose variables the scope shows.
    pub fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// Value of a variable that is not magic.
    fn layered(&self, name: &str) -> Option<Variable> {
        self.merged(self.found(name))
    }

    fn merged<'s>(&'s self, found: impl Iterator<Item = (&'s Layer, Variable)>) -> Option<Variable> {
        let mut found = found.map(|(_, variable)| variable);
        let highest = found.next()?;
        Some(if self.world.run.settings.merge_hashes { super::merge::all(highest, found) } else { highest })
    }

    fn names_with(&self, magic: &[&str]) -> Vec<Arc<str>> {
        let mut names: IndexSet<Arc<str>> = magic.iter().map(|name| Arc::from(*name)).collect();
        for layer in self.layers.iter().rev() {
            layer.names(&mut names);
        }
        names.into_iter().collect()
    }
}

impl Scope for TaskScope {
    fn get(&self, name: &str) -> Option<Variable> {
        magic::get(self, name).map(Variable::Data).or_else(|| self.layered(name))
    }

    fn get_own(&self, name: &str) -> Option<Variable> {
        let is_fact = |level| matches!(level, Level::Facts | Level::ModuleFacts);
        let own = || self.merged(self.found(name).filter(|(layer, _)| !is_fact(layer.level)));
        magic::get(self, name).map(Variable::Data).or_else(own)
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.names_with(magic::NAMES)
    }

    fn origin(&self, name: &str) -> Origin {
        let state = self.world.host(&self.host);
        match state.origins.get(name) {
            _ if name == "ansible_facts" => Origin::Outside,
            _ if magic::NAMES.contains(&name) => Origin::Made,
            Some(origin) if state.set.contains_key(name) => *origin,
            _ if state.set.contains_key(name) || state.facts.get(name).is_some() => Origin::Outside,
            _ => Origin::Made,
        }
    }

    fn rendered(&self, name: &str, value: &Value) {
        if secrecy::is_password(name) {
            secrecy::learn_value(&self.world.run.secrets, value);
        }
    }

    fn search_paths(&self) -> Vec<PathBuf> {
        magic::search_paths(self)
    }
}

/// Variables without a host.
#[derive(Debug)]
pub struct RunScope(TaskScope);

impl Scope for RunScope {
    fn get(&self, name: &str) -> Option<Variable> {
        if magic::OF_RUN.contains(&name) { self.0.get(name) } else { self.0.layered(name) }
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.0.names_with(magic::OF_RUN)
    }
}

/// Variables without a host, at a position in a playbook or role being read.
#[derive(Debug)]
struct ImportScope {
    run: RunScope,
    dir: PathBuf,
    role: Option<Arc<Role>>,
}

impl Scope for ImportScope {
    fn get(&self, name: &str) -> Option<Variable> {
        let role = self.role.as_ref();
        let path = |path: &Path| Value::from(absolute(path).display().to_string());
        let of_place = match name {
            "playbook_dir" => Some(path(&self.dir)),
            "role_path" => role.map(|role| path(&role.path)),
            "role_name" => role.map(|role| Value::from(role.short_name())),
            "ansible_role_name" => role.map(|role| Value::from(role.name.as_str())),
            _ => None,
        };
        of_place.map(Variable::Data).or_else(|| self.run.get(name))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.run.names()
    }
}
