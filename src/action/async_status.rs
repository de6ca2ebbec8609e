//! `async_status`: the state of a background job, with the keys that Ansible always returns.

use windlass_template::{Compat, Value};

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;

/// `async_status`: reports the state of a background job.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let job = context.text("jid").unwrap_or_default();
    context.job(&job, &context.text("mode").unwrap_or_else(|| "status".to_owned())).await
}

/// Adds the keys that Ansible always returns for a job, with the types of the emulated release.
pub(super) fn shaped(answer: TaskResult, compat: Compat) -> TaskResult {
    let mut answer = super::foreign::completed(answer);
    for stream in ["stdout", "stderr"] {
        let text = answer.text(stream).unwrap_or_default().to_owned();
        answer.set(stream, text);
    }
    let mut answer = answer.with_lines();
    started_and_finished(&mut answer, compat);
    answer
}

/// Gives `started` and `finished` the types of the followed version of ansible-core.
pub(super) fn started_and_finished(result: &mut TaskResult, compat: Compat) {
    for key in ["started", "finished"] {
        let holds = result.is(key);
        result.set(key, if compat.counts_job_states() { Value::from(u8::from(holds)) } else { Value::from(holds) });
    }
}
