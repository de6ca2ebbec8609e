//! A whole run: plays one after the other, batches of hosts in each.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::Context;
use windlass_yaml::{Mapping, Node};

use super::batch::batches;
use super::execute::Shared;
use super::handlers::Handlers;
use super::play::{Batch, HostRun};
use crate::error::{Error, Result};
use crate::output::{Event, Stats};
use crate::plan::{Cursor, TagFilter};
use crate::playbook::{Block, Item, Play, StaticScope, Task};
use crate::vars::{PlayState, TaskScope, World, truth};

/// What a run came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// Per host.
    pub stats: IndexMap<Arc<str>, Stats>,
}

impl Summary {
    /// Ansible's exit code: 4 if a host could not be reached, 2 if one failed.
    pub fn exit_code(&self) -> u8 {
        let any = |test: fn(&Stats) -> bool| self.stats.values().any(test);
        if any(|stats| stats.unreachable > 0) {
            4
        } else if any(|stats| stats.failed > 0) {
            2
        } else {
            0
        }
    }
}

/// A run over several plays.
pub struct PlaybookRun {
    shared: Arc<Shared>,
    world: Arc<World>,
    stats: IndexMap<Arc<str>, Stats>,
    removed: HashSet<Arc<str>>,
    /// Facts have been gathered for these.
    gathered: HashSet<Arc<str>>,
}

impl PlaybookRun {
    /// A run that has not started.
    pub fn new(shared: Arc<Shared>, world: Arc<World>) -> PlaybookRun {
        PlaybookRun { shared, world, stats: IndexMap::new(), removed: HashSet::new(), gathered: HashSet::new() }
    }

    /// Runs plays until one ends the run; true if the next playbook may go on.
    pub async fn run(&mut self, plays: Vec<Play>) -> Result<()> {
        for play in plays {
            if !self.play(Arc::new(play)).await? {
                break;
            }
        }
        Ok(())
    }

    /// What the run came to.
    pub fn finish(self) -> Summary {
        Summary { stats: self.stats }
    }

    /// Whether anything failed so far.
    pub fn failed(&self) -> bool {
        self.stats.values().any(|stats| stats.failed > 0 || stats.unreachable > 0)
    }

    /// The hosts of a play by its pattern and the limit.
    pub fn hosts_of(&self, play: &Play) -> Result<Vec<Arc<str>>> {
        let scope = StaticScope { layers: vec![Arc::clone(&play.frame.vars), Arc::clone(&self.shared.run.extra_vars)] };
        let context = self.shared.run.engine.scope(Arc::new(scope));
        let value = context.render(&play.hosts).map_err(|error| Error::parse(error.to_string(), &play.hosts.span))?;
        let pattern = match value.kind() {
            minijinja::value::ValueKind::Seq => value
                .try_iter()
                .into_iter()
                .flatten()
                .map(|part| windlass_template::text(&part))
                .collect::<Vec<_>>()
                .join(","),
            _ => windlass_template::text(&value),
        };
        if pattern.trim().is_empty() {
            return Err(Error::parse("Hosts list cannot be empty. Please check your playbook", &play.hosts.span));
        }
        let matches = self
            .world
            .inventory
            .matching(&pattern)
            .map_err(|error| Error::parse(error.to_string(), &play.hosts.span))?;
        for warning in matches.warnings {
            match self.shared.run.settings.host_pattern_mismatch.as_str() {
                "ignore" => {}
                "error" => return Err(Error::new(warning.to_string())),
                _ => self.shared.warn(warning.to_string()),
            }
        }
        Ok(matches.hosts)
    }

    /// Runs one play; false ends the run.
    async fn play(&mut self, play: Arc<Play>) -> Result<bool> {
        let all = self.hosts_of(&play)?;
        let _ = self.shared.events.send(Event::PlayStart { name: play_name(&play, &self.shared) });
        if all.is_empty() {
            let _ = self.shared.events.send(Event::NoHostsMatched);
            return Ok(true);
        }
        let hosts: Vec<Arc<str>> = all.iter().filter(|host| !self.removed.contains(*host)).cloned().collect();
        if hosts.is_empty() {
            return Ok(false);
        }
        let mut world = self.world.successor();
        world.play = Some(Arc::new(PlayState {
            files: Vec::new(),
            hosts_all: all.clone().into(),
            hosts: hosts.clone().into(),
            batch: hosts.clone().into(),
            public_roles: Vec::new(),
            play: Arc::clone(&play),
        }));
        self.world = Arc::new(world);
        let files = self.vars_files(&play, &hosts)?;
        self.change_play(|state| state.files = files);
        let context = self.context(&hosts);
        let batches = batches(play.frame.keywords.get("serial"), &hosts, &context)?;
        let count = batches.len();
        for (index, batch) in batches.into_iter().enumerate() {
            if index > 0 {
                let _ = self.shared.events.send(Event::PlayStart { name: play_name(&play, &self.shared) });
            }
            let ended = self.batch(&play, batch.clone()).await?;
            if batch.iter().all(|host| self.removed.contains(host)) {
                // Nothing is left of the batch: what broke it would break the next one too.
                if index + 1 < count || hosts.iter().all(|host| self.removed.contains(host)) {
                    return Ok(false);
                }
            }
            if ended {
                break;
            }
        }
        self.change_world(|world| world.play = None);
        Ok(true)
    }

