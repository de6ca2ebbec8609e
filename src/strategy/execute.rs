//! Runs one task on one host: its loop, and the aggregate result of all items.

use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Semaphore;
use windlass_inventory::Inventory;
use windlass_template::{Context, Value, Variables};
use windlass_yaml::{Key, Node};

use super::item::{ItemOutcome, censored};
use super::items::Items;
use super::looping::Loop;
use super::parallel::Beside;
use super::shard::Reporter;
use crate::action::Failure;
use crate::error::Result;
use crate::executor::Pool;
use crate::foreign::{PythonPlugins, Resolution};
use crate::journal::{Place, Recorder};
use crate::loader::Loader;
use crate::outcome::kept::{self, Counted, Kept};
use crate::outcome::{HostOutcome, Size, TaskResult, truth};
use crate::output::{Event, Events, ResultEvent, Secrets, Status};
use crate::playbook::{Files, Task, label};
use crate::shards::Shards;
use crate::vars::{Run, TaskScope, World, given, is_boolean};

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
    /// The part of this process, if the run has several.
    pub(crate) shards: OnceLock<Shards>,
}

/// Part of a task that a result belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The task, which has no loop.
    Task,
    /// A whole loop.
    Loop,
    /// An item of a loop, with its label.
    Item(String),
}

impl Part {
    /// The part that a task's own result belongs to.
    pub(super) fn whole(looped: bool) -> Part {
        if looped { Part::Loop } else { Part::Task }
    }
}

