//! Explains variables, connections and conditions without running a task.
//!
//! The scopes, conditions and connections are the run's own. A value that only a run can know is unknown, with the
//! reason.

mod condition;
mod known;
mod tasks;

use std::sync::Arc;

use windlass_template::{Context, Variable, Variables};
use windlass_yaml::{Mapping, Node, Span};

pub(crate) use condition::sorted;
pub use condition::{Condition, Group, Judged, Operand, TaskConditions, Verdict, all};
pub use known::{Until, includes_vars, is_grouping, is_item_of_block, outcome, set_in_run, setters};
pub use tasks::{Include, Listed, Section};

use super::execute::{Shared, TaskOnHost};
use super::run::{PlaybookRun, play_name, vars_files};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::playbook::{Frame, FrameKind, On, Play, Task, is_keyword, label};
use crate::vars::{Choice, ConnectionVariables, TaskScope, World, connection_choices};

/// A play with its hosts and variables, entered without running it.
#[derive(Clone)]
pub struct Entered {
    shared: Arc<Shared>,
    world: Arc<World>,
    /// Variables that are known before the hosts of the play.
    before: Context,
    /// Play that was entered.
    pub play: Arc<Play>,
    /// Name of the play, rendered.
    pub name: String,
    /// Patterns of its hosts.
    pub patterns: Vec<String>,
    /// Hosts of the play.
    pub hosts: Vec<Arc<str>>,
}

/// A keyword of a task, with the nearest owner that sets it.
#[derive(Debug, Clone)]
pub struct InForce {
    /// Name of the keyword.
    pub name: &'static str,
    /// Value of the keyword as written.
    pub node: Node,
    /// `task`, or the kind of the enclosing frame.
    pub owner: &'static str,
}

impl PlaybookRun {
    /// State of the run, with facts of the cache.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Enters a play as a run does, but asks for no variables: prompts have their defaults.
    pub fn entered(&mut self, play: &Arc<Play>) -> Result<Entered> {
        self.stand_beside(play);
        let answers = defaults(play);
        let before = self.before_hosts(play, &answers);
        let name = play_name(play, &before);
        let patterns = self.patterns_of(play)?;
        let hosts = self.matching(play, &patterns)?;
        self.enter(play, &name, (&hosts, &hosts), answers)?;
        let asked = asked(play, &self.shared.run.extra_vars);
        self.change_play(|state| state.asked = asked);
        let world = Arc::clone(&self.world);
        let shared = Arc::clone(&self.shared);
        self.change_world(|world| world.play = None);
        Ok(Entered { shared, world, before, play: Arc::clone(play), name, patterns, hosts })
    }

    /// Adds the groups, hosts and facts that a play added in a recorded run, given by the number of the play.
    pub fn remember(&mut self, journal: &Journal, play: u32) -> Result<()> {
        known::effects(&mut self.world, journal, play)
    }
}

/// Prompted variables without a default, which only the user's answers set.
fn asked(play: &Play, extra_vars: &Mapping) -> Arc<Variables> {
    let entries = play.frame.keywords.list("vars_prompt");
    let open = entries.iter().filter(|entry| entry.get("default").is_none_or(Node::is_null));
    let named = open.filter_map(|entry| entry.get("name")?.as_str().map(|name| (name, &entry.span)));
    let unknown = named.filter(|(name, _)| !extra_vars.contains_key(name)).map(|(name, span)| {
        let reason = format!("`{name}`, which the user answers to vars_prompt at {span}");
        (Arc::from(name), Variable::Data(windlass_template::unknown(reason)))
    });
    Arc::new(unknown.collect())
}

/// Defaults of the play's prompts.
fn defaults(play: &Play) -> Arc<Mapping> {
    let mut answers = Mapping::new();
    for entry in play.frame.keywords.list("vars_prompt") {
        let name = entry.get("name").and_then(Node::as_str);
        if let (Some(name), Some(default)) = (name, entry.get("default").filter(|node| !node.is_null())) {
            answers.insert_str(name, default.clone());
        }
    }
    Arc::new(answers)
}

