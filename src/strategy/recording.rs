//! The strategy's side of the journal: places of tasks, outcomes restored from an earlier run, and completed handlers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};
use windlass_modules::{has_secrets, hide_secrets, secret_values};
use windlass_template::{Context, Origin, Value, from_exact, from_json};

use super::execute::{Shared, TaskOnHost};
use super::one_item::ItemOutcome;
use super::play::{Batch, HostRun, IncludedHandler};
use super::shard::is_template;
use crate::action::{ActionContext, Failure};
use crate::builtin;
use crate::error::{Error, Result};
use crate::journal::{At, Done, Given, ItemDone, Place, PlayKey, Recorder, Recording, Restored, Spot, Status, Traits};
use crate::outcome::{Effect, FactNames, HostOutcome, HostResult, SetFacts, TaskResult};
use crate::output::Event;
use crate::plan::Position;
use crate::playbook::{Frame, FrameKind, Task, is_identifier, label};
use crate::vars::Run;
use crate::vars::secrecy::MASK;

/// Length of the hash of items in the place of a task: enough to tell the items of one loop apart.
const ITEM_BYTES: usize = 4;

/// Fact with the time at which facts were gathered.
const TIME: &str = "ansible_date_time";

/// A task on a host as the journal identifies it.
#[derive(Default)]
pub(super) struct Recorded {
    /// Its place, if the run keeps a journal.
    pub(super) place: Option<Arc<Place>>,
    /// Its outcome in the resumed run, with its place among the records.
    pub(super) outcome: Option<(HostOutcome, usize)>,
}

/// Handlers that have run on a host.
#[derive(Debug, Clone, Copy)]
struct Settled {
    /// Id of the handler; without one, all that no longer wait.
    handler: Option<u64>,
    /// Whether its outcome is the resumed run's.
    is_restored: bool,
}

impl Shared {
    /// The run's journal, if it keeps one.
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.journal.get()
    }

    /// Key for the hashes of secret items in places, which all processes of a run share.
    fn item_key(&self) -> Option<&str> {
        self.item_key.get().map(String::as_str).or_else(|| self.recorder()?.item_key())
    }
}

impl Batch {
    /// Place of the task that a host is at.
    pub(super) fn place_at(
        &self,
        task: &Arc<Task>,
        host: &Arc<str>,
        position: &Position,
        once: bool,
    ) -> Option<Arc<Place>> {
        self.shared.recorder()?;
        Some(self.place(task, host, self.spot(task, position), once))
    }

    pub(super) fn at(&self, task: &Arc<Task>, position: &Position) -> At {
        let (play, batch) = self.number;
        let path = match items_around(task, self.shared.item_key(), &self.world.run) {
            Some(items) => format!("{position}#{items}"),
            None => position.to_string(),
        };
        At { play, batch, path: path.into(), task: label::with_position(task).into() }
    }

    fn spot(&self, task: &Arc<Task>, position: &Position) -> Arc<Spot> {
        Arc::new(self.at(task, position).into())
    }

    fn place(&self, task: &Arc<Task>, host: &Arc<str>, spot: Arc<Spot>, once: bool) -> Arc<Place> {
        let run = self.hosts.get(host);
        let rescuable = run.is_some_and(|run| run.cursor.would_rescue());
        let address = run.map(|run| Arc::clone(&run.address)).unwrap_or_default();
        let place = Place::new(spot, self.key.clone(), address, Traits { once, handler: task.handler, rescuable });
        let settles = run.filter(|_| task.handler).map(|run| run.settled_by(task.id)).unwrap_or_default();
        Arc::new(place.settling(settles))
    }

    /// Places of a task on these hosts, and the outcomes the resumed run recorded there.
    pub(super) fn recorded(&mut self, task: &Arc<Task>, hosts: &[Arc<str>], once: bool) -> Vec<Recorded> {
        let Some(recorder) = self.shared.recorder() else { return hosts.iter().map(|_| Recorded::default()).collect() };
        recorder.files(&self.shared.files);
        recorder.vars_of_plugins(&self.world.inventory);
        // Hosts in lockstep share a position.
        let mut last: Option<(&Position, Arc<Spot>)> = None;
        let recorded = |host: &Arc<str>| {
            let Some(position) = self.hosts.get(host).and_then(|run| run.at.as_ref()) else {
                return Recorded::default();
            };
            let ahead = self.windows.get(host).and_then(|window| window.place_of(task.id));
            let place = ahead.unwrap_or_else(|| {
                let (_, spot) = match last.take() {
                    Some(known) if known.0 == position => last.insert(known),
                    _ => last.insert((position, self.spot(task, position))),
                };
                self.place(task, host, Arc::clone(spot), once)
            });
            let notified = self.hosts.get(host).and_then(|run| run.restored(task));
            let outcome = match recorder.restored(&place, host, notified, &mut |sentence| self.shared.warn(sentence)) {
                Restored::Done(done, items, at) => restored(task, host, *done, items).map(|outcome| (outcome, at)),
                Restored::Run => None,
            };
            Recorded { place: Some(place), outcome }
        };
        let recorded: Vec<Recorded> = hosts.iter().map(recorded).collect();
        for (host, _) in hosts.iter().zip(&recorded).filter(|(_, recorded)| recorded.outcome.is_none()) {
            // The tasks behind it in an included handler run too.
            if let Some(run) = self.hosts.get_mut(host)
                && let Some(IncludedHandler { id: handler, .. }) = run.included
            {
                run.restored.remove(&handler);
            }
        }
        recorded
    }

