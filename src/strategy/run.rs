//! A whole run: plays in order, each in batches of hosts.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use indexmap::IndexMap;
use rpds::HashTrieMapSync;
use windlass_template::Context;
use windlass_yaml::{Mapping, Node};

use super::batch::batches;
use super::execute::Shared;
use super::handlers::Handlers;
use super::play::{Batch, Gone, HostRun, Strategy};
use super::tally::{LeftBehind, Tally};
use crate::connection::open_files;
use crate::error::{Error, Result, did_you_mean};
use crate::journal::PlayKey;
use crate::outcome::{HostFacts, Size, kept, truth};
use crate::output::{Event, Recap, Stats};
use crate::plan::{Cursor, TagFilter, UNSELECTED};
use crate::playbook::{Block, Item, Play, Role, Task, VarsFile};
use crate::shards::Shards;
use crate::vars::{FactCache, Facts, PlayState, TaskScope, World, given, unless_omitted};

/// Result of a run.
#[derive(Debug, Default)]
pub struct Summary {
    /// Counts per host, and statistics from `set_stats`.
    pub recap: Recap,
    /// Ansible's exit code: 4 if a host was unreachable, 2 if one failed.
    pub exit_code: u8,
}

/// A run over several plays.
pub struct PlaybookRun {
    pub(super) shared: Arc<Shared>,
    pub(super) world: Arc<World>,
    stats: IndexMap<Arc<str>, Stats>,
    /// Counts of a batch that a signal interrupted.
    left: LeftBehind,
    removed: HashMap<Arc<str>, Gone>,
}

impl PlaybookRun {
    /// Prepares a run and loads cached facts.
    pub fn new(shared: Arc<Shared>, world: Arc<World>) -> PlaybookRun {
        let mut run =
            PlaybookRun { shared, world, stats: IndexMap::new(), left: LeftBehind::default(), removed: HashMap::new() };
        run.load_facts();
        run
    }

    /// Loads facts that earlier runs have cached.
    fn load_facts(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(cache) = FactCache::of(&shared.run.settings, &shared.plugins) else { return };
        let mut world = self.world.successor();
        let mut add = |host: &Arc<str>, facts: HostFacts| {
            if !facts.dropped().is_empty() {
                let names = facts.dropped().join(", ");
                shared.warn(format!(
                    "{host}: facts in the cache that would change how the host is reached were dropped: {names}"
                ));
            }
            if !facts.is_empty() {
                let state = world.host_mut(host);
                let known = Arc::make_mut(&mut state.facts);
                if shared.run.settings.plans {
                    known.note_reads();
                }
                known.extend(&facts);
                shared.keep(state, Size::default(), kept::size_of_facts(&facts));
            }
        };
        // A plugin in Python may take long.
        let problems = tokio::task::block_in_place(|| cache.load(&self.world, &mut add));
        problems.into_iter().for_each(|problem| shared.warn(problem));
        self.world = Arc::new(world);
    }

    /// Caches facts that have changed.
    fn keep_facts(&self, before: &World) {
        // All processes of a run know the same facts.
        if matches!(self.shared.shards.get(), Some(Shards::Worker(_))) {
            return;
        }
        let Some(cache) = FactCache::of(&self.shared.run.settings, &self.shared.plugins) else { return };
        let problems = tokio::task::block_in_place(|| cache.update(before, &self.world));
        problems.into_iter().for_each(|problem| self.shared.warn(problem));
    }

    /// Runs plays until one ends the run.
    pub async fn run(&mut self, plays: Vec<Play>) -> Result<()> {
        let settings = &self.shared.run.settings;
        let filter = TagFilter::new(&settings.tags, &settings.skip_tags);
        let tasks = plays.iter().flat_map(Play::all_tasks);
        let selected = tasks.filter(|task| task.handler || filter.selects(&task.tags));
        self.shared.pool.expect(selected.map(|task| task.action.as_str()));
        let named = |task: &Arc<Task>| task.name.as_ref()?.as_str().map(str::to_owned);
        let names: Vec<String> = match &settings.start_at_task {
            Some(_) => plays.iter().flat_map(Play::all_tasks).filter_map(named).collect(),
            None => Vec::new(),
        };
        for play in plays {
            if !self.play(Arc::new(play)).await? {
                break;
            }
        }
        let missing = self.shared.start_at.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(name) = missing {
            let hint = did_you_mean(&name, names.iter().map(String::as_str));
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            self.shared.warn(format!(
                "No matching task \"{name}\" found{hint}. Note: --start-at-task can only follow static includes."
            ));
        }
        Ok(())
    }

