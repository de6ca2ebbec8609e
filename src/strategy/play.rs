//! One batch of hosts through one play, in lockstep: the linear strategy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use windlass_template::{Value, Variable};
use windlass_yaml::{Node, Span};

use super::execute::{HostOutcome, Shared, TaskOnHost};
use super::handlers::Handlers;
use super::include::{self, Loaded, Wanted};
use super::label;
use super::result::TaskResult;
use super::run::vars_files;
use crate::action;
use crate::error::{Error, Result, did_you_mean};
use crate::output::{Event, Stats};
use crate::plan::{Cursor, Selection, Step, TagFilter};
use crate::playbook::{Block, Item, Play, Task};
use crate::vars::{PlayState, TaskScope, World, clean_facts, float, given, number, truth};

/// A host on its way through a batch.
pub(super) struct HostRun {
    pub(super) cursor: Cursor,
    pub(super) notified: HashSet<u64>,
    /// The step the host waits at.
    pub(super) pending: Option<Step>,
    /// It failed for good, or could not be reached.
    pub(super) out: bool,
    /// The play has ended for it, without a failure.
    pub(super) ended: bool,
}

/// Why a host takes no further part in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// A task failed.
    Failed,
    /// It could not be reached.
    Unreachable,
}

/// A batch of a play.
pub(super) struct Batch {
    pub(super) shared: Arc<Shared>,
    pub(super) world: Arc<World>,
    pub(super) play: Arc<Play>,
    pub(super) hosts: IndexMap<Arc<str>, HostRun>,
    pub(super) handlers: Handlers,
    pub(super) stats: IndexMap<Arc<str>, Stats>,
    pub(super) filter: TagFilter,
    /// `meta: end_play` was reached.
    pub(super) end_play: bool,
    /// More hosts than may fail have failed: nothing further is run.
    pub(super) end_run: bool,
    /// Hosts that take no part any more, in this and all later plays.
    pub(super) removed: HashMap<Arc<str>, Gone>,
    /// Something failed in the step that runs, and it was not ignored.
    pub(super) step_failed: bool,
}

/// A file or role that several hosts include together.
struct Entry {
    block: Arc<Block>,
    what: String,
    item: Option<String>,
    hosts: IndexSet<Arc<str>>,
}

impl Batch {
    /// Runs the batch to its end.
    pub(super) async fn run(&mut self) -> Result<()> {
        while let Some((step, hosts)) = self.next_step() {
            self.update_play_hosts();
            self.step_failed = false;
            let action = step.task.short_action().to_owned();
            match action.as_str() {
                "meta" => self.meta(&step.task, &hosts).await?,
                "include_tasks" | "include_role" => self.include(&step.task, &hosts)?,
                _ => self.task(&step.task, &hosts).await?,
            }
            self.check_failures(&step.task);
            if self.end_play || self.end_run {
                break;
            }
        }
        Ok(())
    }

    /// The task that is furthest behind, and the hosts that are there.
    fn next_step(&mut self) -> Option<(Step, Vec<Arc<str>>)> {
        let filter = self.filter.clone();
        for run in self.hosts.values_mut().filter(|run| run.pending.is_none() && !run.out) {
            let HostRun { cursor, notified, .. } = run;
            let mut take = |task: &Arc<Task>| notified.remove(&task.id);
            run.pending = cursor.peek(&mut Selection { tags: &filter, take_notified: &mut take });
            run.out |= run.cursor.failed();
        }
        let first = self
            .hosts
            .values()
            .filter_map(|run| run.pending.as_ref())
            .min_by(|a, b| a.position.cmp(&b.position))?
            .clone();
        let at_it = |run: &HostRun| {
            run.pending.as_ref().is_some_and(|step| step.task.id == first.task.id && step.position == first.position)
        };
        let hosts: Vec<Arc<str>> =
            self.hosts.iter().filter(|(_, run)| at_it(run)).map(|(name, _)| Arc::clone(name)).collect();
        for name in &hosts {
            if let Some(run) = self.hosts.get_mut(name) {
                run.pending = None;
                run.cursor.advance();
            }
        }
        Some((first, hosts))
    }