    /// Reports how many tasks were restored from the resumed run, before the next task runs.
    pub(super) fn report_resumed(&self) {
        let count = self.shared.recorder().map_or(0, Recorder::take_count);
        if count > 0 {
            let results = if count == 1 { "result" } else { "results" };
            let _ = self.shared.events.send(Event::Notice(format!("\nresumed: {count} {results} of the earlier run")));
        }
    }

    /// Fails if tasks that were evaluated again gave other variables than in the resumed run.
    pub(super) fn compare_resumed(&self) -> Result<()> {
        let warning = self.shared.recorder().map(Recorder::compare).transpose()?.flatten();
        warning.into_iter().for_each(|warning| self.shared.warn(warning));
        Ok(())
    }

    /// Whether more tasks of a host may be restored from the resumed run.
    pub(super) fn is_replaying(&self, host: &str) -> bool {
        self.shared.recorder().is_some_and(|recorder| recorder.is_replaying(host))
    }

    /// Error that ends a run which needs its journal and can no longer write it.
    pub(super) fn lost_journal(&self) -> Option<Error> {
        let is_required = self.shared.run.settings.journal.required;
        let why = self.shared.recorder().filter(|_| is_required)?.failure()?;
        let message = format!("the journal cannot be written, and the setting journal_required ends the run: {why}");
        Some(Error::new(message).hint("set WINDLASS_JOURNAL_DIR to another directory, or use --no-journal"))
    }

    /// Holds handlers left by earlier runs until the end of the play. Its tasks may first have to repair or create the
    /// objects the handlers act on, if the run stopped before.
    pub(super) fn take_carried(&mut self) {
        let Some(recorder) = self.shared.recorder() else { return };
        for (host, run) in &mut self.hosts {
            run.carried = recorder.carried(host, &self.key);
            run.owed = run.carried.iter().map(|left| left.handler.clone()).collect();
            run.address = self.world.address_of(host).into();
        }
    }

    /// Gives handlers of earlier runs that this play does not have to a later play of the same name.
    pub(super) fn return_carried(&mut self) {
        let Some(recorder) = self.shared.recorder() else { return };
        for (host, run) in &mut self.hosts {
            run.carried.retain(|left| self.handlers.find(&left.handler).is_empty());
            if !run.carried.is_empty() {
                recorder.keep(host, &self.key, std::mem::take(&mut run.carried));
            }
        }
    }

    /// Records a handler's outcome, and settles notifications whose handlers have all run. One that runs once has run
    /// for all hosts that have reached it. An include that has no tasks was not started.
    pub(super) fn handler_done(&mut self, task: &Arc<Task>, outcome: &HostOutcome, once: bool, is_restored: bool) {
        let Some(recorder) = self.shared.recorder().filter(|_| task.handler) else { return };
        let went_well = !outcome.result.is_unreachable() && !outcome.result.failed();
        if !went_well && !outcome.ignored {
            return;
        }
        let settle = |host: &Arc<str>, run: &mut HostRun| {
            run.settle((recorder, &self.key), host, Settled { handler: Some(task.id), is_restored });
        };
        for (host, run) in self.hosts.iter_mut().filter(|_| once) {
            if !run.notified.contains(&task.id) {
                settle(host, run);
            }
        }
        if let Some(run) = self.hosts.get_mut(&outcome.host) {
            settle(&outcome.host, run);
        }
    }