    async fn batch(&mut self, play: &Arc<Play>, hosts: Vec<Arc<str>>) -> Result<bool> {
        self.change_play(|state| state.batch = hosts.clone().into());
        let context = self.context(&hosts);
        let settings = &self.shared.run.settings;
        let gather = match play.frame.keywords.get("gather_facts") {
            Some(node) => truth(&context.render(node).map_err(|error| Error::parse(error.to_string(), &node.span))?),
            None => settings.gathering != "explicit",
        };
        let smart = settings.gathering == "smart" && hosts.iter().all(|host| self.gathered.contains(host));
        let block = whole_play(play, gather && !smart);
        if gather {
            self.gathered.extend(hosts.iter().cloned());
        }
        let force_handlers = match play.frame.keywords.get("force_handlers") {
            Some(node) => context.render(node).is_ok_and(|value| truth(&value)),
            None => settings.force_handlers,
        };
        let runs = hosts.iter().map(|host| {
            let run = HostRun {
                cursor: Cursor::new(&block),
                notified: HashSet::new(),
                pending: None,
                out: false,
                flushing: false,
            };
            (Arc::clone(host), run)
        });
        for host in &hosts {
            self.stats.entry(Arc::clone(host)).or_default();
        }
        let mut batch = Batch {
            shared: Arc::clone(&self.shared),
            world: Arc::clone(&self.world),
            handlers: Handlers::new(&play.handlers, &play.frame, &context),
            play: Arc::clone(play),
            hosts: runs.collect(),
            stats: std::mem::take(&mut self.stats),
            filter: TagFilter::new(&settings.tags, &settings.skip_tags),
            end_play: false,
            removed: std::mem::take(&mut self.removed),
            force_handlers,
        };
        let ended = batch.run().await;
        self.stats = std::mem::take(&mut batch.stats);
        self.removed = std::mem::take(&mut batch.removed);
        self.world = Arc::clone(&batch.world);
        self.stats.retain(|_, stats| *stats != Stats::default());
        ended?;
        for warning in self.shared.files.take_warnings() {
            self.shared.warn(warning);
        }
        Ok(batch.end_play)
    }

    /// `vars_files`: each a file, or a list of which the first that exists is taken.
    fn vars_files(&self, play: &Arc<Play>, hosts: &[Arc<str>]) -> Result<Vec<Arc<Mapping>>> {
        let context = self.context(hosts);
        let mut files = Vec::new();
        for node in &play.vars_files {
            let candidates: Vec<Node> = node.as_list().map(<[Node]>::to_vec).unwrap_or_else(|| vec![node.clone()]);
            let mut found = None;
            let mut tried = Vec::new();
            for candidate in &candidates {
                let name = context
                    .render_to_string(candidate)
                    .map_err(|error| Error::parse(error.to_string(), &candidate.span))?;
                let path =
                    [play.dir.join("vars").join(&name), play.dir.join(&name)].into_iter().find(|path| path.is_file());
                tried.push(name);
                if path.is_some() {
                    found = path;
                    break;
                }
            }
            match found {
                Some(path) => files.push(self.shared.files.variables(&path)?),
                None if candidates.len() > 1 => {
                    return Err(Error::parse(format!("vars file {} was not found", tried.join(", ")), &node.span));
                }
                // One file that is not there is passed over, as Ansible does; saying so costs nothing.
                None => self.shared.warn(format!(
                    "vars file {} was not found and is passed over ({})",
                    tried.join(", "),
                    node.span
                )),
            }
        }
        Ok(files)
    }

    fn context(&self, hosts: &[Arc<str>]) -> Context {
        let host = hosts.first().cloned().unwrap_or_else(|| Arc::from("localhost"));
        self.shared.run.engine.scope(Arc::new(TaskScope::of_play(&self.world, &host)))
    }

    fn change_world(&mut self, change: impl FnOnce(&mut World)) {
        let mut world = self.world.successor();
        change(&mut world);
        self.world = Arc::new(world);
    }

    fn change_play(&mut self, change: impl FnOnce(&mut PlayState)) {
        self.change_world(|world| {
            if let Some(play) = &world.play {
                let mut state = PlayState::clone(play);
                change(&mut state);
                world.play = Some(Arc::new(state));
            }
        });
    }
}

fn play_name(play: &Play, shared: &Shared) -> String {
    let scope = StaticScope { layers: vec![Arc::clone(&play.frame.vars), Arc::clone(&shared.run.extra_vars)] };
    let context = shared.run.engine.scope(Arc::new(scope));
    match play.frame.keywords.get("name") {
        Some(node) => context.render_tolerant(node),
        None => context.render_tolerant(&Node::string(play.name.as_str(), play.span.clone())),
    }
}

/// Everything a host does in a play, as one block: facts, the sections, handlers after each.
fn whole_play(play: &Play, gather: bool) -> Arc<Block> {
    let frame = &play.frame;
    let mut body = Vec::new();
    if gather {
        let mut args = Mapping::new();
        for name in ["gather_subset", "gather_timeout", "fact_path"] {
            if let Some(node) = frame.keywords.get(name) {
                args.insert_str(name, node.clone());
            }
        }
        let mut task = Task::internal("ansible.builtin.gather_facts", args, frame, &["always"]);
        task.name = Some(Node::literal("Gathering Facts", play.span.clone()));
        body.push(Item::Task(Arc::new(task)));
    }
    for section in [&play.pre_tasks, &play.tasks, &play.post_tasks] {
        body.extend(section.iter().cloned());
        let mut args = Mapping::new();
        args.insert_str("_raw_params", Node::literal("flush_handlers", play.span.clone()));
        body.push(Item::Task(Arc::new(Task::internal("meta", args, frame, &["always"]))));
    }
    Arc::new(Block { frame: Arc::clone(frame), body, rescue: Vec::new(), always: Vec::new(), role: None })
}