    /// Runs an ordinary task on its hosts.
    async fn task(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
        let once = action::runs_once(task.short_action()) || self.runs_once(task, context.as_ref())?;
        let on: &[Arc<str>] = if once { hosts.get(..1).unwrap_or_default() } else { hosts };
        self.announce(task, on, context.as_ref());
        let throttle = match (task.keyword("throttle"), &context) {
            (Some(node), Some(context)) => {
                given(context, node).ok().flatten().and_then(|value| number(&value)).filter(|count| *count > 0)
            }
            _ => None,
        };
        let throttle = throttle.map(|count| Arc::new(Semaphore::new(count as usize)));
        let mut running = JoinSet::new();
        let mut ordered = Vec::new();
        for host in on {
            let mut work = TaskOnHost::new(&self.shared, &self.world, task, host);
            if action::is_immediate(task.short_action()) {
                // Nothing is waited for, so results may as well be told in the order of the hosts.
                let (sender, receiver) = mpsc::unbounded_channel();
                work.events = sender;
                ordered.push(receiver);
            }
            // Both are only closed at the end of the program.
            let throttled = match &throttle {
                Some(semaphore) => Arc::clone(semaphore).acquire_owned().await.ok(),
                None => None,
            };
            let fork = Arc::clone(&self.shared.forks).acquire_owned().await.ok();
            running.spawn(async move {
                let outcome = work.run().await;
                drop((throttled, fork));
                outcome
            });
        }
        for mut receiver in ordered {
            while let Some(event) = receiver.recv().await {
                let _ = self.shared.events.send(event);
            }
        }
        let mut outcomes = Vec::new();
        while let Some(joined) = running.join_next().await {
            outcomes.push(joined.map_err(|error| Error::new(format!("a task could not be run to its end: {error}")))?);
        }
        // Results come as hosts finish; they are applied in the order of the hosts, so that a run can be repeated.
        outcomes.sort_by_key(|outcome| on.iter().position(|host| *host == outcome.host));
        let mut world = self.world.successor();
        for outcome in &outcomes {
            self.count(outcome);
            let receivers: Vec<Arc<str>> = if once { hosts.to_vec() } else { vec![Arc::clone(&outcome.host)] };
            for host in &receivers {
                self.store(task, outcome, host, &mut world)?;
            }
        }
        self.world = Arc::new(world);
        self.find_vars_files()?;
        for outcome in &outcomes {
            self.notify(task, outcome)?;
            self.follow(task, outcome);
        }
        if once && self.step_failed {
            // What one host did for all has failed for all.
            self.fail_others();
        }
        Ok(())
    }

    /// Whether `run_once` holds.
    fn runs_once(&self, task: &Arc<Task>, context: Option<&windlass_template::Context>) -> Result<bool> {
        let (Some(node), Some(context)) = (task.keyword("run_once"), context) else { return Ok(false) };
        match given(context, node) {
            Ok(value) => Ok(value.is_some_and(|value| truth(&value))),
            Err(error) => Err(Error::parse(error.report(), &node.span)),
        }
    }

    /// Fails every host that has not failed already.
    fn fail_others(&mut self) {
        let others: Vec<Arc<str>> = self
            .hosts
            .iter()
            .filter(|(_, run)| !run.out && !run.ended && !run.cursor.is_failing())
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &others {
            self.fail_host(name);
        }
    }

    pub(super) fn announce(&self, task: &Arc<Task>, hosts: &[Arc<str>], context: Option<&windlass_template::Context>) {
        let check = self.shared.run.settings.check;
        let _ = self.shared.events.send(Event::TaskStart {
            name: label::of_task(task, context),
            handler: task.handler,
            check,
            path: task.span.is_located().then(|| format!("{}:{}", task.span.source.name, task.span.line)),
            hosts: hosts.len(),
        });
    }