    /// Settles handlers that are includes, and on hosts that finished their handlers without a failure all of them.
    pub(super) fn settle_handlers(&mut self) {
        let Some(recorder) = self.shared.recorder() else { return };
        let journal = (recorder, &self.key);
        let done: Vec<_> = self.hosts.iter_mut().filter_map(|(host, run)| run.settle_included(journal, host)).collect();
        // Hosts that have failed are not through, but such a handler has run for them as well.
        for handler in done.into_iter().filter(|handler| handler.once) {
            for (host, run) in self.hosts.iter_mut().filter(|(_, run)| !run.notified.contains(&handler.id)) {
                run.settle_one(journal, host, handler.id);
            }
        }
    }

    /// The same for one host.
    pub(super) fn settle_handlers_of(&mut self, host: &str) {
        let Some(recorder) = self.shared.recorder() else { return };
        if let Some(run) = self.hosts.get_mut(host) {
            run.settle_included((recorder, &self.key), host);
        }
    }
}

impl HostRun {
    /// Settles the handler whose included tasks have run, and returns it. On a host that is through, settles all.
    fn settle_included(&mut self, journal: (&Recorder, &PlayKey), host: &str) -> Option<IncludedHandler> {
        let included = self.take_included();
        if self.flushing.is_empty() {
            return included;
        }
        let is_replaying = journal.0.is_replaying(host);
        if let Some(handler) = included {
            self.settle_one(journal, host, handler.id);
        }
        let is_through = !self.out && !self.ended && !self.cursor.is_in_handlers() && !self.cursor.is_failing();
        if is_through {
            self.settle(journal, host, Settled { handler: None, is_restored: is_replaying });
        }
        included
    }

    /// Settles a handler that is an include.
    fn settle_one(&mut self, journal: (&Recorder, &PlayKey), host: &str, handler: u64) {
        let is_restored = journal.0.is_replaying(host) || self.restored.contains_key(&handler);
        self.settle(journal, host, Settled { handler: Some(handler), is_restored });
    }

    /// Notifications that wait for this handler alone.
    fn settled_by(&self, handler: u64) -> Vec<String> {
        let waits = |handlers: &HashSet<u64>| handlers.len() == 1 && handlers.contains(&handler);
        self.flushing.iter().filter(|(_, handlers)| waits(handlers)).map(|(name, _)| name.clone()).collect()
    }

    /// Settles the notifications that a handler was the last to wait for.
    fn settle(&mut self, (recorder, play): (&Recorder, &PlayKey), host: &str, settled: Settled) {
        let HostRun { flushing, carried, owed, notified, address, .. } = self;
        flushing.retain(|name, handlers| {
            let has_run = match settled.handler {
                Some(handler) => handlers.remove(&handler) && handlers.is_empty(),
                // A handler may have notified an earlier one, which the next flush runs.
                None => handlers.is_disjoint(notified),
            };
            // The earlier run settled it, and what the ledger has since then is another run's.
            let is_known = settled.is_restored && !owed.contains(name);
            // The ledger may already have a later notification, which is restored later.
            if has_run && !is_known && !recorder.is_notified_later(host, name) {
                recorder.ran((host, address), play, name);
                // The end of the play would run it again.
                carried.retain(|left| left.handler != *name);
            }
            !has_run
        });
    }
}

impl TaskOnHost {
    /// Records that the task is about to be sent, with the handlers a change will notify, and with its arguments if
    /// this process has them.
    pub(super) fn record_sent(&self, context: &Context, action: Option<&ActionContext>) -> Option<u64> {
        let (place, recorder) = (self.place.as_ref()?, self.shared.recorder()?);
        // An immediate action is never in flight, so it is not announced.
        if builtin::is_immediate(self.task.short_action()) {
            return None;
        }
        let args = || action.and_then(recorded_arguments);
        recorder.sent(place, &self.host, self.expected_handlers(context), args)
    }

    /// Waits until the line written by [`TaskOnHost::record_sent`] is on disk. An unchanged task need not wait, because
    /// no handler can be lost.
    ///
    /// The fsync runs while the host works.
    pub(super) async fn await_record(&self, line: Option<u64>, outcome: &std::result::Result<TaskResult, Failure>) {
        let may_have_changed = |result: &TaskResult| result.changed() || result.failed() || result.is_unreachable();
        if outcome.as_ref().is_ok_and(|result| !may_have_changed(result)) {
            return;
        }
        if let (Some(recorder), Some(line)) = (self.shared.recorder(), line) {
            recorder.durable(line).await;
        }
    }

    /// Gives facts that are gathered again the time that they had in the resumed run: its tasks may have named backups
    /// or releases after it.
    pub(super) fn restore_time(&self, result: &mut TaskResult) {
        let Some((recorder, place)) = self.shared.recorder().zip(self.place.as_ref()) else { return };
        if let Some(time) = recorder.fact_before(place, &self.host, TIME) {
            result.replace_fact(TIME, &from_json(&time));
        }
    }