    /// Brings failed and unreachable hosts back.
    pub fn forgive(&mut self) {
        self.removed.clear();
    }

    /// Hosts that failed or were unreachable, sorted by name.
    pub fn failed_hosts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.removed.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// Facts of a host so far.
    pub fn facts_of(&self, host: &Arc<str>) -> Arc<Facts> {
        Arc::clone(&self.world.host(host).facts)
    }

    /// Result of the run so far. Hosts brought back by `clear_host_errors` do not count as failed.
    pub fn summary(&self) -> Summary {
        let any = |gone: Gone| self.removed.values().any(|why| *why == gone);
        let exit_code = match (any(Gone::Unreachable), any(Gone::Failed)) {
            (true, _) => 4,
            (false, true) => 2,
            (false, false) => 0,
        };
        let mut hosts = self.stats.clone();
        hosts.extend(self.left.counts().into_iter().filter(|(_, stats)| *stats != Stats::default()));
        let recap = Recap { hosts, custom: Arc::clone(&self.world.custom_stats) };
        Summary { recap, exit_code }
    }

    /// Patterns of a play's `hosts`.
    pub fn patterns_of(&self, play: &Play) -> Result<Vec<String>> {
        self.patterns_with(play, &Arc::default())
    }

    /// Name of a play, rendered without the variables of hosts.
    pub fn name_of(&self, play: &Play) -> String {
        play_name(play, &self.before_hosts(play, &Arc::default()))
    }

    /// Variables visible while resolving a play's `hosts`, with the answers to its prompts.
    pub(super) fn before_hosts(&self, play: &Play, answers: &Arc<Mapping>) -> Context {
        let mut roles = Vec::new();
        play.roles.iter().rev().filter(|role| role.public).for_each(|role| with_dependencies(role, &mut roles));
        let mut vars = vec![&self.shared.run.extra_vars, answers];
        vars.extend(roles.iter().map(|role| &role.vars));
        vars.extend(play.frame.before_hosts().into_iter().flat_map(|known| known.files.iter().rev()));
        vars.push(&play.frame.vars);
        vars.extend(roles.iter().map(|role| &role.defaults));
        self.shared.run.engine.scope(Arc::new(TaskScope::before_hosts(&self.world, &vars)))
    }

    fn patterns_with(&self, play: &Play, answers: &Arc<Mapping>) -> Result<Vec<String>> {
        let context = self.before_hosts(play, answers);
        // A play whose `hosts` is omitted has none.
        let rendered =
            unless_omitted(&context, &play.hosts).map_err(|error| Error::parse(error.report(), &play.hosts.span))?;
        let Some(value) = rendered else { return Ok(Vec::new()) };
        let patterns: Vec<String> = match value.kind() {
            minijinja::value::ValueKind::Seq => {
                value.try_iter().into_iter().flatten().map(|part| windlass_template::text(&part)).collect()
            }
            _ => vec![windlass_template::text(&value)],
        };
        if patterns.iter().all(|pattern| pattern.trim().is_empty()) {
            return Err(Error::parse(
                "`hosts` is empty: a play needs the pattern of the hosts it runs on",
                &play.hosts.span,
            ));
        }
        Ok(patterns)
    }

    /// Hosts of a play by its pattern and the limit.
    pub fn hosts_of(&self, play: &Play) -> Result<Vec<Arc<str>>> {
        self.matching(play, &self.patterns_of(play)?)
    }

    /// Hosts of a play whose patterns are known.
    pub fn matching(&self, play: &Play, patterns: &[String]) -> Result<Vec<Arc<str>>> {
        if patterns.is_empty() {
            return Ok(Vec::new());
        }
        let matches = self
            .world
            .inventory
            .matching_list(patterns)
            .map_err(|error| Error::parse(error.to_string(), &play.hosts.span))?;
        for warning in matches.warnings {
            match self.shared.run.settings.inventory.host_pattern_mismatch.as_str() {
                "ignore" => {}
                "error" => return Err(Error::new(warning.to_string())),
                _ => self.shared.warn(crate::error::inventory_warning(&warning, &self.world.inventory)),
            }
        }
        Ok(matches.hosts)
    }

    /// Switches to the `group_vars` and `host_vars` beside the file that contains the play, even if that file was
    /// imported.
    pub(super) fn stand_beside(&mut self, play: &Play) {
        if play.dir.as_os_str().is_empty() || self.world.inventory.is_playbook_dir(&play.dir) {
            return;
        }
        let mut world = self.world.successor();
        world.inventory_mut().set_playbook_dir(Some(&play.dir));
        self.world = Arc::new(world);
    }