    /// Includes what the hosts ask for.
    fn include(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
        let once = self.runs_once(task, context.as_ref())?;
        let hosts = if once { hosts.get(..1).unwrap_or_default() } else { hosts };
        self.announce(task, hosts, context.as_ref());
        let mut loaded = Loaded::default();
        // Hosts that include the same share the tasks and stay together in them.
        let mut entries: Vec<Entry> = Vec::new();
        for host in hosts {
            let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
            let wanted = match on_host.wanted() {
                Ok(wanted) => wanted,
                Err(result) => {
                    self.without_include(&on_host, result);
                    continue;
                }
            };
            match self.load_all(task, &wanted, &mut loaded) {
                Ok(included) => {
                    self.included(task, host, &wanted);
                    for (block, what, item) in included {
                        let same =
                            |entry: &&mut Entry| Arc::ptr_eq(&entry.block, &block) && !entry.hosts.contains(host);
                        match entries.iter_mut().find(same) {
                            Some(entry) => {
                                entry.hosts.insert(Arc::clone(host));
                            }
                            None => {
                                entries.push(Entry { block, what, item, hosts: IndexSet::from([Arc::clone(host)]) })
                            }
                        }
                    }
                }
                Err(error) => {
                    let name = wanted.first().map(Wanted::target).unwrap_or_default();
                    let result = TaskResult::ok(false).with("failed", true).with("include", name);
                    let result = result.with("reason", error.message()).with_report(error.to_string());
                    self.without_include(&on_host, result);
                }
            }
        }
        for entry in &entries {
            include::announce(&self.shared, &entry.what, &entry.hosts, entry.item.clone());
        }
        for host in hosts.iter().filter(|host| entries.iter().any(|entry| entry.hosts.contains(&**host))) {
            // What the host does not include is empty for it, so that every include has the same place on all hosts.
            let empty = Arc::new(Block::plain(&task.frame, Vec::new()));
            let own =
                |entry: &Entry| if entry.hosts.contains(host) { Arc::clone(&entry.block) } else { Arc::clone(&empty) };
            let body = entries.iter().map(own).map(Item::Block).collect();
            let whole = Arc::new(Block::plain(&task.frame, body));
            if let Some(run) = self.hosts.get_mut(host) {
                match task.handler {
                    true => run.cursor.enter_handler(whole),
                    false => run.cursor.enter(whole),
                }
            }
        }
        Ok(())
    }

    /// Counts what a host includes, and registers it.
    fn included(&mut self, task: &Arc<Task>, host: &Arc<str>, wanted: &[Wanted]) {
        self.stats.entry(Arc::clone(host)).or_default().ok += wanted.len() as u32;
        if let Some(run) = self.hosts.get_mut(host) {
            run.cursor.ran();
        }
        if let Some(register) = &task.register {
            let target = wanted.first().map(Wanted::target).unwrap_or_default();
            let result = TaskResult::ok(false).with("failed", false).with("include", target);
            let mut world = self.world.successor();
            Arc::make_mut(&mut world.host_mut(host).set).insert(Arc::clone(register), result.to_value());
            self.world = Arc::new(world);
        }
    }

    fn load_all(
        &mut self,
        task: &Arc<Task>,
        wanted: &[Wanted],
        loaded: &mut Loaded,
    ) -> Result<Vec<(Arc<Block>, String, Option<String>)>> {
        let mut blocks = Vec::new();
        for one in wanted {
            let (included, is_new) = loaded.get(one, task, &self.shared, &self.play.dir)?;
            if is_new && !included.handlers.is_empty() {
                let context = self.play_context();
                self.handlers.add(&included.handlers, &context);
            }
            if is_new && !included.public_roles.is_empty() {
                let mut world = self.world.successor();
                if let Some(play) = &world.play {
                    let mut state = PlayState::clone(play);
                    state.public_roles.extend(included.public_roles.iter().cloned());
                    world.play = Some(Arc::new(state));
                }
                self.world = Arc::new(world);
            }
            blocks.push((included.block, included.what, one.label.clone()));
        }
        Ok(blocks)
    }

