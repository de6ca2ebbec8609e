//! Runs one batch of hosts through one play.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexMap;
use windlass_yaml::Node;

use super::execute::Shared;
use super::handlers::Handlers;
use super::run::vars_files;
use super::stream::Window;
use super::tally::Tally;
use crate::error::{Error, Result, did_you_mean};
use crate::journal::{At, Carried, PlayKey};
use crate::plan::{Cursor, Position, Selection, Step, TagFilter};
use crate::playbook::{Block, Play, Task};
use crate::vars::{PlayState, TaskScope, World};

/// A host's progress through a batch.
pub(super) struct HostRun {
    pub(super) cursor: Cursor,
    /// Notifications to look up when handlers are flushed, with the places of the restored outcomes that made them;
    /// `None` if this run made one.
    pub(super) notifications: IndexMap<String, Option<usize>>,
    /// Notifications from earlier runs, delivered at the end of the play.
    pub(super) carried: Vec<Carried>,
    /// Their names.
    pub(super) owed: HashSet<String>,
    /// Address of the host for the journal.
    pub(super) address: Arc<str>,
    /// Ids of the handlers that will run.
    pub(super) notified: HashSet<u64>,
    /// Ids of handlers that only restored outcomes have notified, with the place of the last one.
    pub(super) restored: HashMap<u64, usize>,
    /// Notifications being flushed, with the ids of their handlers that have not run.
    pub(super) flushing: IndexMap<String, HashSet<u64>>,
    /// The handler that is an include and whose tasks run.
    pub(super) included: Option<IncludedHandler>,
    /// Step that the host waits at.
    pub(super) pending: Option<Step>,
    /// Last position that the host has passed.
    pub(super) at: Option<Position>,
    /// The host failed for good or is unreachable.
    pub(super) out: bool,
    /// The play ended for the host without a failure.
    pub(super) ended: bool,
}

/// A handler that is an include.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncludedHandler {
    /// Id of the handler.
    pub(super) id: u64,
    /// Whether it runs on one host for all.
    pub(super) once: bool,
}

impl HostRun {
    /// A host at the start of a play.
    pub(super) fn new(cursor: Cursor) -> HostRun {
        HostRun {
            cursor,
            notifications: IndexMap::new(),
            carried: Vec::new(),
            owed: HashSet::new(),
            address: Arc::default(),
            notified: HashSet::new(),
            restored: HashMap::new(),
            flushing: IndexMap::new(),
            included: None,
            pending: None,
            at: None,
            out: false,
            ended: false,
        }
    }

    /// Next step of the host. It stays the same until [`HostRun::advance`].
    pub(super) fn peek(&mut self, filter: &TagFilter) -> Option<&Step> {
        if self.pending.is_none() && !self.out {
            let HostRun { cursor, notified, .. } = self;
            let mut take = |task: &Arc<Task>| notified.remove(&task.id);
            self.pending = cursor.peek(&mut Selection { tags: filter, take_notified: &mut take });
            self.out |= self.cursor.failed();
        }
        self.pending.as_ref()
    }

    /// Remembers a notification until handlers are flushed. `place` is that of a restored outcome.
    pub(super) fn notify(&mut self, name: String, place: Option<usize>) {
        let known = self.notifications.entry(name).or_insert(place);
        *known = known.zip(place).map(|(one, other)| one.max(other));
    }

    /// Selects a handler to run. Returns whether it was not selected before. `place` is that of a restored outcome.
    pub(super) fn select(&mut self, handler: u64, place: Option<usize>) -> bool {
        let is_new = self.notified.insert(handler);
        match (place, self.restored.get_mut(&handler)) {
            (None, _) => _ = self.restored.remove(&handler),
            (Some(place), _) if is_new => _ = self.restored.insert(handler, place),
            (Some(place), Some(known)) => *known = place.max(*known),
            (Some(_), None) => {}
        }
        is_new
    }

    /// Place of the restored outcome that notified a handler, or the handler whose tasks are included.
    pub(super) fn restored(&self, task: &Task) -> Option<usize> {
        let included = || self.restored.get(&self.included?.id);
        self.restored.get(&task.id).or_else(included).copied()
    }

    /// Continues with the tasks of a handler that is an include.
    pub(super) fn enter_handler(&mut self, handler: IncludedHandler, tasks: Arc<Block>) {
        self.included.get_or_insert(handler);
        self.cursor.enter_handler(tasks);
    }

    /// The handler whose included tasks have run without a failure that ended it, once. The host itself may have failed
    /// before, and its handlers run all the same.
    pub(super) fn take_included(&mut self) -> Option<IncludedHandler> {
        if self.cursor.take_handler_failed() {
            // It stays pending.
            self.included = None;
        }
        let is_over = !self.ended && !self.cursor.is_in_included_handler();
        if is_over { self.included.take() } else { None }
    }

    /// Moves past the step the host waited at.
    pub(super) fn advance(&mut self) {
        self.at = self.pending.take().map(|step| step.position);
        self.cursor.advance();
    }
}

