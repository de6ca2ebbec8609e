//! Runs the action of a task with its retries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_bounds::child;
use windlass_template::Value;

use super::display::censored;
use super::execute::TaskOnHost;
use super::judge::depends;
use crate::action::{self, ActionContext, Failure};
use crate::builtin;
use crate::outcome::TaskResult;
use crate::output::Event;
use crate::vars::given;

impl TaskOnHost {
    /// Runs the action once, and waits for its job if it has one.
    async fn attempt(&self, action: &ActionContext, poll: u64) -> Result<TaskResult, Failure> {
        let result = match action.timeout {
            0 => action::run(action).await?,
            seconds => match self.within(action, seconds).await {
                Some(result) => result?,
                None => return Ok(timed_out(&action.action, seconds)),
            },
        };
        if action.detach == 0 || result.failed() || result.is_skipped() {
            return Ok(result);
        }
        if poll == 0 {
            return Ok(action::started(result, action.world.run.settings.compat));
        }
        Box::pin(self.wait_for(action, &result, poll)).await
    }

    /// Runs the action for at most this time, not counting its waits for locks. `None` if it takes longer.
    async fn within(&self, action: &ActionContext, seconds: u64) -> Option<Result<TaskResult, Failure>> {
        let begin = Instant::now();
        let waited = || action.lock_wait.as_ref().map(|wait| wait.so_far()).unwrap_or_default();
        let before = waited();
        // A host may claim to wait for ever.
        let longest = Duration::from_secs(self.shared.run.settings.lock.timeout);
        let end = || begin + Duration::from_secs(seconds) + waited().saturating_sub(before).min(longest);
        let mut running = std::pin::pin!(child::Until::new(end, action::run(action)));
        // The executor enforces the timeout of its modules; the controller gives up a little later.
        let margin = Duration::from_secs(if builtin::is_here(&action.action) { 0 } else { 5 });
        let mut last = end() + margin;
        loop {
            if let Ok(result) = tokio::time::timeout_at(last.into(), running.as_mut()).await {
                return Some(result);
            }
            let later = end() + margin;
            if later <= Instant::now() {
                return None;
            }
            last = later;
        }
    }

    /// Runs the action, and repeats it until `until` holds.
    pub(super) async fn attempts(
        &self,
        action: &ActionContext,
        retries: Option<u64>,
        poll: u64,
    ) -> Result<TaskResult, Failure> {
        let (task, context) = (&self.task, &action.context);
        let until = task.keywords.list("until");
        let retries = match (until.is_empty(), retries) {
            (true, None) => 0,
            (false, None) => 3,
            (_, Some(retries)) => retries,
        };
        let delay = match task.keywords.get("delay") {
            None => 5.0,
            Some(node) => match given(context, node)? {
                None => 5.0,
                Some(value) => crate::vars::float(&value).ok_or_else(|| {
                    Failure::Failed(format!("the field 'delay' has an invalid value ({value}): it must be a number"))
                })?,
            },
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut result = self.attempt(action, poll).await?;
            let judge = self.judge();
            judge.weigh(context, action.check, (retries > 0).then_some(attempt), &mut result);
            if retries == 0 || result.unknown().is_some() {
                return Ok(result);
            }
            let seen = judge.with_registered(context, &result);
            let done = if until.is_empty() {
                !result.failed()
            } else {
                let mut met = true;
                for condition in &until {
                    met = met
                        && match seen.condition(condition) {
                            Err(error) if self.shared.run.settings.plans && error.is_unknown() => {
                                result.set_unknown(depends("its until", &error));
                                return Ok(result);
                            }
                            holds => holds?,
                        };
                }
                met
            };
            if done || (action.check && result.is_skipped()) {
                return Ok(result);
            }
            if attempt > retries {
                result.set("attempts", retries);
                // Tasks see a failure, but only `failed_when` decides if the host fails.
                result.set("failed", true);
                return Ok(result);
            }
            result.set("retries", retries + 1);
            let _ = self.events.send(Event::Retry {
                of: Arc::clone(task),
                host: self.host.to_string(),
                task: crate::playbook::label::of_attempt(task, context),
                left: retries - attempt + 1,
                result: Arc::new(if action.no_log { censored(&result) } else { result }),
            });
            tokio::time::sleep(crate::vars::seconds(delay)).await;
        }
    }
}

/// Result of an action that exceeded its timeout.
fn timed_out(action: &str, seconds: u64) -> TaskResult {
    let message =
        format!("The {action} action failed to execute in the expected time frame ({seconds}) and was terminated");
    TaskResult::failure(message).with("timedout", Value::from_pairs([("period", seconds)]))
}
