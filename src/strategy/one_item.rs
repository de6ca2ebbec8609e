//! One item of a task on one host: conditions, arguments, the action, and the evaluation of its result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_bounds::child;
use windlass_template::{Context, ErrorKind, Value};
use windlass_yaml::Node;

use super::execute::TaskOnHost;
use super::judge::depends;
use super::unknown;
use crate::action::{self, ActionContext, Ahead, Failure};
use crate::builtin;
use crate::executor::Flights;
use crate::outcome::{Arguments, TaskResult};
use crate::output::{Event, Spending};
use crate::playbook::keyword::TASK_BOOLEANS;
use crate::vars::{boolean, given, number, secrecy};

/// Ansible's reason for a skipped task.
pub const CONDITION_FALSE: &str = "Conditional result was False";

/// Keywords of a connection that may be templates.
pub(super) const CONNECTION: &[&str] =
    &["become", "become_exe", "become_flags", "become_method", "become_user", "connection", "port", "remote_user"];

/// A task or item ready to run, or skipped.
enum Prepared {
    Skipped(TaskResult),
    Ready { action: Box<ActionContext>, retries: Option<u64>, poll: u64 },
}

/// Result of an action that was sent ahead, before `changed_when` and `failed_when`.
pub(super) enum Acted {
    Skipped(TaskResult),
    Failed(Failure, Option<Arguments>),
    Done { result: TaskResult, check: bool, args: Option<Arguments> },
}

impl Acted {
    /// Whether the executor skips everything sent behind it.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            Acted::Skipped(_) => false,
            Acted::Failed(..) => true,
            Acted::Done { result, .. } => result.is("failed") || result.exits_badly(),
        }
    }
}

/// Result of one item, with the host it was delegated to.
pub(super) struct ItemOutcome {
    pub(super) result: TaskResult,
    pub(super) delegate: Option<String>,
    /// Variables of the item.
    pub(super) context: Context,
    /// An expression failed to evaluate, so that the whole loop is abandoned.
    pub(super) ends_loop: bool,
}

impl TaskOnHost {
    /// Runs the item with this number, or the whole task if it has no loop.
    pub(super) async fn item(&self, context: &Context, number: usize, ahead: Option<&Arc<Ahead>>) -> ItemOutcome {
        let mut delegate = None;
        let (outcome, args) = self.prepare_and_run(context, number, &mut delegate, ahead).await;
        self.outcome(context, delegate, outcome, args)
    }

    /// Builds an item's result and adds the fields that every result has.
    fn outcome(
        &self,
        context: &Context,
        delegate: Option<String>,
        outcome: Result<TaskResult, Failure>,
        args: Option<Arguments>,
    ) -> ItemOutcome {
        // A division by zero is not a template error: the item fails like any other.
        let compat = self.shared.run.settings.compat;
        let ends_loop = compat.ends_loops_at_failing_items()
            && args.is_none()
            && matches!(&outcome, Err(Failure::Evaluation(error)) if *error.kind() != ErrorKind::Division);
        let mut result = match outcome {
            Ok(result) if self.fails_early(&result) => unknown::too_early(&result),
            Ok(result) => result,
            Err(failure) => {
                let is_undefined = matches!(&failure, Failure::Evaluation(error) if error.is_undefined());
                let of_argument = match &failure {
                    Failure::Evaluation(error) if error.is_undefined() => error.undefined_option(),
                    _ => None,
                };
                let mut result = self.failed(failure);
                // An error inside a template file has `changed` nevertheless.
                let is_in_file = args.is_some() && self.task.short_action() == "template";
                if is_undefined && !is_in_file && compat.lacks_changed_when_undefined() {
                    result.remove("changed");
                }
                if let Some(message) = of_argument.filter(|_| compat.names_undefined_options()) {
                    result.set("msg", message);
                }
                result
            }
        };
        let is_left_out = result.is_skipped() && builtin::skips_bare(self.task.short_action());
        let is_judged = result.get("skip_reason").is_none() && !result.is_given_up() && !is_left_out;
        if is_judged && !result.is_unreachable() && result.get("failed").is_none() {
            result.set("failed", false);
        }
        if let Some(args) = args.as_ref().filter(|_| result.changed()) {
            let target = builtin::target(self.task.short_action(), |name| args.contains_key(name));
            result = result.with_target(target.and_then(|name| args.get(name)?.as_str()));
        }
        if result.failed() {
            result = result.with_args(args);
        }
        ItemOutcome { result, delegate, context: context.clone(), ends_loop }
    }

    /// Result of a failure. The report about a nested variable leads to the task that uses it.
    pub(super) fn failed(&self, failure: Failure) -> TaskResult {
        let failure = match failure {
            Failure::Evaluation(error) => Failure::Evaluation(Box::new(error.with_task(&self.task.span))),
            other => other,
        };
        failure.into_result(self.shared.run.settings.compat)
    }