    /// A host that does not include: its condition is false, or it failed.
    fn without_include(&mut self, on_host: &TaskOnHost, result: TaskResult) {
        on_host.show(&result, result.failed() && on_host.ignores_errors());
        self.without(on_host, result);
    }

    /// Counts and follows a result that no action gave.
    pub(super) fn without(&mut self, on_host: &TaskOnHost, result: TaskResult) {
        let outcome = HostOutcome {
            host: Arc::clone(&on_host.host),
            ignored: result.failed() && on_host.ignores_errors(),
            parts: vec![(result.clone(), None)],
            notify: Vec::new(),
            delegate_facts: false,
            action: on_host.task.short_action().to_owned(),
            result,
        };
        self.count(&outcome);
        self.follow(&on_host.task, &outcome);
    }

    /// Counts a result for the recap.
    fn count(&mut self, outcome: &HostOutcome) {
        if let Some(run) = self.hosts.get_mut(&outcome.host).filter(|_| !outcome.result.is_skipped()) {
            run.cursor.ran();
        }
        let would_rescue = self.hosts.get(&outcome.host).is_some_and(|run| run.cursor.would_rescue());
        let stats = self.stats.entry(Arc::clone(&outcome.host)).or_default();
        let result = &outcome.result;
        if result.is_unreachable() {
            if outcome.ignored {
                stats.ok += 1;
                stats.ignored += 1;
            } else {
                stats.unreachable += 1;
            }
        } else if result.failed() {
            match (outcome.ignored, would_rescue) {
                (true, _) => {
                    stats.ok += 1;
                    stats.ignored += 1;
                    stats.changed += u32::from(result.changed());
                }
                (false, true) => stats.rescued += 1,
                (false, false) => stats.failed += 1,
            }
        } else if result.is_skipped() {
            stats.skipped += 1;
        } else {
            stats.ok += 1;
            stats.changed += u32::from(result.changed());
        }
    }

    /// Keeps what a result says: the registered variable, facts, variables, hosts and groups.
    fn store(&self, task: &Arc<Task>, outcome: &HostOutcome, host: &Arc<str>, world: &mut World) -> Result<()> {
        let name = outcome.action.as_str();
        for (result, delegate) in &outcome.parts {
            let to: Arc<str> = match delegate {
                Some(other) if outcome.delegate_facts => Arc::from(other.as_str()),
                _ => Arc::clone(host),
            };
            if let Some(facts) = result.get("ansible_facts").filter(|_| name != "include_vars") {
                if name == "set_fact" {
                    let pairs = pairs_of(facts);
                    if result.is("_ansible_facts_cacheable") {
                        Arc::make_mut(&mut world.host_mut(&to).facts).extend(pairs.iter().cloned());
                    }
                    Arc::make_mut(&mut world.host_mut(&to).set).extend(pairs);
                } else {
                    let (mut kept, dropped) = clean_facts(facts);
                    // What was found out about the host a task was delegated to is always about that host.
                    if let Some(other) = delegate {
                        let other: Arc<str> = Arc::from(other.as_str());
                        let found = kept.extract_if(.., |(name, _)| name.starts_with("discovered_interpreter_"));
                        let found: Vec<_> = found.collect();
                        Arc::make_mut(&mut world.host_mut(&other).facts).extend(found);
                    }
                    if !dropped.is_empty() {
                        self.shared.warn(format!(
                            "{host}: facts that would change how the host is reached were dropped: {}",
                            dropped.join(", ")
                        ));
                    }
                    Arc::make_mut(&mut world.host_mut(&to).facts).extend(kept);
                }
            }
            if let Some(files) = result.get("ansible_included_var_files") {
                self.include_vars(result, files, world.host_mut(&to))?;
            }
            if let Some(entry) = result.get("add_host") {
                add_host(entry, world)?;
            }
            if let Some(group) = result.text("add_group") {
                let inventory = Arc::make_mut(&mut world.inventory);
                inventory.add_group(group);
                inventory.add_host_to_group(host, group);
                for parent in
                    result.get("parent_groups").and_then(|parents| parents.try_iter().ok()).into_iter().flatten()
                {
                    let parent = windlass_template::text(&parent);
                    if parent != "all" {
                        inventory.add_child(&parent, group)?;
                    }
                }
            }
        }
        if let Some(register) = &task.register {
            let value = registered(task, &outcome.result);
            Arc::make_mut(&mut world.host_mut(host).set).insert(Arc::clone(register), value);
        }
        Ok(())
    }

