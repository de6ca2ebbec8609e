//! Results of a task on a host as events, with error reports for people.

use std::sync::Arc;

use windlass_template::{Context, Value};
use windlass_yaml::Key;

use super::execute::{Shared, TaskOnHost};
use crate::action::Failure;
use crate::foreign::Resolution;
use crate::outcome::TaskResult;
use crate::output::{Event, Events, ResultEvent, Status};
use crate::playbook::{Task, label};
use crate::vars::{World, boolean, given};

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

/// Display of one result.
#[derive(Clone)]
pub(super) struct Shown<'a> {
    /// Part of the task that it belongs to.
    pub(super) part: Part,
    /// Host that the task was delegated to.
    pub(super) delegate: Option<&'a str>,
    /// Whether the task ignores the failure.
    pub(super) ignored: bool,
    /// Whether the result is hidden.
    pub(super) no_log: bool,
}

/// Sends the results of one task on one host to the output.
#[derive(Clone, Copy)]
pub(super) struct Display<'a> {
    pub(super) shared: &'a Shared,
    pub(super) world: &'a Arc<World>,
    pub(super) task: &'a Arc<Task>,
    pub(super) host: &'a Arc<str>,
    pub(super) events: &'a Events,
}

impl TaskOnHost {
    /// Display of a part of the task by the task's own variables, as a failure that is not ignored.
    pub(super) fn shown(&self, part: Part) -> Shown<'static> {
        let no_log = self.display().no_log(&self.scope()).unwrap_or(true);
        Shown { part, delegate: None, ignored: false, no_log }
    }

    /// Sends a warning, in the order of the task's other events.
    pub(super) fn warn(&self, sentence: impl Into<String>) {
        let _ = self.events.send(Event::Warning(sentence.into()));
    }
}

impl Display<'_> {
    /// Whether the result is hidden.
    pub(super) fn no_log(&self, context: &Context) -> Result<bool, Failure> {
        match self.task.keyword("no_log") {
            None => Ok(self.shared.run.settings.no_log),
            Some(node) => {
                given(context, node)?.map_or(Ok(false), |value| boolean("no_log", &value).map_err(Failure::Failed))
            }
        }
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

    /// Reports the result of an include that succeeded.
    pub(super) fn show_include(&self, result: &TaskResult, shown: Shown<'_>) {
        let _ = self.events.send(Event::IncludeResult(self.event(result, Status::Ok, shown)));
    }

    /// Reports a result.
    pub(super) fn show(&self, result: &TaskResult, shown: Shown<'_>) {
        // Ansible prints `...ignoring` once for the whole task, not for each item.
        let is_item = matches!(shown.part, Part::Item(_));
        let status = match result {
            result if result.is_unreachable() => Status::Unreachable { ignored: shown.ignored },
            result if result.failed() => Status::Failed { ignored: shown.ignored && !is_item },
            result if result.is_skipped() => Status::Skipped,
            _ => Status::Ok,
        };
        let is_empty = result.get("results").is_some_and(|results| results.len() == Some(0));
        let part = if shown.part == Part::Loop && is_empty { Part::Task } else { shown.part };
        let _ = self.events.send(Event::Result(self.event(result, status, Shown { part, ..shown })));
    }

    fn event(&self, result: &TaskResult, status: Status, shown: Shown<'_>) -> ResultEvent {
        let (item, looped) = match shown.part {
            Part::Task => (None, false),
            Part::Loop => (None, true),
            Part::Item(label) => (Some(label), false),
        };
        let settings = &self.shared.run.settings;
        let no_log = shown.no_log || result.is_secret();
        let diff = match self.task.keyword("diff") {
            None => settings.diff,
            Some(node) => node.as_bool().unwrap_or(settings.diff),
        };
        // A skipped task was not delegated either.
        let delegate = shown.delegate.filter(|_| status != Status::Skipped);
        // The items of a loop have been reported with their errors.
        let is_of_items = looped && result.get("results").is_some_and(|results| results.len() != Some(0));
        ResultEvent {
            task: Arc::clone(self.task),
            name: Arc::clone(self.host),
            host: self.label(delegate),
            status,
            result: Arc::new(if no_log { censored(result) } else { result.clone() }),
            item,
            looped,
            diff: diff && !no_log,
            no_log,
            report: if is_of_items { None } else { self.report(result, status, no_log) },
        }
    }

    /// The host, and the host that the task is delegated to.
    pub(super) fn label(&self, delegate: Option<&str>) -> String {
        let address = delegate.and_then(|name| {
            let theirs = self.world.host_context(&Arc::from(name)).variable("ansible_host").ok().flatten()?;
            Some(windlass_template::text(&theirs))
        });
        label::of_host(self.host, delegate, address.as_deref())
    }

    /// Error message with its location: the position in the template if known, else the task.
    fn report(&self, result: &TaskResult, status: Status, no_log: bool) -> Option<String> {
        if self.shared.run.settings.compat.hides_positions() && !result.is_bare() {
            return None;
        }
        let is_error = matches!(status, Status::Failed { .. } | Status::Unreachable { .. });
        is_error.then(|| self.located(result, no_log))
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
        let remedy = || (!no_log).then(|| self.remedy(result)).flatten();
        if let (Some(report), false) = (result.report(), no_log) {
            let advice = remedy().map(|advice| format!("\n\nhint: {advice}")).unwrap_or_default();
            return format!("Task failed: {}{advice}", report.trim_end());
        }
        let mut text = match result.get("msg").map(windlass_template::text).filter(|message| !message.is_empty()) {
            Some(message) if !no_log => format!("Task failed: {message}"),
            _ => match self.undefined_name(result) {
                Some(name) => format!("Task failed: {name}"),
                None => "Task failed.".to_owned(),
            },
        };
        let span = &self.task.span;
        if span.is_located() {
            text.push_str(&format!("\nOrigin: {span}"));
            // A line of the task may have its arguments.
            if !no_log {
                text.push_str(&format!("\n\n{}", span.excerpt()));
            }
        }
        let advice = || result.advice().map(str::to_owned).or_else(|| self.misspelt_option());
        if let Some(advice) = (!no_log).then(advice).flatten().or_else(remedy) {
            text = format!("{}\n\nhint: {advice}", text.trim_end());
        }
        text
    }
}

/// Visible part of a hidden result.
pub(super) fn censored(result: &TaskResult) -> TaskResult {
    let reason = "the output has been hidden due to the fact that 'no_log: true' was specified for this result";
    result.only(&["changed", "attempts", "retries", "unreachable"]).with("censored", reason)
}

impl Shared {
    /// Sends a warning.
    pub fn warn(&self, sentence: impl Into<String>) {
        let _ = self.events.send(Event::Warning(sentence.into()));
    }
}