    /// Evaluates the conditions. Returns the skipped result if one is false.
    pub(super) fn condition(&self, context: &Context) -> Result<Option<TaskResult>, Failure> {
        for condition in self.task.when.iter() {
            match context.condition(condition) {
                Ok(true) => {}
                Ok(false) => {
                    let shown = condition
                        .as_bool()
                        .map(Value::from)
                        .unwrap_or_else(|| Value::from(condition.scalar_text().unwrap_or_default()));
                    return Ok(Some(TaskResult::skipped(CONDITION_FALSE).with("false_condition", shown)));
                }
                Err(error) => return self.unknown_or(error, "its condition").map(Some),
            }
        }
        Ok(None)
    }

    /// In check mode, skips a task that depends on an unknown result instead of failing it.
    pub(super) fn unknown_or(
        &self,
        error: windlass_template::Error,
        part: &'static str,
    ) -> Result<TaskResult, Failure> {
        match error.kind() {
            ErrorKind::Unknown { reason } => {
                let mut skipped = TaskResult::skipped(&format!("not known in check mode: {part} depends on {reason}"));
                skipped.set_predicted();
                if self.shared.run.settings.plans {
                    skipped.set_unknown(depends(part, &error));
                    skipped = unknown::with_facts(&self.task, skipped);
                }
                Ok(skipped)
            }
            _ => Err(error.into()),
        }
    }

    /// Skipped result for a part that depends on something unknown; gives back any other failure.
    pub(super) fn unknown_part(&self, failure: Failure, part: &'static str) -> Result<TaskResult, Failure> {
        match failure {
            Failure::Evaluation(error) => self.unknown_or(*error, part),
            other => Err(other),
        }
    }

    /// Whether a plan cannot know if the task would fail: it fails on the present state of the host, which earlier
    /// tasks would change.
    fn fails_early(&self, result: &TaskResult) -> bool {
        self.shared.run.settings.plans
            && result.failed()
            && !builtin::is_here(self.task.short_action())
            && self.world.host(&self.host).is_changed
    }

    async fn prepare_and_run(
        &self,
        context: &Context,
        number: usize,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> (Result<TaskResult, Failure>, Option<Arguments>) {
        match self.prepare(context, delegate, ahead) {
            Err(failure) => (Err(failure), None),
            Ok(Prepared::Skipped(result)) => (Ok(result), None),
            Ok(Prepared::Ready { mut action, retries, poll }) => {
                action.flights = self.flight.as_ref().map(|task| Flights::new(task, number));
                let sent = self.record_sent(context, Some(&action));
                let outcome = self.attempts(&action, retries, poll).await;
                self.await_record(sent, &outcome).await;
                (outcome.or_else(|failure| self.unknown_part(failure, "an argument")), Some(action.args))
            }
        }
    }

    /// First half of a task sent ahead: runs the action without evaluating `changed_when` or `failed_when`.
    pub(super) async fn act(&self, ahead: &Arc<Ahead>) -> Acted {
        let mut nobody = None;
        let context = self.scope();
        match self.prepare(&context, &mut nobody, Some(ahead)) {
            Err(failure) => Acted::Failed(failure, None),
            Ok(Prepared::Skipped(result)) => Acted::Skipped(result),
            Ok(Prepared::Ready { action, .. }) => {
                let sent = self.record_sent(&context, Some(&action));
                let outcome = action::run(&action).await;
                self.await_record(sent, &outcome).await;
                match outcome {
                    Err(failure) => match self.unknown_part(failure, "an argument") {
                        Ok(skipped) => Acted::Skipped(skipped),
                        Err(failure) => Acted::Failed(failure, Some(action.args)),
                    },
                    Ok(result) => Acted::Done { result, check: action.check, args: Some(action.args) },
                }
            }
        }
    }

    /// Second half, with the variables known when the task's turn has come.
    pub(super) fn judged(&self, context: &Context, acted: Acted) -> ItemOutcome {
        let (outcome, args) = match acted {
            Acted::Failed(failure, args) => (Err(failure), args),
            Acted::Skipped(result) => (Ok(result), None),
            Acted::Done { mut result, check, args } => {
                let judge = self.judge();
                let context = match judge.has_verdict() {
                    true => self.placement().with_connection(context, &self.host),
                    false => context.clone(),
                };
                judge.weigh(&context, check, None, &mut result);
                (Ok(result), args)
            }
        };
        self.outcome(context, None, outcome, args)
    }

    /// End of the task's `timeout`, for programs that its lookups start.
    fn end(&self, context: &Context) -> Option<Instant> {
        let seconds = match self.task.keyword("timeout") {
            None => self.shared.run.settings.task_timeout,
            // `prepare` reports an invalid value.
            Some(node) => given(context, node).ok().flatten().as_ref().and_then(number).unwrap_or_default(),
        };
        (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds))
    }