impl Entered {
    /// Whether the play runs on a host.
    pub fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|name| **name == *host)
    }

    /// Reads the `vars_files` whose names depend on the host.
    pub fn for_host(&mut self, host: &Arc<str>) -> Result<()> {
        if !self.play.has_templated_files() {
            return Ok(());
        }
        let context = self.shared.run.engine.scope(Arc::new(TaskScope::of_vars_files(&self.world, host)));
        let files = vars_files(&self.play, &self.shared, &context)?;
        let mut world = self.world.successor();
        if let Some(play) = &world.play {
            let mut state = crate::vars::PlayState::clone(play);
            state.host_files.insert_mut(Arc::clone(host), files);
            world.play = Some(Arc::new(state));
        }
        self.world = Arc::new(world);
        Ok(())
    }

    /// Variables of a task on a host; without a task, the variables of a task at the end of the play.
    pub fn scope(&self, host: &Arc<str>, task: Option<&Arc<Task>>) -> Arc<TaskScope> {
        let task = task.cloned().unwrap_or_else(|| self.any_task());
        Arc::new(TaskScope::of_task(&self.world, host, &task))
    }

    /// A task without keywords of its own.
    fn any_task(&self) -> Arc<Task> {
        Arc::new(Task::internal("debug", Mapping::new(), &self.play.frame, &[]))
    }

    /// Connection of a task to a host, with the source of each value.
    pub fn connection(
        &self,
        host: &Arc<str>,
        task: Option<&Arc<Task>>,
    ) -> Result<(ConnectionVariables, Vec<Choice>, Context)> {
        let task = task.cloned().unwrap_or_else(|| self.any_task());
        let on_host = TaskOnHost::new(&self.shared, &self.world, &task, host);
        let context = on_host.scope();
        let keyword = |name: &str| on_host.placement().keyword(&context, name).cloned();
        let (found, choices) = connection_choices(host, &context, &keyword, &self.shared.run.settings)?;
        Ok((found, choices, context))
    }

    /// All tasks of the play in order, with the includes whose names are known before the run.
    pub fn tasks(&self, host: &Arc<str>) -> Vec<Listed> {
        tasks::listed(self, host)
    }

    /// Takes over what is known at a point of the play: facts and variables set by `before` are unknown, unless the
    /// journal of a run has them.
    pub fn assume(
        &mut self,
        host: &Arc<str>,
        before: &[Listed],
        until: Until<'_>,
        run: Option<&Journal>,
    ) -> Result<()> {
        known::assume(self, host, before, until, run)
    }

    /// Explains the conditions of a task on a host.
    pub fn conditions(&self, host: &Arc<str>, task: &Arc<Task>) -> TaskConditions {
        condition::of_task(&self.shared, &self.world, host, task)
    }

    /// Makes facts unknown that no cache has.
    pub fn without_facts(&mut self) {
        let mut world = self.world.successor();
        facts_unknown(&mut world);
        self.world = Arc::new(world);
    }

    /// Keywords that a task has or inherits, each with its nearest value.
    pub fn keywords(&self, task: &Task) -> Vec<InForce> {
        let mut found: Vec<InForce> = Vec::new();
        let frames = task.frame.chain().map(|frame| (kind_of(frame), &frame.keywords));
        for (owner, keywords) in std::iter::once(("task", &task.keywords)).chain(frames) {
            for (name, node) in keywords.iter().filter(|(name, _)| is_keyword(name, On::Task)) {
                if !found.iter().any(|known| known.name == name) {
                    found.push(InForce { name, node: node.clone(), owner });
                }
            }
        }
        found
    }

    /// Batches of the play's hosts, as `serial` divides them.
    pub fn batches(&self) -> Result<Vec<Vec<Arc<str>>>> {
        super::batch::batches(self.play.frame.keywords.get("serial"), &self.hosts, &self.before)
    }

    /// Whether the selected tags include a task.
    pub fn selects(&self, task: &Task) -> bool {
        let settings = &self.shared.run.settings;
        crate::plan::TagFilter::new(&settings.tags, &settings.skip_tags).selects_task(task)
    }
}

/// Makes facts of all hosts unknown, unless a cache has them.
pub fn facts_unknown(world: &mut World) {
    let names: Vec<Arc<str>> = world.inventory.hosts().map(|found| Arc::clone(found.name())).collect();
    names.iter().for_each(|name| facts_unknown_on(world, name));
}

fn facts_unknown_on(world: &mut World, host: &Arc<str>) {
    let layers = world.given_to(host);
    let given = layers.iter().flat_map(|layer| layer.vars.string_entries().map(|(name, _)| Arc::from(name)));
    let given = given.filter(|name: &Arc<str>| name.starts_with("ansible_")).collect();
    let state = world.host_mut(host);
    if !state.facts.are_gathered() {
        Arc::make_mut(&mut state.facts).set_unknown(FACTS, given);
    }
}

/// Reason why facts are unknown.
const FACTS: &str = "facts, which a run gathers";

/// Name of a task in journals.
pub(crate) fn recorded(task: &Arc<Task>) -> String {
    label::with_position(task)
}

/// Label of a task with its host's variables.
pub(crate) fn label(task: &Arc<Task>, context: &Context) -> String {
    crate::playbook::label::of_task(task, Some(context))
}

/// Frame that a condition of a task comes from: the task itself, or an enclosing one.
fn owner_of(task: &Task, span: &Span) -> &'static str {
    let has = |list: Vec<Node>| list.iter().any(|node| node.span == *span);
    if has(task.keywords.list("when")) {
        return "task";
    }
    task.frame.chain().find(|frame| has(frame.keywords.list("when"))).map_or("enclosing", kind_of)
}

/// Word for the kind of a frame.
fn kind_of(frame: &Arc<Frame>) -> &'static str {
    match &frame.kind {
        FrameKind::Block => "block",
        FrameKind::Role(_) | FrameKind::Dependent(_) => "role",
        FrameKind::Import => "import",
        FrameKind::Include => "include",
        FrameKind::Play(_) => "play",
    }
}

/// Error for a name that does not exist, with the nearest one.
pub(crate) fn unknown_name<'a>(kind: &str, name: &str, all: impl IntoIterator<Item = &'a str>) -> Error {
    Error::usage(format!("there is no {kind} `{name}`")).maybe_hint(crate::error::did_you_mean(name, all))
}