    /// Runs one play. Returns false if the run ends with it.
    async fn play(&mut self, play: Arc<Play>) -> Result<bool> {
        self.stand_beside(&play);
        let answers = super::prompt::answers(&play, &self.context(&[]), &self.shared).await?;
        let patterns: Arc<[String]> = self.patterns_with(&play, &answers)?.into();
        let all = self.matching(&play, &patterns)?;
        let before = self.before_hosts(&play, &answers);
        let mut ordered = in_order(&play, &all, &before)?;
        let name = play_name(&play, &before);
        let number = self.record_play(&play, &name, &mut ordered);
        let (path, check) = (crate::output::place(&play.span), self.shared.run.settings.check);
        let check = play.frame.keywords.get("check_mode").map_or(check, |node| node.as_bool().unwrap_or(check));
        let started = |batch| {
            let (name, path, hosts) = (name.clone(), path.clone(), Arc::clone(&patterns));
            Event::PlayStart { name, path, check, batch, hosts }
        };
        let _ = self.shared.events.send(started(0));
        if all.is_empty() {
            let _ = self.shared.events.send(Event::NoHostsMatched);
            return Ok(true);
        }
        let hosts = self.left_of(&all);
        self.check_variables(&hosts)?;
        if let Some(sentence) = open_files::allow_for(hosts.len()) {
            self.shared.warn(sentence);
        }
        self.enter(&play, &name, (&all, &hosts), answers)?;
        hosts.iter().for_each(|host| TaskScope::mask_passwords(&self.world, host));
        let context = self.context(&hosts);
        // Batches are split from all hosts; those that failed before leave theirs smaller.
        let batches = batches(play.frame.keywords.get("serial"), &ordered, &context)?;
        for (index, batch) in batches.into_iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            if index > 0 {
                let _ = self.shared.events.send(started(index));
            }
            let before = batch.iter().filter(|host| self.removed.contains_key(*host)).count();
            let left = self.left_of(&batch);
            let number = (number, index);
            let end = if left.is_empty() { End::Batch } else { self.batch(&play, number, left).await? };
            let after = batch.iter().filter(|host| self.removed.contains_key(*host)).count();
            // An error that failed a whole batch would fail the next one too.
            if end == End::Run || after - before.min(after) == batch.len() {
                return Ok(false);
            }
            if end == End::Play {
                break;
            }
        }
        self.change_world(|world| world.play = None);
        Ok(true)
    }

    /// Makes a play the running one. `hosts` are all its hosts, and those that have not failed.
    pub(super) fn enter(
        &mut self,
        play: &Arc<Play>,
        name: &str,
        (all, hosts): (&[Arc<str>], &[Arc<str>]),
        answers: Arc<Mapping>,
    ) -> Result<()> {
        let state = PlayState {
            name: name.into(),
            files: vec![answers],
            host_files: HashTrieMapSync::new_sync(),
            asked: Arc::default(),
            hosts_all: all.iter().cloned().collect(),
            hosts: hosts.iter().cloned().collect(),
            batch: hosts.iter().cloned().collect(),
            included_roles: Vec::new(),
            play: Arc::clone(play),
        };
        self.change_world(|world| world.play = Some(Arc::new(state)));
        let files = self.static_vars_files(play)?;
        self.change_play(|state| state.files.extend(files));
        Ok(())
    }

    /// Records the start of a play and returns its number. A resumed run restores a random order of hosts.
    fn record_play(&self, play: &Play, name: &str, ordered: &mut [Arc<str>]) -> u32 {
        let Some(recorder) = self.shared.journal.get() else { return 0 };
        let order = play.frame.keywords.get("order").and_then(Node::as_str).unwrap_or_default();
        let is_random = order == "shuffle" || order.contains("{{");
        if let Some(former) = recorder.next_order().filter(|_| is_random) {
            let place = |host: &Arc<str>| former.iter().position(|name| **name == **host).unwrap_or(former.len());
            ordered.sort_by_cached_key(place);
        }
        let order = if is_random { ordered.iter().map(ToString::to_string).collect() } else { Vec::new() };
        recorder.play(name, order)
    }

    /// Fails if the variables of a host cannot be read, because tasks would then do something else.
    fn check_variables(&self, hosts: &[Arc<str>]) -> Result<()> {
        let inventory = &self.world.inventory;
        for host in hosts.iter().filter_map(|name| inventory.host(name)) {
            inventory.layers(host).map_err(|error| Error::from(error).as_parse())?;
        }
        Ok(())
    }

    /// Hosts that have not failed.
    fn left_of(&self, hosts: &[Arc<str>]) -> Vec<Arc<str>> {
        hosts.iter().filter(|host| !self.removed.contains_key(*host)).cloned().collect()
    }

    async fn batch(&mut self, play: &Arc<Play>, number: (u32, u32), hosts: Vec<Arc<str>>) -> Result<End> {
        self.change_play(|state| state.batch = hosts.iter().cloned().collect());
        let context = self.context(&hosts);
        let settings = &self.shared.run.settings;
        let gather = match play.frame.keywords.get("gather_facts") {
            Some(node) => truth(&context.render(node).map_err(|error| Error::parse(error.report(), &node.span))?),
            None => settings.facts.gathering != "explicit",
        };
        let smart = settings.facts.gathering == "smart";
        let force_handlers = match play.frame.keywords.get("force_handlers") {
            Some(node) => given(&context, node).is_ok_and(|value| value.is_some_and(|value| truth(&value))),
            None => settings.force_handlers,
        };
        let flush_tag = if settings.compat.flushes_despite_tags() { UNSELECTED } else { "always" };
        let (block, without_facts, last_flush) = whole_play(play, gather, force_handlers, flush_tag);
        let strategy = match play.frame.keywords.get("strategy") {
            Some(node) => {
                let name = context.render_to_string(node).map_err(|error| Error::parse(error.report(), &node.span))?;
                Strategy::named(&name, Some(node))?
            }
            None => Strategy::named(&settings.strategy, None)?,
        };
        let runs = hosts.iter().map(|host| {
            let known = smart && self.world.host(host).facts.are_gathered();
            (Arc::clone(host), HostRun::new(Cursor::new(if known { &without_facts } else { &block })))
        });
        for host in &hosts {
            self.stats.entry(Arc::clone(host)).or_default();
        }
        let mut batch = Batch {
            shared: Arc::clone(&self.shared),
            world: Arc::clone(&self.world),
            handlers: Arc::new(Handlers::new(&play.handlers, &play.frame, &context, self.world.run.secrets.clone())),
            key: PlayKey::of(play),
            play: Arc::clone(play),
            number,
            strategy,
            hosts: runs.collect(),
            stats: Tally::new(std::mem::take(&mut self.stats), self.left.clone()),
            filter: TagFilter::new(&settings.tags, &settings.skip_tags),
            end_play: false,
            end_run: false,
            removed: std::mem::take(&mut self.removed),
            play_hosts_stale: true,
            step: settings.step,
            step_failed: false,
            windows: HashMap::new(),
            last_flush,
            begun: HashMap::new(),
        };
        batch.take_carried();
        let ended = match batch.find_vars_files(|_| true).and_then(|()| batch.start_at()) {
            Ok(()) => batch.run().await,
            Err(error) => Err(error),
        };
        self.stats = batch.stats.finish();
        self.removed = std::mem::take(&mut batch.removed);
        let before = std::mem::replace(&mut self.world, Arc::clone(&batch.world));
        self.keep_facts(&before);
        self.stats.retain(|_, stats| *stats != Stats::default());
        ended?;
        for warning in self.shared.files.take_warnings() {
            self.shared.warn(warning);
        }
        Ok(match (batch.end_run, batch.end_play) {
            (true, _) => End::Run,
            (false, true) => End::Play,
            (false, false) => End::Batch,
        })
    }

    /// The `vars_files` of a play if none of their names is a template; otherwise every host has its own.
    fn static_vars_files(&self, play: &Arc<Play>) -> Result<Vec<Arc<Mapping>>> {
        if play.has_templated_files() {
            return Ok(Vec::new());
        }
        vars_files(play, &self.shared, &self.context(&[]))
    }

    fn context(&self, hosts: &[Arc<str>]) -> Context {
        let host = hosts.first().cloned().unwrap_or_else(|| Arc::from("localhost"));
        self.shared.run.engine.scope(Arc::new(TaskScope::of_play(&self.world, &host)))
    }

    pub(super) fn change_world(&mut self, change: impl FnOnce(&mut World)) {
        let mut world = self.world.successor();
        change(&mut world);
        self.world = Arc::new(world);
    }

    pub(super) fn change_play(&mut self, change: impl FnOnce(&mut PlayState)) {
        self.change_world(|world| {
            if let Some(play) = &world.play {
                let mut state = PlayState::clone(play);
                change(&mut state);
                world.play = Some(Arc::new(state));
            }
        });
    }
}