    /// Records the result of an item.
    pub(super) fn record_item(&self, index: usize, part: &(TaskResult, Option<String>), no_log: bool) {
        self.reporter.iter().for_each(|reporter| reporter.item(index, part, no_log));
        if let (Some(recorder), Some(place)) = (self.shared.recorder(), &self.place) {
            recorder.item(place, &self.host, self.task.short_action(), index, part, no_log);
        }
    }

    /// Records the outcome of the task, and passes it on.
    pub(super) fn record_done(&self, outcome: &HostOutcome, looped: bool, no_log: bool) {
        self.reporter.iter().for_each(|reporter| reporter.done(outcome, looped, no_log));
        self.record_outcome(outcome, looped, no_log);
    }

    /// Records the outcome of the task.
    pub(super) fn record_outcome(&self, outcome: &HostOutcome, looped: bool, no_log: bool) {
        if let (Some(recorder), Some(place)) = (self.shared.recorder(), &self.place) {
            let has_facts = outcome.parts.iter().any(|(result, _)| !result.effects().is_empty());
            let kept = has_facts || self.task.register.is_some();
            let report = self.display().failure_report(&outcome.result, no_log);
            recorder.done(place, outcome, Recording { looped, kept, no_log, report: report.as_deref() });
        }
    }

    /// Whether the resumed run completed items of this task.
    pub(super) fn is_resumed_loop(&self) -> bool {
        let (Some(recorder), Some(place)) = (self.shared.recorder(), &self.place) else { return false };
        recorder.has_restored_items(place, &self.host)
    }

    /// Outcome of an item in the resumed run, if its loop had the same item at this index.
    pub(super) fn restored_item(
        &self,
        index: usize,
        loop_var: &str,
        item: &Value,
        context: &Context,
    ) -> Option<ItemOutcome> {
        let recorder = self.shared.recorder()?;
        let done = recorder.restored_item(self.place.as_ref()?, &self.host, index)?;
        if done.result.get(loop_var).as_ref() != Some(&windlass_template::to_json(item))
            || !is_of_task(&done.action, &self.task)
        {
            return None;
        }
        Some(ItemOutcome {
            result: Stored::from(done.clone()).result(&self.task)?,
            delegate: done.delegate.clone(),
            context: context.clone(),
            ends_loop: false,
        })
    }
}

/// Hash of the items of the loops around a task: of blocks and includes. So an outcome of one item is never taken for
/// that of another, if a resumed run has them in another order. `None` without such a loop.
///
/// Secret items are hashed with the key, so that only who has it can try guesses. Without a key, as in journals of
/// earlier releases, they are masked.
fn items_around(task: &Task, key: Option<&str>, run: &Run) -> Option<String> {
    let includes = task.frame.chain().filter(|frame| matches!(frame.kind, FrameKind::Include));
    let item = |frame: &Frame| {
        let name = frame.vars.get("ansible_loop_var")?.as_str()?;
        Some(frame.vars.get(name)?.to_json().to_string())
    };
    let items: Vec<String> = includes.filter_map(|frame| item(frame)).collect();
    if items.is_empty() {
        return None;
    }
    let is_hidden = task.may_be_hidden(run.settings.no_log);
    let masked: Vec<String> = items.iter().map(|item| run.secrets.mask(item)).collect();
    let hash = match key.filter(|_| is_hidden || masked != items) {
        Some(key) => Sha256::digest(format!("{key}\n{}", items.join("\n"))),
        None if is_hidden => return None,
        None => Sha256::digest(masked.concat()),
    };
    hash.get(..ITEM_BYTES).map(hex::encode)
}

/// Whether a recorded action may be the task's. The name of an action that a template has produced may be masked.
fn is_of_task(recorded: &str, task: &Task) -> bool {
    recorded == task.short_action() || recorded.contains(MASK)
}

/// Arguments of a task for the journal. Modules of others may have secret options that only they know.
fn recorded_arguments(action: &ActionContext) -> Option<Given<'_>> {
    let spec = builtin::spec(&action.action).filter(|_| !action.no_log)?;
    if !has_secrets(spec) {
        return Some(Given::Values(&action.args));
    }
    let args = action.args.iter().map(|(name, value)| (name.to_string(), windlass_template::to_json(value)));
    let mut args = Json::Object(args.collect());
    secret_values(spec, &args, &mut |text| action.secrets.reveal(text.as_bytes()));
    // Trivial values are no secrets elsewhere.
    hide_secrets(spec, &mut args);
    Some(Given::Object(args))
}