    fn include_vars(&self, result: &TaskResult, files: &Value, state: &mut crate::vars::HostState) -> Result<()> {
        let mut vars: IndexMap<Arc<str>, Variable> = IndexMap::new();
        for file in files.try_iter().into_iter().flatten() {
            let map = self.shared.files.variables(std::path::Path::new(&windlass_template::text(&file)))?;
            match result.text("_include_vars_name") {
                Some(name) => {
                    vars.insert(name.into(), Variable::Text(Node::map(Arc::clone(&map), Span::none())));
                }
                None => vars
                    .extend(map.string_entries().map(|(name, node)| (Arc::from(name), Variable::Text(node.clone())))),
            }
        }
        Arc::make_mut(&mut state.included).extend(vars);
        Ok(())
    }

    /// Notes the handlers that a result notifies.
    fn notify(&mut self, task: &Arc<Task>, outcome: &HostOutcome) -> Result<()> {
        for name in &outcome.notify {
            let found: Vec<u64> = self.handlers.find(name).iter().map(|task| task.id).collect();
            if found.is_empty() {
                let hint = did_you_mean(name, self.handlers.known());
                let message = format!("no handler is called '{name}' or listens to it");
                if self.shared.run.settings.error_on_missing_handler {
                    return Err(Error::parse(message, &task.span).maybe_hint(hint).generic());
                }
                self.shared.warn(message);
            }
            if let Some(run) = self.hosts.get_mut(&outcome.host) {
                run.notified.extend(found);
            }
        }
        Ok(())
    }

    /// What a failure means for the host.
    fn follow(&mut self, task: &Arc<Task>, outcome: &HostOutcome) {
        if outcome.ignored {
            return;
        }
        if outcome.result.is_unreachable() {
            self.step_failed = true;
            if let Some(run) = self.hosts.get_mut(&outcome.host) {
                run.cursor.stop();
                run.out = true;
            }
            self.removed.insert(Arc::clone(&outcome.host), Gone::Unreachable);
        } else if outcome.result.failed() {
            self.step_failed = true;
            self.remember_failure(task, outcome);
            self.fail_host(&outcome.host);
        }
    }

    /// `ansible_failed_task` and `ansible_failed_result` for rescue.
    fn remember_failure(&mut self, task: &Arc<Task>, outcome: &HostOutcome) {
        let args = Value::from_pairs(
            task.args
                .iter()
                .map(|(key, node)| (Value::from(key.to_text()), windlass_template::from_json(&node.to_json()))),
        );
        let name = task.name.as_ref().and_then(Node::scalar_text).unwrap_or_default();
        let described = Value::from_pairs([
            ("name", Value::from(name)),
            ("action", Value::from(task.action.as_str())),
            ("args", args),
        ]);
        let mut world = self.world.successor();
        let set = Arc::make_mut(&mut world.host_mut(&outcome.host).set);
        set.insert(Arc::from("ansible_failed_task"), described);
        set.insert(Arc::from("ansible_failed_result"), outcome.result.to_value());
        self.world = Arc::new(world);
    }

    /// The host goes to its rescue, or out; what must always run is run before.
    pub(super) fn fail_host(&mut self, host: &Arc<str>) {
        let Some(run) = self.hosts.get_mut(host) else { return };
        run.pending = None;
        if !run.cursor.would_rescue() {
            self.removed.insert(Arc::clone(host), Gone::Failed);
        }
        run.cursor.fail();
        run.out = run.cursor.failed();
    }

