//! `reboot` and `wait_for_connection`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::connection::Kind;
use crate::outcome::TaskResult;

/// `wait_for_connection`: waits until the host answers a module.
pub(super) async fn wait_for_connection(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.check {
        return Ok(TaskResult::unchanged().with("skipped", true));
    }
    let seconds = |name: &str, default: u64| context.arg(name).and_then(crate::vars::number).unwrap_or(default);
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds("delay", 0))).await;
    let pause = Duration::from_secs(seconds("sleep", 1));
    until_answering(context, start, Duration::from_secs(seconds("timeout", 600)), pause, None).await?;
    Ok(TaskResult::unchanged().with("elapsed", start.elapsed().as_secs()))
}

/// `reboot`: restarts the host; a new boot id proves the restart.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.connection.target.kind == Kind::Local {
        let refused = TaskResult::failure("Running reboot with local connection would reboot the control node.");
        return Ok(refused.with("elapsed", 0).with("rebooted", false));
    }
    if context.connection.target.kind == Kind::Exec {
        return Err("a container has no system of its own to restart; restart it with the program that runs it".into());
    }
    if context.check {
        return Ok(TaskResult::new().with("changed", true).with("rebooted", true).with("elapsed", 0));
    }
    let seconds = |name: &str, default: u64| context.arg(name).and_then(crate::vars::number).unwrap_or(default);
    let before = boot_id(context).await?;
    let command =
        context.text("reboot_command").unwrap_or_else(|| "systemctl reboot || shutdown -r now || reboot".to_owned());
    let delay = seconds("pre_reboot_delay", 0);
    let message = context.text("msg").unwrap_or_else(|| "Reboot initiated by Ansible".to_owned());
    let script = format!("sleep {}; wall {}; {command}", delay.max(1), shell_words::quote(&message));
    let line = format!("nohup sh -c {} >/dev/null 2>&1 &", shell_words::quote(&script));
    let args = Value::from_pairs([("_raw_params", Value::from(line))]);
    let start = Instant::now();
    context.module("ansible.builtin.shell", args, Vec::new()).await?;
    tokio::time::sleep(Duration::from_secs(delay.saturating_add(1).saturating_add(seconds("post_reboot_delay", 0))))
        .await;
    until_answering(
        context,
        start,
        Duration::from_secs(seconds("reboot_timeout", 600)),
        Duration::from_secs(2),
        Some(&before),
    )
    .await?;
    if let Some(test) = context.text("test_command") {
        let args = Value::from_pairs([("_raw_params", Value::from(test))]);
        let result = context.module("ansible.builtin.command", args, Vec::new()).await?;
        if result.failed() {
            return Err(format!(
                "the host is up again, but test_command fails: {}",
                result.text("msg").unwrap_or_default()
            )
            .into());
        }
    }
    Ok(TaskResult::new().with("changed", true).with("rebooted", true).with("elapsed", start.elapsed().as_secs()))
}

async fn boot_id(context: &ActionContext) -> Result<String, Failure> {
    let command = context.text("boot_time_command").unwrap_or_else(|| "cat /proc/sys/kernel/random/boot_id".to_owned());
    let args = Value::from_pairs([("_raw_params", Value::from(command))]);
    let result = context.module("ansible.builtin.command", args, Vec::new()).await?;
    if result.failed() {
        return Err(format!("the boot id cannot be read: {}", result.text("msg").unwrap_or_default()).into());
    }
    Ok(result.text("stdout").unwrap_or_default().trim().to_owned())
}

/// Retries until the host answers, with a boot id other than `before` if one is given.
async fn until_answering(
    context: &ActionContext,
    start: Instant,
    limit: Duration,
    pause: Duration,
    before: Option<&str>,
) -> Result<(), Failure> {
    let target = Arc::new(context.connection.target.clone());
    loop {
        context.pool.reset(&target).await;
        let answer = boot_id(context).await;
        let last = match answer {
            Ok(id) if before.is_none_or(|before| before != id) => return Ok(()),
            Ok(_) => "it has not gone down yet".to_owned(),
            Err(Failure::Unreachable(message) | Failure::Failed(message)) => message,
            Err(Failure::Error(error)) => error.what_and_where(),
            Err(failure @ (Failure::Evaluation(_) | Failure::Postponed)) => return Err(failure),
        };
        if start.elapsed() > limit {
            return Err(
                format!("timed out after {} seconds waiting for {}: {last}", limit.as_secs(), context.host).into()
            );
        }
        tokio::time::sleep(pause).await;
    }
}