/// Restores an outcome. Returns `None` if the journal holds one of another action.
pub(super) fn restored(task: &Task, host: &Arc<str>, done: Done, items: Vec<ItemDone>) -> Option<HostOutcome> {
    if !task.action.contains("{{") && !is_of_task(&done.action, task) {
        return None;
    }
    let (is_looped, ignored, notify, delegate_facts) =
        (done.items.is_some(), done.status.ignored, done.notify.clone(), done.delegate_facts);
    let (action, delegate) = (done.action.clone(), done.delegate.clone());
    let mut result = Stored::from(done).result(task)?;
    let mut parts = vec![(result.clone(), delegate)];
    if is_looped {
        let part = |item: ItemDone| {
            let delegate = item.delegate.clone();
            Some((Stored::from(item).result(task)?, delegate))
        };
        parts = items.into_iter().map(part).collect::<Option<_>>()?;
        if result.get("results").is_some() {
            result.set("results", parts.iter().map(|(part, _)| part.to_value()).collect::<Value>());
        }
    }
    Some(HostOutcome {
        host: Arc::clone(host),
        result,
        ignored,
        parts,
        notify,
        delegate_facts,
        action,
        stopped: false,
        _counted: None,
    })
}

/// A result as the journal has it.
struct Stored {
    action: String,
    fields: Map<String, Json>,
    exact: Map<String, Json>,
    origins: BTreeMap<String, String>,
    status: Status,
}

impl From<Done> for Stored {
    fn from(done: Done) -> Stored {
        let Done { action, result, exact, origins, status, .. } = done;
        Stored { action, fields: result.read(), exact: exact.read(), origins, status }
    }
}

impl From<ItemDone> for Stored {
    fn from(item: ItemDone) -> Stored {
        let ItemDone { action, result, exact, origins, status, .. } = item;
        Stored { action, fields: result.read(), exact: exact.read(), origins, status }
    }
}

impl Stored {
    /// Restores a result, or only its flags if the rest was withheld and nothing reads it.
    ///
    /// Journal values are data and pass the same checks as answers of hosts. Only `set_fact` has an effect as well,
    /// limited to the variables that the task may name.
    fn result(self, task: &Task) -> Option<TaskResult> {
        let Stored { action, fields, exact, origins, status } = self;
        if fields.is_empty() {
            let flags = [("failed", status.failed), ("skipped", status.skipped), ("unreachable", status.unreachable)];
            let set = flags.into_iter().filter(|(_, holds)| *holds);
            return Some(set.fold(TaskResult::ok(status.changed), |result, (name, _)| result.with(name, true)));
        }
        // The action of a task may be a template.
        let (name, short) = match task.action.contains("{{") {
            true => (&*action, &*action),
            false => (&*task.action, task.short_action()),
        };
        let of_json = |(name, json): (&String, &Json)| {
            let value = exact.get(name).map_or_else(|| from_json(json), from_exact);
            (name.clone(), value)
        };
        let values: Vec<(String, Value)> = fields.iter().map(of_json).collect();
        let facts = values.iter().find(|(name, _)| name == "ansible_facts" && short == "set_fact");
        let Some((_, facts)) = facts else {
            let answer = Value::from_pairs(values.into_iter().map(|(name, value)| (Value::from(name), value)));
            return HostResult::read(&answer, FactNames::of_module(name)).map(TaskResult::from);
        };
        let entry = |key: Value| Some((Arc::<str>::from(key.as_str()?), facts.get_item(&key).ok()?));
        let vars: Vec<(Arc<str>, Value)> = facts.try_iter().ok()?.map(entry).collect::<Option<_>>()?;
        if !vars.iter().all(|(name, _)| may_set(task, name)) {
            return None;
        }
        let cacheable = fields.get("_ansible_facts_cacheable").and_then(Json::as_bool).unwrap_or(false);
        let origins = origins.iter().map(|(name, word)| (name.as_str().into(), Origin::of_word(word))).collect();
        let set = SetFacts { vars, cacheable, origins };
        let result = values.into_iter().fold(TaskResult::new(), |result, (name, value)| result.with(&name, value));
        Some(result.with_effect(Effect::SetFacts(set)))
    }
}

/// Whether a task of `set_fact` may set a variable: it names it, or only the run knows its names.
fn may_set(task: &Task, name: &str) -> bool {
    let is_open = task.args_template.is_some()
        || task.keyword("module_defaults").is_some()
        || task.args.keys().any(|key| key.as_str().is_none_or(is_template));
    task.args.get(name).is_some() || (is_open && is_identifier(name))
}
