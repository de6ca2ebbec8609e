//! Applies `include_tasks` and `include_role` to the hosts of a step, and sets where each host continues.

use std::sync::Arc;

use indexmap::IndexSet;

use super::display::{Part, Shown};
use super::execute::TaskOnHost;
use super::include_request::{self, Asked, Included, Loaded, Wanted};
use super::play::{Batch, IncludedHandler};
use super::store::registered;
use crate::error::{Error, Result};
use crate::outcome::{HostOutcome, TaskResult};
use crate::playbook::{Block, Item, Task};
use crate::vars::PlayState;

/// A file or role that several hosts include together.
struct Entry {
    block: Arc<Block>,
    what: String,
    item: Option<String>,
    hosts: IndexSet<Arc<str>>,
}

impl Batch {
    /// Includes the files or roles that the hosts request.
    pub(super) fn include(&mut self, task: &Arc<Task>, hosts: &[Arc<str>]) -> Result<()> {
        let context = hosts.first().map(|host| TaskOnHost::new(&self.shared, &self.world, task, host).scope());
        let once = self.runs_once(task, context.as_ref())?;
        let hosts = if once { hosts.get(..1).unwrap_or_default() } else { hosts };
        let name = crate::playbook::label::of_task(task, context.as_ref());
        self.announce(task, name.clone());
        let mut loaded = Loaded::default();
        // Hosts that include the same file share its tasks and stay together.
        let mut entries: Vec<Entry> = Vec::new();
        let mut failed: IndexSet<Arc<str>> = IndexSet::new();
        for host in hosts {
            let on_host = TaskOnHost::new(&self.shared, &self.world, task, host);
            let _ = self.shared.events.send(super::task::host_start(task, host, name.clone()));
            let Asked { wanted, result, looped } = on_host.wanted();
            // When items of a loop fail, the others are still included.
            if wanted.is_empty() || result.failed() {
                self.without_include(&on_host, result, looped, once);
            } else {
                on_host.display().show_include(&result, on_host.shown(Part::whole(looped)));
                self.register(&on_host, &result);
            }
            if wanted.is_empty() {
                continue;
            }
            for one in &wanted {
                match self.load(task, one, &mut loaded) {
                    Ok(included) => {
                        self.included(host);
                        let same = |entry: &&mut Entry| {
                            Arc::ptr_eq(&entry.block, &included.block) && !entry.hosts.contains(host)
                        };
                        match entries.iter_mut().find(same) {
                            Some(entry) => {
                                entry.hosts.insert(Arc::clone(host));
                            }
                            None => entries.push(Entry {
                                block: included.block,
                                what: included.what,
                                item: one.label.clone(),
                                hosts: IndexSet::from([Arc::clone(host)]),
                            }),
                        }
                    }
                    // A file that exists but cannot be parsed is a mistake in the project, which `rescue` must not
                    // hide.
                    Err(error) if error.is_parse() => return Err(error),
                    Err(error) => {
                        self.not_loaded(&on_host, one, &error, !failed.contains(host));
                        failed.insert(Arc::clone(host));
                    }
                }
            }
        }
        for entry in &entries {
            include_request::announce(&self.shared, task, &entry.what, &entry.hosts, entry.item.clone());
        }
        let includes =
            |host: &&Arc<str>| !failed.contains(&**host) && entries.iter().any(|entry| entry.hosts.contains(&***host));
        for host in hosts.iter().filter(includes) {
            // Hosts that skip an include get an empty block, so positions match on all hosts.
            let empty = Arc::new(Block::plain(&task.frame, Vec::new()));
            let own =
                |entry: &Entry| if entry.hosts.contains(host) { Arc::clone(&entry.block) } else { Arc::clone(&empty) };
            let body = entries.iter().map(own).map(Item::Block).collect();
            let whole = Arc::new(Block::plain(&task.frame, body));
            if let Some(run) = self.hosts.get_mut(host).filter(|run| !run.out) {
                match task.handler {
                    true => run.enter_handler(IncludedHandler { id: task.id, once }, whole),
                    false => run.cursor.enter(whole),
                }
            }
        }
        if let Some(host) = hosts.first().filter(|_| once && self.step_failed) {
            self.fail_all_but(task, host);
        }
        Ok(())
    }