/// Part of the run that ends with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Ends only the batch.
    Batch,
    /// All batches of the play.
    Play,
    /// All plays of the run.
    Run,
}

/// Loads `vars_files`: each entry is a file, or a list of which the first existing file counts. A name that cannot be
/// rendered yet is skipped, because it may depend on facts.
pub(super) fn vars_files(play: &Play, shared: &Shared, context: &Context) -> Result<Vec<Arc<Mapping>>> {
    let mut files = Vec::new();
    for node in &play.vars_files {
        match VarsFile::find(node, &play.dir, context)? {
            VarsFile::Found(path) => {
                let vars = shared.files.variables(&path).map_err(|error| error.or_at(&node.span))?;
                shared.loader.warn_of_reserved(&vars);
                files.push(vars);
            }
            VarsFile::NotKnown => {}
            VarsFile::Missing(tried) if tried.len() > 1 => {
                return Err(Error::parse(format!("vars file {} was not found", tried.join(", ")), &node.span));
            }
            // Ansible silently skips a single missing file; Windlass adds a warning.
            VarsFile::Missing(tried) => {
                shared.warn(format!("vars file {} was not found and is skipped ({})", tried.join(", "), node.span))
            }
        }
    }
    Ok(files)
}

/// Sorts the hosts by the play's `order`.
fn in_order(play: &Play, hosts: &[Arc<str>], context: &Context) -> Result<Vec<Arc<str>>> {
    let mut hosts = hosts.to_vec();
    let Some(node) = play.frame.keywords.get("order") else { return Ok(hosts) };
    let order = context.render_to_string(node).map_err(|error| Error::parse(error.report(), &node.span))?;
    match order.as_str() {
        "" | "inventory" => {}
        "sorted" => hosts.sort(),
        "reverse_sorted" => hosts.sort_by(|a, b| b.cmp(a)),
        "reverse_inventory" => hosts.reverse(),
        "shuffle" => shuffle(&mut hosts),
        other => {
            return Err(Error::usage(format!(
                "Invalid 'order' specified for inventory hosts: {other} ({})",
                node.span
            ))
            .hint("use inventory, reverse_inventory, sorted, reverse_sorted or shuffle"));
        }
    }
    Ok(hosts)
}

