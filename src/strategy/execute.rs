//! Runs one task on one host: its loop, and the aggregate result of all items.

use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Semaphore;
use windlass_inventory::Inventory;
use windlass_template::{Context, Value, Variables};
use windlass_yaml::Node;

use super::display::{Display, Part, Shown};
use super::handlers::Handlers;
use super::item_connection::OfItems;
use super::judge::Judge;
use super::loop_run::Items;
use super::one_item::ItemOutcome;
use super::parallel::Beside;
use super::reach::Placement;
use super::shard::Reporter;
use crate::action::Failure;
use crate::error::Result;
use crate::executor::{Pool, TaskFlight};
use crate::foreign::PythonPlugins;
use crate::journal::{Place, Recorder};
use crate::loader::Loader;
use crate::outcome::kept::{self, Counted, Kept};
use crate::outcome::{HostOutcome, Size, TaskResult};
use crate::output::{Events, Secrets};
use crate::playbook::{Files, Task};
use crate::shards::Shards;
use crate::vars::{Run, TaskScope, World};

/// Maximum length of an action's name that a template produces, in bytes.
const LONGEST_ACTION: usize = 1 << 10;

/// State that all tasks of a run share.
pub struct Shared {
    /// Immutable parts of the run.
    pub run: Arc<Run>,
    /// Loads task files and roles.
    pub loader: Arc<Loader>,
    /// The project's files.
    pub files: Arc<Files>,
    /// Plugins in Python.
    pub plugins: Arc<PythonPlugins>,
    /// Connections and executors.
    pub pool: Arc<Pool<Value>>,
    /// Sender of events to the output.
    pub events: Events,
    /// Values to mask in the output.
    pub secrets: Secrets,
    /// Limits how many hosts work in parallel.
    pub forks: Arc<Semaphore>,
    /// Reads the inventory again.
    pub reload: Reload,
    /// Name given by `--start-at-task`, until the run reaches that task; tasks before it are skipped.
    pub start_at: Mutex<Option<String>>,
    /// Accounts for the memory of registered results.
    pub kept: Arc<Kept>,
    /// The journal, set once the run has one.
    pub(crate) journal: OnceLock<Recorder>,
    /// Key for secret items, if another process of the run has the journal.
    pub(crate) item_key: OnceLock<String>,
    /// The part of this process, if the run has several.
    pub(crate) shards: OnceLock<Shards>,
}

/// Reads the inventory again (`meta: refresh_inventory`).
pub type Reload = Box<dyn Fn() -> Result<Inventory> + Send + Sync>;

/// A task being run on one host.
pub(super) struct TaskOnHost {
    pub(super) shared: Arc<Shared>,
    pub(super) world: Arc<World>,
    pub(super) task: Arc<Task>,
    pub(super) host: Arc<str>,
    /// Sender of its events.
    pub(super) events: Events,
    /// Variables edited in the debugger.
    pub(super) vars: Variables,
    /// Place of the task in the journal.
    pub(super) place: Option<Arc<Place>>,
    /// Handlers that the task may notify, if it runs in a batch.
    pub(super) handlers: Option<Arc<Handlers>>,
    /// Reports events to the other processes of the run.
    pub(super) reporter: Option<Arc<Reporter>>,
    /// Identity of the task on the host, in a run of several processes.
    pub(super) flight: Option<Arc<TaskFlight>>,
    /// Number of the task's items that a lost process has reported.
    pub(super) reported: usize,
    /// Limits on items that run in parallel.
    pub(super) beside: Beside,
    /// Connection that the items share, if the task is a loop.
    pub(super) items: Option<OfItems>,
}

/// Aggregate result of a task and all its items.
pub(super) struct Whole {
    pub(super) result: TaskResult,
    pub(super) delegate: Option<String>,
    pub(super) looped: bool,
    pub(super) parts: Vec<(TaskResult, Option<String>)>,
    pub(super) notify: Vec<String>,
    /// Whether the failures of all failed items are ignored; `None` if no item decided it.
    pub(super) forgiven: Option<bool>,
}

impl Whole {
    /// Wraps the result of a task without a loop.
    pub(super) fn of(result: TaskResult) -> Whole {
        Whole { result, delegate: None, looped: false, parts: Vec::new(), notify: Vec::new(), forgiven: None }
    }
}

impl TaskOnHost {
    pub(super) fn new(shared: &Arc<Shared>, world: &Arc<World>, task: &Arc<Task>, host: &Arc<str>) -> TaskOnHost {
        let on_host = TaskOnHost {
            shared: Arc::clone(shared),
            world: Arc::clone(world),
            task: Arc::clone(task),
            host: Arc::clone(host),
            events: shared.events.clone(),
            vars: Variables::default(),
            place: None,
            handlers: None,
            reporter: None,
            flight: None,
            reported: 0,
            beside: Beside::default(),
            items: None,
        };
        on_host.with_action_rendered()
    }

    /// Renders `action: "{{ name }}"`, which may differ between hosts. Text that does not render to a name stays and
    /// fails as an unknown action.
    fn with_action_rendered(mut self) -> TaskOnHost {
        if self.task.action.contains("{{") {
            #[expect(clippy::disallowed_methods, reason = "only names are put into `action`, which hold no template")]
            let written = Node::of_project(self.task.action.as_str(), self.task.span.clone());
            let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            let is_name = |name: &String| name.len() <= LONGEST_ACTION && name.chars().all(is_of_name);
            if let Some(action) = self.scope().render_to_string(&written).ok().filter(is_name) {
                self.task = Arc::new(Task { action, ..Task::clone(&self.task) });
            }
        }
        self
    }