    /// Counts an include as an ok result.
    fn included(&mut self, host: &Arc<str>) {
        self.stats.entry(Arc::clone(host)).or_default().ok += 1;
        if let Some(run) = self.hosts.get_mut(host) {
            run.cursor.ran();
        }
    }

    fn load(&mut self, task: &Arc<Task>, wanted: &Wanted, loaded: &mut Loaded) -> Result<Included> {
        let (included, is_new) = loaded.get(wanted, task, &self.shared, &self.play.dir)?;
        if is_new && !included.handlers.is_empty() {
            let context = self.play_context();
            Arc::make_mut(&mut self.handlers).add(&included.handlers, &context);
        }
        if is_new && !included.roles.is_empty() {
            let mut world = self.world.successor();
            if let Some(play) = &world.play {
                let mut state = PlayState::clone(play);
                state.included_roles.extend(included.roles.iter().cloned());
                world.play = Some(Arc::new(state));
            }
            self.world = Arc::new(world);
        }
        Ok(included)
    }

    /// Fails a host whose file or role is missing, regardless of `ignore_errors`. Every such failure counts in the
    /// recap, but only the host's first one is registered and followed.
    fn not_loaded(&mut self, on_host: &TaskOnHost, wanted: &Wanted, error: &Error, is_first: bool) {
        let mut result = TaskResult::unchanged().with("failed", true);
        if on_host.task.short_action() != "include_role" {
            result.set("include", wanted.target());
        }
        let result = result.with("reason", error.message()).with_report(error.to_string());
        on_host.display().show(&result, on_host.shown(Part::Task));
        let outcome = outcome(on_host, result, false);
        self.count(&on_host.task, &outcome);
        if is_first {
            self.register(on_host, &outcome.result);
            self.follow(&on_host.task, &outcome);
        }
    }

    /// Handles a host that includes nothing: its condition is false, or it failed.
    fn without_include(&mut self, on_host: &TaskOnHost, result: TaskResult, looped: bool, once: bool) {
        let ignored = is_ignored(on_host, &result);
        on_host.display().show(&result, Shown { ignored, ..on_host.shown(Part::whole(looped)) });
        self.register(on_host, &result);
        self.without(on_host, result, once);
    }

    fn register(&mut self, on_host: &TaskOnHost, result: &TaskResult) {
        let Some(register) = &on_host.task.register else { return };
        let mut world = self.world.successor();
        let set = Arc::make_mut(&mut world.host_mut(&on_host.host).set);
        set.insert(Arc::clone(register), registered(&on_host.task, result));
        self.world = Arc::new(world);
    }

    /// Counts and applies a result that no action produced, on one host for all if `once`.
    pub(super) fn without(&mut self, on_host: &TaskOnHost, result: TaskResult, once: bool) {
        let ignored = is_ignored(on_host, &result);
        let outcome = outcome(on_host, result, ignored);
        self.count(&on_host.task, &outcome);
        self.handler_done(&on_host.task, &outcome, once, false);
        self.follow(&on_host.task, &outcome);
    }
}

/// Whether the task ignores a failure of its include.
fn is_ignored(on_host: &TaskOnHost, result: &TaskResult) -> bool {
    result.failed() && on_host.judge().ignores_errors(&on_host.scope())
}

fn outcome(on_host: &TaskOnHost, result: TaskResult, ignored: bool) -> HostOutcome {
    HostOutcome {
        host: Arc::clone(&on_host.host),
        ignored,
        parts: vec![(result.clone(), None)],
        notify: Vec::new(),
        delegate_facts: false,
        action: on_host.task.short_action().to_owned(),
        stopped: false,
        _counted: None,
        result,
    }
}