/// Label of an item when the task hides its output.
pub(super) const CENSORED: &str = "(censored due to no_log)";

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
    /// Its place in the journal.
    pub(super) place: Option<Arc<Place>>,
    /// Passes what happens to the other processes of the run.
    pub(super) reporter: Option<Arc<Reporter>>,
    /// Limits on items that run beside each other.
    pub(super) beside: Beside,
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
            reporter: None,
            beside: Beside::default(),
        };
        on_host.with_action_rendered()
    }

    /// Renders `action: "{{ name }}"`, which may differ between hosts. Text that does not render to a name stays and
    /// fails as an unknown action.
    fn with_action_rendered(mut self) -> TaskOnHost {
        if self.task.action.contains("{{") {
            #[expect(clippy::disallowed_methods, reason = "only names are put into `action`, which hold no template")]
            let written = Node::of_project(self.task.action.as_str(), self.task.span.clone());
            let is_name = |name: &String| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
            if let Some(action) = self.scope().render_to_string(&written).ok().filter(is_name) {
                self.task = Arc::new(Task { action, ..Task::clone(&self.task) });
            }
        }
        self
    }

    /// Variables of the task on this host.
    pub(super) fn scope(&self) -> Context {
        let context = self.shared.run.engine.scope(Arc::new(TaskScope::of_task(&self.world, &self.host, &self.task)));
        if self.vars.is_empty() { context } else { context.with(self.vars.clone()) }
    }

    /// Runs the task with all its items.
    pub(super) async fn run(self) -> HostOutcome {
        self.begin();
        let context = self.scope();
        match self.open_loop(&context) {
            Err(failure) => match self.condition(&context) {
                // An undefined loop is not an error if the condition skips the task anyway.
                Ok(Some(skipped)) => self.finished(&context, Whole::of(skipped)),
                _ => self.finished(&context, Whole::of(self.without_loop(failure))),
            },
            Ok(None) => {
                let outcome = self.item(&context, None).await;
                self.alone(&context, outcome)
            }
            Ok(Some(opened)) => {
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
        let mut result = failure.into_result(self.shared.run.settings.compat);
        if !is_undefined || self.shared.run.settings.compat.lacks_changed_when_undefined() {
            result.remove("changed");
        }
        result
    }

    /// Outcome of a task without a loop.
    pub(super) fn alone(&self, context: &Context, outcome: ItemOutcome) -> HostOutcome {
        let ItemOutcome { result, delegate, context: own, .. } = outcome;
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
        let ignored = forgiven.unwrap_or_else(|| self.forgives(context, &result));
        let no_log = self.no_log(context).unwrap_or(true);
        // A failed task notifies no handlers, even if the failure is ignored.
        if !result.changed() || result.failed() {
            notify.clear();
        }
        self.send_result(&result, delegate.as_deref(), Part::whole(looped), ignored, no_log);
        let delegate_facts = self.holds(context, "delegate_facts");
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

    /// Whether `break_when` ends the loop after this result.
    pub(super) fn breaks_off(&self, opened: &Loop, context: &Context, result: &TaskResult) -> bool {
        if opened.break_when.is_empty() {
            return false;
        }
        let seen = self.with_registered(context, result);
        opened.break_when.iter().all(|condition| match seen.condition(condition) {
            Ok(holds) => holds,
            Err(error) => {
                self.warn(format!("break_when of the task at {} cannot be evaluated: {error}", self.task.span));
                false
            }
        })
    }

    /// Label of an item in the output. Fails if `loop_control.label` cannot be rendered.
    pub(super) fn item_label(&self, context: &Context, item: &Value, no_log: bool) -> Result<String, Failure> {
        if no_log {
            let is_none = self.shared.run.settings.compat.labels_censored_items_none();
            return Ok(if is_none { "None" } else { CENSORED }.to_owned());
        }
        match self.task.keywords.get("loop_control").and_then(|control| control.get("label")) {
            Some(node) if node.as_str() != Some("") => {
                Ok(windlass_template::text(&crate::vars::render(context, node)?))
            }
            _ => Ok(windlass_template::text(item)),
        }
    }

    /// The names in `notify`, as written.
    pub(super) fn names_to_notify(&self) -> Vec<Node> {
        let around = self.task.frame.chain().map(|frame| &frame.keywords);
        // The nearest `notify` counts: the task's own, or that of the closest enclosing block.
        let nearest =
            std::iter::once(&self.task.keywords).chain(around).find(|keywords| keywords.get("notify").is_some());
        nearest.map(|keywords| keywords.list("notify")).unwrap_or_default()
    }

    /// Fails if a name in `notify` is undefined, so that the task does not start and then cannot notify.
    pub(super) fn check_notify(&self, context: &Context) -> Result<(), Failure> {
        for node in self.names_to_notify() {
            if let Some(error) = given(context, &node).err().filter(windlass_template::Error::is_undefined) {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Renders the names in `notify` and adds them to `names`.
    pub(super) fn notified(&self, context: &Context, names: &mut Vec<String>) {
        for node in self.names_to_notify() {
            match given(context, &node) {
                Ok(None) => {}
                Ok(Some(value)) if value.kind() == minijinja::value::ValueKind::Seq => {
                    names.extend(value.try_iter().into_iter().flatten().map(|name| windlass_template::text(&name)));
                }
                Ok(Some(value)) => names.push(windlass_template::text(&value)),
                Err(error) => {
                    self.warn(format!("notify of the task at {} cannot be evaluated: {error}", self.task.span));
                }
            }
        }
    }

    /// Whether `ignore_errors` holds.
    pub(super) fn ignores_errors(&self) -> bool {
        self.ignores(&self.scope())
    }

    /// A value that is not a boolean counts as true: Ansible tests it as written.
    fn ignores(&self, context: &Context) -> bool {
        let Some(node) = self.task.keyword("ignore_errors") else { return false };
        match given(context, node) {
            Ok(Some(value)) => truth(&value) || value.as_str().is_some_and(|text| !is_boolean(text)),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether the task ignores this failure or unreachable host.
    pub(super) fn forgives(&self, context: &Context, result: &TaskResult) -> bool {
        (result.failed() && self.ignores(context))
            || (result.is_unreachable() && self.holds(context, "ignore_unreachable"))
    }

    fn holds(&self, context: &Context, keyword: &str) -> bool {
        self.task.keyword(keyword).and_then(|node| given(context, node).ok()?).is_some_and(|value| truth(&value))
    }

    /// Reports an item of an include that was skipped or failed.
    pub(super) fn show_item(&self, result: &TaskResult, label: String) {
        self.show_part(result, Part::Item(label), false);
    }

    /// Reports a result of an include or `meta` that was skipped or failed.
    pub(super) fn show(&self, result: &TaskResult) {
        self.show_part(result, Part::Task, false);
    }

    /// Like [`TaskOnHost::show`], for a part of the task. `ignored` marks a failure as ignored by the task.
    pub(super) fn show_part(&self, result: &TaskResult, part: Part, ignored: bool) {
        let no_log = self.no_log(&self.scope()).unwrap_or(true);
        self.send_result(result, None, part, ignored, no_log);
    }

    pub(super) fn send_result(
        &self,
        result: &TaskResult,
        delegate: Option<&str>,
        part: Part,
        ignored: bool,
        no_log: bool,
    ) {
        let status = match result {
            result if result.is_unreachable() => Status::Unreachable { ignored },
            result if result.failed() => Status::Failed { ignored },
            result if result.is_skipped() => Status::Skipped,
            _ => Status::Ok,
        };
        // Ansible prints `...ignoring` once for the whole task, not for each item.
        let status = match status {
            Status::Failed { .. } if matches!(part, Part::Item(_)) => Status::Failed { ignored: false },
            other => other,
        };
        let is_empty = result.get("results").is_some_and(|results| results.len() == Some(0));
        let part = if part == Part::Loop && is_empty { Part::Task } else { part };
        let _ = self.events.send(Event::Result(self.event(result, status, delegate, part, no_log)));
    }

    pub(super) fn event(
        &self,
        result: &TaskResult,
        status: Status,
        delegate: Option<&str>,
        part: Part,
        no_log: bool,
    ) -> ResultEvent {
        let (item, looped) = match part {
            Part::Task => (None, false),
            Part::Loop => (None, true),
            Part::Item(label) => (Some(label), false),
        };
        let settings = &self.shared.run.settings;
        let no_log = no_log || result.is_secret();
        let diff = match self.task.keyword("diff") {
            None => settings.diff,
            Some(node) => node.as_bool().unwrap_or(settings.diff),
        };
        // A skipped task was not delegated either.
        let delegate = delegate.filter(|_| status != Status::Skipped);
        let address = delegate.and_then(|name| {
            let theirs = self.world.host_context(&Arc::from(name)).variable("ansible_host").ok().flatten()?;
            Some(windlass_template::text(&theirs))
        });
        ResultEvent {
            task: Arc::clone(&self.task),
            name: Arc::clone(&self.host),
            host: label::of_host(&self.host, delegate, address.as_deref()),
            status,
            result: Arc::new(if no_log { censored(result) } else { result.clone() }),
            item,
            looped,
            diff: diff && !no_log,
            no_log,
            report: self.report(result, status, looped, no_log),
        }
    }

    /// Error message with its location: the position in the template if known, else the task.
    fn report(&self, result: &TaskResult, status: Status, looped: bool, no_log: bool) -> Option<String> {
        if self.shared.run.settings.compat.hides_positions() && !result.is_bare() {
            return None;
        }
        let told = looped && result.get("results").is_some_and(|results| results.len() != Some(0));
        if told || !matches!(status, Status::Failed { .. } | Status::Unreachable { .. }) {
            return None;
        }
        Some(self.located(result, no_log))
    }

    /// Error report of a failed task for the journal. That of a loop has its place only, as the messages belong to its
    /// items.
    pub(super) fn failure_report(&self, result: &TaskResult, no_log: bool) -> Option<String> {
        let failed = result.failed() || result.is_unreachable();
        failed.then(|| self.located(result, no_log || result.is_secret()))
    }

    /// Advice about the first option that the built-in action does not have.
    fn misspelt_option(&self) -> Option<String> {
        let resolution = self.shared.loader.modules.resolve(&self.task.action, &self.task.collections());
        let spec = crate::builtin::spec(&self.task.action).filter(|_| matches!(resolution, Resolution::Native))?;
        let mut names = self.task.args.keys().map(Key::to_text).filter(|name| name != "_raw_params");
        let name = names.find(|name| spec.option(name).is_none())?;
        let hint = crate::builtin::closest_option(spec.options, &name)?;
        Some(format!("`{}` has no option `{name}`; {hint}", spec.name))
    }

    /// An error message with its place, excerpt and advice.
    fn located(&self, result: &TaskResult, no_log: bool) -> String {
        if let (Some(report), false) = (result.report(), no_log) {
            return format!("Task failed: {report}");
        }
        let mut text = match result.get("msg").map(windlass_template::text).filter(|message| !message.is_empty()) {
            Some(message) if !no_log => format!("Task failed: {message}"),
            _ => "Task failed.".to_owned(),
        };
        let span = &self.task.span;
        if span.is_located() {
            text.push_str(&format!("\nOrigin: {span}\n\n{}", span.excerpt()));
        }
        let advice = || result.advice().map(str::to_owned).or_else(|| self.misspelt_option());
        if let Some(advice) = (!no_log).then(advice).flatten() {
            text = format!("{}\n\nhint: {advice}", text.trim_end());
        }
        text
    }
}