    /// Evaluates everything the action needs.
    fn prepare(
        &self,
        context: &Context,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> Result<Prepared, Failure> {
        let start = Instant::now();
        let prepared = child::until(self.end(context), || self.evaluate(context, delegate, ahead))
            .or_else(|failure| self.unknown_part(failure, "a keyword").map(Prepared::Skipped));
        if self.shared.run.settings.output.takes_times() {
            let _ = self.events.send(Event::Spent {
                host: Arc::clone(&self.host),
                task: Arc::clone(&self.task),
                start,
                on: Spending::Template(start.elapsed()),
            });
        }
        prepared
    }

    fn evaluate(
        &self,
        context: &Context,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> Result<Prepared, Failure> {
        let plain = context;
        let placement = self.placement();
        let context = &placement.with_connection(plain, &self.host);
        if let Some(skipped) = self.condition(context)? {
            return Ok(Prepared::Skipped(skipped));
        }
        *delegate = placement.delegate(context)?;
        let context = &match delegate {
            None => context.clone(),
            Some(other) => placement.with_delegate(plain, other),
        };
        let args = match self.arguments(context) {
            Ok(args) => args,
            Err(failure) => return self.unknown_part(failure, "an argument").map(Prepared::Skipped),
        };
        // `set_fact` and `add_host` show their arguments before the variables exist.
        let passwords = args.iter().filter(|(name, _)| secrecy::is_password(name));
        passwords.for_each(|(_, password)| secrecy::learn_value(&self.shared.secrets, password));
        let args = action::checked(self.task.short_action(), &self.task.action, args)?;
        self.check_notify(context)?;
        // A misspelt word must not count as false: the task would run as the wrong user, or show a secret.
        for name in TASK_BOOLEANS.iter() {
            self.flag(context, name)?;
        }
        let task = &self.task;
        let own = |name: &str| whole(context, name, task.keywords.get(name));
        let settings = &self.shared.run.settings;
        // The errors of connection variables do not say which value is unknown.
        for node in CONNECTION.iter().filter(|_| settings.check).filter_map(|name| placement.keyword(context, name)) {
            given(context, node).map(drop).or_else(|error| if error.is_unknown() { Err(error) } else { Ok(()) })?;
        }
        let connection = self.connection(plain, delegate.as_deref(), ahead)?;
        let become_password = connection.become_user.iter().filter_map(|user| user.password.as_ref());
        for secret in connection.target.password.iter().chain(become_password) {
            self.shared.secrets.add_password(secret.expose());
        }
        let check = self.flag(context, "check_mode")?.unwrap_or(settings.check);
        let detach = own("async")?.unwrap_or(0);
        if detach > 0 && !builtin::supports_async(task.short_action()) {
            return Err(Failure::Failed(format!("This action ({}) does not support async.", task.action)));
        }
        let timeout = whole(context, "timeout", task.keyword("timeout"))?.unwrap_or(settings.task_timeout);
        let action = ActionContext {
            action: task.short_action().to_owned(),
            task: Arc::clone(task),
            host: Arc::clone(&self.host),
            context: context.clone(),
            world: Arc::clone(&self.world),
            args,
            connection,
            check,
            diff: self.flag(context, "diff")?.unwrap_or(settings.diff),
            environment: self.environment(context)?,
            timeout,
            detach,
            no_log: self.display().no_log(context)?,
            files: Arc::clone(&self.shared.files),
            modules: Arc::clone(&self.shared.loader.modules),
            plugins: Arc::clone(&self.shared.plugins),
            pool: Arc::clone(&self.shared.pool),
            events: self.events.clone(),
            secrets: self.shared.secrets.clone(),
            ahead: ahead.cloned(),
            flights: None,
            lock_wait: (timeout > 0).then(Arc::default),
        };
        let poll = own("poll")?.unwrap_or(settings.poll_interval);
        Ok(Prepared::Ready { action: Box::new(action), retries: own("retries")?, poll })
    }

    /// Value of a keyword that is true or false, if it is given.
    fn flag(&self, context: &Context, name: &str) -> Result<Option<bool>, Failure> {
        let Some(node) = self.placement().keyword(context, name) else { return Ok(None) };
        given(context, node)?.map(|value| boolean(name, &value).map_err(Failure::Failed)).transpose()
    }
}

/// Value of a keyword that is a number, if it is given.
fn whole(context: &Context, name: &str, node: Option<&Node>) -> Result<Option<u64>, Failure> {
    let Some(node) = node else { return Ok(None) };
    let Some(value) = given(context, node)? else { return Ok(None) };
    number(&value).map(Some).ok_or_else(|| {
        Failure::Failed(format!("the field '{name}' has an invalid value ({value}): it must be a number"))
    })
}