fn shuffle(hosts: &mut [Arc<str>]) {
    for index in (1..hosts.len()).rev() {
        let mut bytes = [0; 8];
        // Without a source of randomness the order stays as it is.
        if getrandom::fill(&mut bytes).is_ok() {
            hosts.swap(index, (u64::from_le_bytes(bytes) % (index as u64 + 1)) as usize);
        }
    }
}

pub(super) fn play_name(play: &Play, context: &Context) -> String {
    match play.frame.keywords.get("name") {
        Some(node) => context.render_tolerant(node),
        None if play.hosts.as_list().is_some() && !context.engine().options().compat.renders_names_of_host_lists() => {
            play.name.clone()
        }
        None => {
            let written = play.hosts.as_list().and_then(<[Node]>::first).unwrap_or(&play.hosts);
            context.render_tolerant(&written.reworded(play.name.as_str()))
        }
    }
}

/// Builds the whole play as one block: gathering facts, then each section followed by its handlers.
///
/// Returns that block, the same block without gathering for hosts whose facts are known, and the id of the task that
/// flushes the last handlers.
fn whole_play(play: &Play, gather: bool, force_handlers: bool, flush_tag: &str) -> (Arc<Block>, Arc<Block>, u64) {
    let frame = &play.frame;
    let mut body = Vec::new();
    let mut last_flush = 0;
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
        let mut args = Mapping::new();
        args.insert_str("_raw_params", Node::literal("flush_handlers", play.span.clone()));
        let flush = Task::internal("meta", args, frame, &[flush_tag]);
        last_flush = flush.id;
        let flush = Item::Task(Arc::new(flush));
        if force_handlers {
            // Handlers run on failed hosts too.
            let mut block = Block::plain(frame, section.clone());
            block.always.push(flush);
            body.push(Item::Block(Arc::new(block)));
        } else {
            body.extend(section.iter().cloned());
            body.push(flush);
        }
    }
    let mut without_facts = body.clone();
    if let Some(first) = without_facts.first_mut().filter(|_| gather) {
        *first = Item::Block(Arc::new(Block::plain(frame, Vec::new())));
    }
    (Arc::new(Block::plain(frame, body)), Arc::new(Block::plain(frame, without_facts)), last_flush)
}

/// A role and its dependencies, from the highest precedence of their variables to the lowest.
fn with_dependencies<'a>(role: &'a Arc<Role>, all: &mut Vec<&'a Arc<Role>>) {
    all.push(role);
    role.dependencies.iter().rev().for_each(|dependency| with_dependencies(dependency, all));
}
