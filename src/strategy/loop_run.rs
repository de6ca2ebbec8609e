//! Items of a loop, run one after the other or sent ahead where they are independent.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use windlass_template::{Context, Dependencies, Value, Variable, Variables};

use super::display::{Part, Shown};
use super::execute::{TaskOnHost, Whole};
use super::loop_items::Loop;
use super::one_item::ItemOutcome;
use super::store::registered;
use crate::action::{Ahead, Lane, departed};
use crate::outcome::kept::{self, Counted};
use crate::outcome::{Effect, InventoryChange, NewHost, TaskResult};

/// Maximum number of items under way at the same time.
const WINDOW: usize = 32;

/// Origin of an item's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The item ran after the one before it.
    Run,
    /// The item ran in parallel with others, from this time on.
    Beside(Instant),
    /// The resumed run or a lost process has run and reported the item.
    Restored,
}

/// A running loop.
pub(super) struct Items<'a> {
    task: &'a TaskOnHost,
    context: &'a Context,
    opened: &'a Loop,
    /// Whether the resumed run completed some of the items.
    is_resumed: bool,
    /// Variables set by earlier items, visible to later ones.
    seen: Variables,
    results: Vec<Value>,
    /// Number of the item for each of `results` and `parts`.
    numbers: Vec<usize>,
    /// Size of `results`, which counts as long as the loop runs.
    counted: Option<Counted>,
    parts: Vec<(TaskResult, Option<String>)>,
    notify: Vec<String>,
    /// Successful items of `add_host` and `group_by`. They are reported when all have succeeded, because a failure adds
    /// none of them.
    untold: Vec<(TaskResult, Option<String>, String, bool)>,
    /// Whether all failures so far are ignored.
    forgiven: Option<bool>,
    /// Failure that ended the loop early and replaces the aggregate of its items, with the host of that item.
    ended: Option<(TaskResult, Option<String>)>,
}

impl<'a> Items<'a> {
    pub(super) fn new(task: &'a TaskOnHost, context: &'a Context, opened: &'a Loop) -> Items<'a> {
        Items {
            task,
            context,
            opened,
            is_resumed: task.is_resumed_loop(),
            seen: Variables::default(),
            results: Vec::new(),
            numbers: Vec::new(),
            counted: None,
            parts: Vec::new(),
            notify: Vec::new(),
            untold: Vec::new(),
            forgiven: None,
            ended: None,
        }
    }

    /// Combines the items into the outcome of the task.
    pub(super) fn whole(self, result: TaskResult) -> Whole {
        let delegate = self.parts.first().and_then(|(_, delegate)| delegate.clone());
        Whole { result, delegate, looped: true, parts: self.parts, notify: self.notify, forgiven: self.forgiven }
    }

    /// Runs all items and returns the result of the loop.
    pub(super) async fn run(&mut self) -> TaskResult {
        let opened = self.opened;
        if opened.items.is_empty() {
            return none();
        }
        self.task.warn_of_used_name(self.context, opened);
        match opened.parallel {
            // Results of a plan are in the order of the loop.
            _ if self.task.shared.run.settings.plans => self.run_in_turn().await,
            1 => self.run_in_turn().await,
            width => Box::pin(self.run_beside(width)).await,
        }
        if let Some((ended, delegate)) = self.ended.take() {
            self.notify.clear();
            self.parts = vec![(ended.clone(), delegate)];
            return ended;
        }
        let mut summary = summary(&self.parts, std::mem::take(&mut self.results));
        let added = std::mem::take(&mut self.untold);
        if !summary.failed() {
            for (result, delegate, label, no_log) in &added {
                let (part, delegate) = (Part::Item(label.clone()), delegate.as_deref());
                self.task.display().show(result, Shown { part, delegate, ignored: false, no_log: *no_log });
            }
        } else if !added.is_empty() {
            summary.set("changed", false);
        }
        summary
    }

    /// Runs all items, one after the other or sent ahead.
    async fn run_in_turn(&mut self) {
        let opened = self.opened;
        let mut go_ahead = self.may_go_ahead();
        let mut index = 0;
        while index < opened.items.len() {
            if let Some(outcome) = self.restored(index) {
                // Later items may already have run, so none is sent ahead again.
                go_ahead = false;
                if !self.finish(index, outcome, Origin::Restored) {
                    break;
                }
                index += 1;
                continue;
            }
            // The first item opens the connection.
            if go_ahead && index > 0 {
                let before = index;
                let goes_on;
                (index, goes_on) = self.send_ahead(index).await;
                if !goes_on {
                    break;
                }
                // If an item had to wait, the next is not prepared twice.
                go_ahead = index > before + 1;
                continue;
            }
            self.task.events.room().await;
            let context = self.context_of(index);
            let outcome = self.task.item(&context, index, None).await;
            let origin = if index < self.task.reported { Origin::Restored } else { Origin::Run };
            if !self.finish(index, outcome, origin) {
                break;
            }
            index += 1;
            if opened.pause > 0.0 && index < opened.items.len() {
                tokio::time::sleep(crate::vars::seconds(opened.pause)).await;
            }
        }
    }

    /// Number of items.
    pub(super) fn len(&self) -> usize {
        self.opened.items.len()
    }

    pub(super) fn task(&self) -> &'a TaskOnHost {
        self.task
    }

