//! Waits for background jobs on a host: `async` with `poll`.

use std::sync::Arc;
use std::time::Duration;

use super::execute::TaskOnHost;
use crate::action::{ActionContext, Failure};
use crate::outcome::TaskResult;
use crate::output::{Event, JobState};

impl TaskOnHost {
    /// Polls the job every `poll` seconds until it ends or its time limit passes.
    pub(super) async fn wait_for(
        &self,
        action: &ActionContext,
        started: &TaskResult,
        poll: u64,
    ) -> Result<TaskResult, Failure> {
        let Some(job) = started.text("ansible_job_id") else {
            return Err("No job id was returned by the async task".into());
        };
        let result = self.polled(action, job, poll).await?;
        let state = if result.failed() { JobState::Failed } else { JobState::Ok };
        self.report(job, state);
        Ok(result)
    }

    async fn polled(&self, action: &ActionContext, job: &str, poll: u64) -> Result<TaskResult, Failure> {
        let limit = action.detach;
        let mut left = limit;
        let mut last = TaskResult::new();
        while left > 0 {
            tokio::time::sleep(Duration::from_secs(poll)).await;
            left = left.saturating_sub(poll);
            match action.job(job, "status").await {
                Ok(answer) if answer.is("finished") || answer.failed() => {
                    // The job's result is known; failing to delete its status file is not a reason to fail.
                    let _ = action.job(job, "cleanup").await;
                    return Ok(answer);
                }
                Ok(answer) => {
                    let shown = |key: &str| answer.get(key).map(windlass_template::text).unwrap_or_default();
                    let state = JobState::Polled { started: shown("started"), finished: shown("finished") };
                    self.report(job, state);
                    last = answer;
                }
                // The job does not depend on the connection: until the time limit, each poll may open a new one.
                Err(failure) if left == 0 => return Err(failure),
                Err(_) => {}
            }
        }
        let message = format!("async task did not complete within the requested time - {limit}s");
        Ok(TaskResult::failure(message).with("async_result", last.to_value()))
    }

    fn report(&self, job: &str, state: JobState) {
        let _ = self.events.send(Event::Job {
            task: Arc::clone(&self.task),
            host: self.host.to_string(),
            id: job.to_owned(),
            state,
        });
    }
}