    /// `any_errors_fatal` and `max_fail_percentage`.
    fn check_failures(&mut self, task: &Arc<Task>) {
        if !self.step_failed {
            return;
        }
        let context = self.play_context();
        let keyword = |node: Option<&Node>| node.and_then(|node| given(&context, node).ok()?);
        let fatal = keyword(task.keyword("any_errors_fatal"))
            .map_or(self.shared.run.settings.any_errors_fatal, |value| truth(&value));
        let limit = keyword(self.play.frame.keywords.get("max_fail_percentage")).and_then(|value| float(&value));
        let failed = self.hosts.keys().filter(|name| self.removed.contains_key(*name)).count();
        let over = limit.is_some_and(|limit| failed as f64 / self.hosts.len().max(1) as f64 * 100.0 > limit);
        if fatal || over {
            self.fail_others();
        }
        if over {
            let _ = self.shared.events.send(Event::NoHostsLeft);
            self.end_run = self.hosts.keys().all(|name| self.removed.contains_key(name));
        }
    }

    /// Finds the `vars_files` of every host, if their names are templates: facts may have made them known.
    pub(super) fn find_vars_files(&mut self) -> Result<()> {
        if !self.play.has_templated_files() {
            return Ok(());
        }
        let mut files = HashMap::new();
        for host in self.hosts.keys() {
            let context = self.shared.run.engine.scope(Arc::new(TaskScope::of_vars_files(&self.world, host)));
            files.insert(Arc::clone(host), vars_files(&self.play, &self.shared, &context)?);
        }
        if let Some(play) = &self.world.play {
            let state = PlayState { host_files: files, ..PlayState::clone(play) };
            let mut world = self.world.successor();
            world.play = Some(Arc::new(state));
            self.world = Arc::new(world);
        }
        Ok(())
    }

    /// The world with the hosts that are still there.
    fn update_play_hosts(&mut self) {
        let Some(play) = &self.world.play else { return };
        let gone =
            |name: &Arc<str>| self.removed.contains_key(name) || self.hosts.get(name).is_some_and(|run| run.ended);
        if !play.hosts.iter().any(gone) && !play.batch.iter().any(gone) {
            return;
        }
        let mut state = PlayState::clone(play);
        state.hosts = state.hosts.iter().filter(|name| !gone(name)).cloned().collect();
        state.batch = state.batch.iter().filter(|name| !gone(name)).cloned().collect();
        let mut world = self.world.successor();
        world.play = Some(Arc::new(state));
        self.world = Arc::new(world);
    }

    /// Evaluates keywords of the play itself.
    pub(super) fn play_context(&self) -> windlass_template::Context {
        let host = self.hosts.keys().next().cloned().unwrap_or_else(|| Arc::from("localhost"));
        self.shared.run.engine.scope(Arc::new(TaskScope::of_play(&self.world, &host)))
    }
}

/// What `register` keeps. Of a task that check mode did not run, everything that is not there is unknown.
fn registered(task: &Arc<Task>, result: &TaskResult) -> Value {
    if !result.is("_windlass_not_run") && !result.is("_windlass_unknown") {
        return result.to_value();
    }
    let reason = format!("the result of '{}', which is not run in check mode", label::of_task(task, None));
    super::unknown::partial(result, &reason)
}

fn pairs_of(map: &Value) -> Vec<(Arc<str>, Value)> {
    let keys = map.try_iter().into_iter().flatten();
    keys.filter_map(|key| Some((Arc::from(key.as_str()?), map.get_item(&key).ok()?))).collect()
}

fn add_host(entry: &Value, world: &mut World) -> Result<()> {
    let field = |name: &str| entry.get_attr(name).unwrap_or_default();
    let name = windlass_template::text(&field("host_name"));
    let groups: Vec<String> =
        field("groups").try_iter().into_iter().flatten().map(|group| windlass_template::text(&group)).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let vars =
        Node::from_json(&windlass_template::to_json(&field("host_vars")), &Span::synthetic("add_host")).into_literal();
    let map = vars.as_map().cloned().unwrap_or_default();
    Arc::make_mut(&mut world.inventory).add_host(&name, &groups, &map);
    Ok(())
}