/// Reason why a host was removed from the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// A task failed.
    Failed,
    /// The host was unreachable.
    Unreachable,
}

/// Order in which hosts run their tasks. Everything else is common to all strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All hosts finish a task before any starts the next.
    Linear,
    /// Like `Linear`, and starts the debugger on failures.
    Debug,
    /// Every host proceeds without waiting for the others.
    Free,
    /// Like `Free`, but a host starts only when a fork is free and keeps it to the end of the play.
    HostPinned,
}

impl Strategy {
    /// Looks a strategy up by its name in a play or setting.
    pub(super) fn named(name: &str, node: Option<&Node>) -> Result<Strategy> {
        const NAMES: &[(&str, Strategy)] = &[
            ("linear", Strategy::Linear),
            ("debug", Strategy::Debug),
            ("free", Strategy::Free),
            ("host_pinned", Strategy::HostPinned),
        ];
        let short = crate::playbook::short_name(name);
        if let Some((_, strategy)) = NAMES.iter().find(|(known, _)| *known == short) {
            return Ok(*strategy);
        }
        let message = format!("Invalid play strategy specified: {name}");
        let error = match node {
            Some(node) => Error::parse(message, &node.span).generic(),
            None => Error::new(message),
        };
        Err(error.maybe_hint(did_you_mean(short, NAMES.iter().map(|(known, _)| *known))))
    }

    /// Whether hosts do not wait for each other.
    pub(super) fn is_free(self) -> bool {
        matches!(self, Strategy::Free | Strategy::HostPinned)
    }
}

/// A batch of a play. It is one state; each file has the methods of one subject:
///
/// * Order: `linear`, `free`, `stream` (tasks sent ahead), `step` (`--step`, `--start-at-task`)
/// * One task: `task` (start and end), `shard` (in several processes), `meta`, `include_apply`, `debugger`
/// * Consequences: `store` (variables and counts), `failure`, `recording` (the journal)
pub(super) struct Batch {
    pub(super) shared: Arc<Shared>,
    pub(super) world: Arc<World>,
    pub(super) play: Arc<Play>,
    /// Identity of the play in the journal.
    pub(super) key: PlayKey,
    /// Number of the play in the run and of the batch in the play.
    pub(super) number: (u32, u32),
    pub(super) strategy: Strategy,
    pub(super) hosts: IndexMap<Arc<str>, HostRun>,
    pub(super) handlers: Arc<Handlers>,
    pub(super) stats: Tally,
    pub(super) filter: TagFilter,
    /// A host reached `meta: end_play`.
    pub(super) end_play: bool,
    /// Too many hosts have failed, so the run ends.
    pub(super) end_run: bool,
    /// Hosts excluded from the rest of this play and all later ones.
    pub(super) removed: HashMap<Arc<str>, Gone>,
    /// A host has been removed or has ended since `world` was updated.
    pub(super) play_hosts_stale: bool,
    /// Asks the user before every task (`--step`).
    pub(super) step: bool,
    /// The current step has a failure that is not ignored.
    pub(super) step_failed: bool,
    /// Tasks sent ahead to each host.
    pub(super) windows: HashMap<Arc<str>, Window>,
    /// Id of the task that flushes handlers at the end of the play.
    pub(super) last_flush: u64,
    /// Number of times that a task has begun at a place, in a run of several processes.
    pub(super) begun: HashMap<At, u32>,
}

impl Batch {
    /// Runs the batch to its end.
    pub(super) async fn run(&mut self) -> Result<()> {
        let ended = if self.strategy.is_free() { self.free().await } else { self.lockstep().await };
        self.report_resumed();
        self.settle_handlers();
        self.return_carried();
        ended
    }

    /// Finds the `vars_files` of these hosts if their names are templates: new facts may have made the names known.
    pub(super) fn find_vars_files(&mut self, wanted: impl Fn(&Arc<str>) -> bool) -> Result<()> {
        let Some(play) = self.world.play.clone().filter(|_| self.play.has_templated_files()) else { return Ok(()) };
        let mut files = play.host_files.clone();
        for host in self.hosts.keys().filter(|host| wanted(host)) {
            let context = self.shared.run.engine.scope(Arc::new(TaskScope::of_vars_files(&self.world, host)));
            files.insert_mut(Arc::clone(host), vars_files(&self.play, &self.shared, &context)?);
        }
        let mut world = self.world.successor();
        world.play = Some(Arc::new(PlayState { host_files: files, ..PlayState::clone(&play) }));
        self.world = Arc::new(world);
        Ok(())
    }

    /// Updates `ansible_play_hosts` after hosts were removed or ended.
    pub(super) fn update_play_hosts(&mut self) {
        if !std::mem::take(&mut self.play_hosts_stale) {
            return;
        }
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

    /// Variables for keywords of the play itself.
    pub(super) fn play_context(&self) -> windlass_template::Context {
        let host = self.hosts.keys().next().cloned().unwrap_or_else(|| Arc::from("localhost"));
        self.shared.run.engine.scope(Arc::new(TaskScope::of_play(&self.world, &host)))
    }
}
