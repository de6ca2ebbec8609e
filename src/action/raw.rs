//! `raw`: a command for the login shell of hosts that cannot run the executor.

use windlass_modules::process::KEEP;

use tokio::sync::mpsc;

use super::{ActionContext, Failure};
use crate::executor::{RawCommand, RawOutput, TaskEvent};
use crate::outcome::TaskResult;

/// Bytes kept of a stream that exceeds the limit.
const SHOWN: usize = 8 << 10;

/// `raw`: runs a command directly on the connection, for hosts that cannot run the executor.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.check {
        return Ok(TaskResult::unchanged().with("skipped", true));
    }
    let command = context.text("_raw_params").unwrap_or_default();
    let assignments: Vec<String> =
        context.environment.iter().map(|(name, value)| format!("{name}={}", shell_words::quote(value))).collect();
    let command = RawCommand {
        command: if assignments.is_empty() { command } else { format!("export {}; {command}", assignments.join(" ")) },
        executable: context.text("executable"),
        ..RawCommand::default()
    };
    let output = send(context, command).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut result = TaskResult::new().with("changed", true).with("rc", output.status);
    if output.left_out > 0 {
        return Ok(overlong(result, &output).with_lines());
    }
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    result.set("stdout", stdout);
    result.set("stderr", stderr);
    if output.status != 0 {
        result.set("failed", true);
        result.set("msg", "non-zero return code");
    }
    Ok(result.with_lines())
}

/// Runs a command as the task's user and within its time limit.
pub(super) async fn send(context: &ActionContext, command: RawCommand) -> Result<RawOutput, Failure> {
    let command = RawCommand {
        become_user: context.connection.become_user.clone(),
        timeout: (context.timeout > 0).then(|| std::time::Duration::from_secs(context.timeout)),
        ..command
    };
    let target = std::sync::Arc::new(context.connection.target.clone());
    let (events, mut arriving) = mpsc::channel(16);
    let listener = context.listener();
    let mut running = std::pin::pin!(context.pool.raw(&target, &command, Some(&events)));
    loop {
        tokio::select! {
            output = &mut running => return Ok(output?),
            Some(event) = arriving.recv() => if matches!(event, TaskEvent::Silent(_)) { listener(event) },
        }
    }
}

/// Result of a command whose output exceeds the limit. The task fails, because truncated output can mislead.
fn overlong(mut result: TaskResult, output: &RawOutput) -> TaskResult {
    let beginning = |bytes: &[u8]| String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned();
    let size = output.left_out + (output.stdout.len() + output.stderr.len()) as u64;
    result.set("stdout", beginning(&output.stdout));
    result.set("stderr", beginning(&output.stderr));
    result.set("failed", true);
    let message = format!(
        "The command ran, but its output of {size} bytes is too long: a result holds at most {KEEP} bytes each of \
         stdout and stderr. Only the beginning is kept. Redirect the output to a file on the host."
    );
    result.set("msg", message);
    result
}