    /// Outcome of an item in the resumed run.
    pub(super) fn restored(&self, index: usize) -> Option<ItemOutcome> {
        if !self.is_resumed {
            return None;
        }
        let item = self.opened.items.get(index).cloned().unwrap_or_default();
        self.task.restored_item(index, &self.opened.loop_var, &item, &self.context_of(index))
    }

    /// Brings results that arrived in another order into the order of the items.
    pub(super) fn sort(&mut self) {
        let results = std::mem::take(&mut self.results).into_iter().zip(std::mem::take(&mut self.parts));
        let mut all: Vec<_> = std::mem::take(&mut self.numbers).into_iter().zip(results).collect();
        all.sort_by_key(|(number, _)| *number);
        (self.numbers, (self.results, self.parts)) = all.into_iter().unzip();
    }

    /// Whether items may be sent ahead as far as the task's keywords and action are concerned.
    fn may_go_ahead(&self) -> bool {
        let task = &self.task.task;
        let settings = &self.task.shared.run.settings;
        let waits = ["until", "retries", "timeout", "delegate_to", "async", "debugger"];
        settings.stream
            && settings.task_timeout == 0
            && self.opened.pause == 0.0
            && self.opened.break_when.is_empty()
            && self.task.shared.is_one_request(task)
            && !waits.iter().any(|name| task.keyword(name).is_some())
    }

    /// Sends items while they need not wait. Returns the index of the next item, and whether the loop continues.
    async fn send_ahead(&mut self, from: usize) -> (usize, bool) {
        let lane = Lane::new();
        let task = self.task;
        let register: Dependencies = task.task.register.iter().cloned().collect();
        let mut under_way = FuturesOrdered::new();
        let mut departing: Option<Arc<Ahead>> = None;
        let (mut next, mut done, mut refused) = (from, from, false);
        loop {
            if departing.is_none() && !refused && next < self.opened.items.len() && under_way.len() < WINDOW {
                let pending = if under_way.is_empty() { Dependencies::default() } else { register.clone() };
                let ahead = lane.ahead(pending, 0);
                let context = self.context_of(next);
                departing = Some(Arc::clone(&ahead));
                self.task.events.room().await;
                let number = next;
                let item = async move { ahead.watch(task.item(&context, number, Some(&ahead))).await };
                under_way.push_back(item);
                next += 1;
            }
            tokio::select! {
                biased;
                left = departed(departing.as_deref()), if departing.is_some() => {
                    refused = !left;
                    departing = None;
                }
                outcome = under_way.next() => match outcome {
                    // Nothing was sent behind an item that has to wait.
                    None | Some(None) => return (done, true),
                    Some(Some(outcome)) => {
                        let goes_on = self.finish(done, outcome, Origin::Run);
                        done += 1;
                        if !goes_on {
                            return (done, false);
                        }
                    }
                },
            }
        }
    }

    pub(super) fn context_of(&self, index: usize) -> Context {
        let mut vars = self.seen.clone();
        vars.extend(self.opened.variables(index));
        self.context.with(vars)
    }