    /// The task's own verdict on its results.
    pub(super) fn judge(&self) -> Judge<'_> {
        Judge { task: &self.task, settings: &self.shared.run.settings }
    }

    /// Where the task runs.
    pub(super) fn placement(&self) -> Placement<'_> {
        Placement { shared: &self.shared, world: &self.world, task: &self.task, host: &self.host }
    }

    /// Reports of its results.
    pub(super) fn display(&self) -> Display<'_> {
        let TaskOnHost { shared, world, task, host, events, .. } = self;
        Display { shared, world, task, host, events }
    }

    /// Variables of the task on this host.
    pub(super) fn scope(&self) -> Context {
        let context = self.shared.run.engine.scope(Arc::new(TaskScope::of_task(&self.world, &self.host, &self.task)));
        if self.vars.is_empty() { context } else { context.with(self.vars.clone()) }
    }

    /// Runs the task with all its items.
    pub(super) async fn run(mut self) -> HostOutcome {
        self.begin();
        let context = self.scope();
        match self.open_loop(&context) {
            Err(failure) => match self.condition(&context) {
                // An undefined loop is not an error if the condition skips the task anyway.
                Ok(Some(skipped)) => self.finished(&context, Whole::of(skipped)),
                _ => self.finished(&context, Whole::of(self.without_loop(failure))),
            },
            Ok(None) => {
                let outcome = self.item(&context, 0, None).await;
                self.alone(&context, outcome)
            }
            Ok(Some(opened)) => {
                self.items = OfItems::new(&opened, &self.task);
                let mut items = Items::new(&self, &context, &opened);
                // Boxed because loops are rare: otherwise every task's future would reserve space for one.
                let result = Box::pin(items.run()).await;
                self.finished(&context, items.whole(result))
            }
        }
    }

    /// Notes for the journal that the task starts in its turn.
    pub(super) fn begin(&self) {
        if let Some(place) = &self.place {
            place.begin();
        }
    }

    /// Result of a task whose loop cannot be evaluated. It has no `changed`, unless a variable is undefined.
    pub(super) fn without_loop(&self, failure: Failure) -> TaskResult {
        let is_undefined = matches!(&failure, Failure::Evaluation(error) if error.is_undefined());
        let failure = match self.unknown_part(failure, "its loop") {
            Ok(skipped) => return skipped,
            Err(failure) => failure,
        };
        let mut result = self.failed(failure);
        if !is_undefined || self.shared.run.settings.compat.lacks_changed_when_undefined() {
            result.remove("changed");
        }
        result
    }

    /// Outcome of a task without a loop.
    pub(super) fn alone(&self, context: &Context, outcome: ItemOutcome) -> HostOutcome {
        let ItemOutcome { mut result, delegate, context: own, .. } = outcome;
        self.restore_time(&mut result);
        let mut notify = Vec::new();
        if result.changed() {
            self.notified(&own, &mut notify);
        }
        let parts = vec![(result.clone(), delegate.clone())];
        self.finished(context, Whole { delegate, parts, notify, ..Whole::of(result) })
    }

    /// Reports the task's result and builds its outcome.
    pub(super) fn finished(&self, context: &Context, whole: Whole) -> HostOutcome {
        let Whole { mut result, delegate, looped, mut parts, mut notify, forgiven } = whole;
        let is_kept = self.has_reader(&result);
        let counted = match self.admit(&mut result, is_kept, Size::default()) {
            Ok(counted) => Some(counted),
            Err(refusal) => {
                result = kept::dropped(&result, refusal);
                parts = vec![(result.clone(), delegate.clone())];
                None
            }
        };
        let judge = self.judge();
        let ignored = forgiven.unwrap_or_else(|| judge.forgives(context, &result));
        let display = self.display();
        let no_log = display.no_log(context).unwrap_or(true);
        // A failed task notifies no handlers, even if the failure is ignored.
        if !result.changed() || result.failed() {
            notify.clear();
        }
        let part = Part::whole(looped);
        display.show(&result, Shown { part, delegate: delegate.as_deref(), ignored, no_log });
        let delegate_facts = judge.holds(context, "delegate_facts");
        let action = self.task.short_action().to_owned();
        let mut outcome = HostOutcome {
            host: Arc::clone(&self.host),
            result,
            ignored,
            parts,
            notify,
            delegate_facts,
            action,
            stopped: false,
            _counted: counted,
        };
        self.record_done(&outcome, looped, no_log);
        self.free(&mut outcome);
        outcome
    }

    /// Whether other tasks read this result: a failed one is kept for `rescue`, and any for a debugger.
    pub(super) fn has_reader(&self, result: &TaskResult) -> bool {
        self.task.register.is_some() || self.task.keyword("debugger").is_some() || result.failed()
    }

    /// Frees large values that nobody reads from memory any more, since the outcomes of all hosts wait in lockstep for
    /// the slowest.
    pub(super) fn free(&self, outcome: &mut HostOutcome) {
        if !self.has_reader(&outcome.result) || outcome.result.is_on_disk() {
            let parts = outcome.parts.iter_mut().map(|(part, _)| part);
            parts.chain([&mut outcome.result]).for_each(kept::shed);
        }
    }

    /// Counts a result. Fails if its size plus `more` exceeds the host's share for registered results and facts.
    pub(super) fn admit(&self, result: &mut TaskResult, is_registered: bool, more: Size) -> Result<Counted, String> {
        let of_host = self.world.host(&self.host).kept + more;
        self.shared.kept.admit(result, is_registered, &self.host, of_host)
    }
}