    /// Stores the result of an item, and reports and records a new one. Returns whether the loop continues.
    pub(super) fn finish(&mut self, index: usize, outcome: ItemOutcome, origin: Origin) -> bool {
        let (task, opened) = (self.task, self.opened);
        let ItemOutcome { mut result, delegate, context, ends_loop } = outcome;
        if ends_loop {
            self.ended.get_or_insert((result, delegate));
            return false;
        }
        self.identify(&mut result, index, &context);
        for effect in result.effects() {
            if let Effect::SetFacts(set) = effect {
                let seen = set.vars.iter().map(|(name, value)| (Arc::clone(name), Variable::Data(value.clone())));
                self.seen.extend(seen);
            }
        }
        if self.is_added_again(&result) {
            result.set("changed", false);
        }
        let display = task.display();
        let no_log = display.no_log(&context).unwrap_or(true);
        let item = opened.items.get(index).cloned().unwrap_or_default();
        let label = display.item_label(&context, &item, no_log).unwrap_or_else(|failure| {
            let why = failure.into_result(self.task.shared.run.settings.compat);
            let why = why.text("msg").unwrap_or_default();
            result.set("failed", true);
            result.set("msg", format!("Failed to template loop_control.label: {why}"));
            "None".to_owned()
        });
        match task.admit(&mut result, true, self.counted.as_ref().map(Counted::size).unwrap_or_default()) {
            Ok(counted) => self.counted = Some(counted.and(self.counted.take())),
            Err(refusal) => {
                result = kept::dropped(&result, refusal);
                self.identify(&mut result, index, &context);
            }
        }
        if let Some(name) = task.task.register.as_ref().filter(|_| !matches!(origin, Origin::Beside(_))) {
            self.seen.insert(Arc::clone(name), Variable::Data(self.stored(&result)));
        }
        // If any item changes, unchanged items notify too, but not skipped ones.
        if !result.is_skipped() {
            task.notified(&context, &mut self.notify);
        }
        let ignored = task.judge().forgives(&context, &result);
        if result.failed() || result.is_unreachable() {
            self.forgiven = Some(ignored && self.forgiven.unwrap_or(true));
        }
        if origin == Origin::Restored {
            // It was reported then.
        } else if matches!(task.task.short_action(), "add_host" | "group_by")
            && !result.failed()
            && !result.is_skipped()
        {
            self.untold.push((result.clone(), delegate.clone(), label, no_log));
        } else {
            let (part, delegate) = (Part::Item(label), delegate.as_deref());
            display.show(&result, Shown { part, delegate, ignored, no_log });
        }
        // Further items may be delegated to hosts that can be reached.
        let lost = result.is_unreachable() && delegate.is_none() || task.breaks_off(opened, &context, &result);
        self.results.push(self.stored(&result));
        self.numbers.push(index);
        self.parts.push((result, delegate));
        if let (Origin::Beside(began), Some(place)) = (origin, &task.place) {
            place.begin_item(began);
        }
        if let Some(part) = self.parts.last().filter(|_| origin != Origin::Restored) {
            task.record_item(index, part, no_log);
        }
        if let Some((part, _)) = self.parts.last_mut().filter(|(part, _)| part.is_on_disk()) {
            kept::shed(part);
        }
        !lost
    }

    /// Adds the variables of the loop to the result of an item.
    fn identify(&self, result: &mut TaskResult, index: usize, context: &Context) {
        let opened = self.opened;
        result.set(&opened.loop_var, opened.items.get(index).cloned().unwrap_or_default());
        result.set("ansible_loop_var", &*opened.loop_var);
        if let Some(name) = &opened.index_var {
            result.set(name, index);
            result.set("ansible_index_var", &**name);
        }
        if let (true, Ok(Some(extended))) = (opened.extended, context.variable("ansible_loop")) {
            result.set("ansible_loop", extended);
        }
    }

    /// Value of an item's result for other tasks.
    fn stored(&self, result: &TaskResult) -> Value {
        if result.unknown().is_some() { registered(&self.task.task, result) } else { result.to_value() }
    }

    /// Whether an earlier item's `add_host` added the same host with the same values.
    fn is_added_again(&self, result: &TaskResult) -> bool {
        let Some(host) = added_host(result) else { return false };
        let mut earlier = self.parts.iter().rev().filter_map(|(part, _)| added_host(part));
        earlier.find(|other| other.name == host.name).is_some_and(|other| other == host)
    }
}

/// Host added by a result of `add_host`.
fn added_host(result: &TaskResult) -> Option<&NewHost> {
    result.effects().iter().find_map(|effect| match effect {
        Effect::Inventory(InventoryChange::Host(host)) => Some(host),
        _ => None,
    })
}

/// Result of a loop without items.
pub(super) fn none() -> TaskResult {
    TaskResult::unchanged()
        .with("skipped", true)
        .with("skipped_reason", "No items in the list")
        .with("results", Value::from(Vec::<Value>::new()))
}

/// Result of a whole loop.
pub(super) fn summary(parts: &[(TaskResult, Option<String>)], results: Vec<Value>) -> TaskResult {
    let any = |test: fn(&TaskResult) -> bool| parts.iter().any(|(result, _)| test(result));
    let changed = any(TaskResult::changed);
    let mut result = TaskResult::new();
    result.set("results", results.into_iter().collect::<Value>());
    if let Some(why) = parts.iter().find_map(|(part, _)| part.unknown()) {
        result.set_unknown(why.clone());
    }
    if any(TaskResult::is_unreachable) {
        result.set("changed", changed);
        result.set("unreachable", true);
        let message = parts
            .iter()
            .find(|(part, _)| part.is_unreachable())
            .and_then(|(part, _)| part.text("msg").map(str::to_owned));
        result.set("msg", message.unwrap_or_else(|| "One or more items could not reach the host".to_owned()));
        return result;
    }
    let skipped = parts.iter().all(|(part, _)| part.is_skipped());
    result.set("skipped", skipped);
    if skipped {
        result.set("msg", "All items skipped");
    } else if any(|part| part.is("failed")) {
        result.set("failed", true);
        result.set("msg", "One or more items failed");
    } else {
        result.set("msg", "All items completed");
    }
    result.set("changed", changed);
    result
}
