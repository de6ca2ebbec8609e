//! `reboot` and `wait_for_connection`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

/// `wait_for_connection`: until the host answers a module.
pub(super) async fn wait_for_connection(context: &ActionContext) -> Result<TaskResult, Failure> {
    let seconds = |name: &str, default: u64| context.arg(name).and_then(crate::vars::number).unwrap_or(default);
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds("delay", 0))).await;
    let pause = Duration::from_secs(seconds("sleep", 1));
    until_answering(context, start, Duration::from_secs(seconds("timeout", 600)), pause, None).await?;
    Ok(TaskResult::ok(false).with("elapsed", start.elapsed().as_secs()))
}

/// `reboot`: the boot id tells whether the host has really been down.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.check {
        return Ok(TaskResult::ok(true).with("rebooted", true).with("elapsed", 0));
    }
    let seconds = |name: &str, default: u64| context.arg(name).and_then(crate::vars::number).unwrap_or(default);
    let before = boot_id(context).await?;
    let command =
        context.text("reboot_command").unwrap_or_else(|| "systemctl reboot || shutdown -r now || reboot".to_owned());
    let delay = seconds("pre_reboot_delay", 0);
    let args = Value::from_pairs([(
        "_raw_params",
        Value::from(format!("nohup sh -c 'sleep {}; {command}' >/dev/null 2>&1 &", delay.max(1))),
    )]);
    let start = Instant::now();
    context.module("ansible.builtin.shell", args, Vec::new()).await?;
    tokio::time::sleep(Duration::from_secs(delay + 1 + seconds("post_reboot_delay", 0))).await;
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
    Ok(TaskResult::ok(true).with("rebooted", true).with("elapsed", start.elapsed().as_secs()))
}

async fn boot_id(context: &ActionContext) -> Result<String, Failure> {
    let args = Value::from_pairs([("_raw_params", Value::from("cat /proc/sys/kernel/random/boot_id"))]);
    let result = context.module("ansible.builtin.command", args, Vec::new()).await?;
    Ok(result.text("stdout").unwrap_or_default().trim().to_owned())
}

/// Tries until the host answers, with another boot id than `before` if one is given.
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
            Err(Failure::Evaluation(error)) => return Err(Failure::Evaluation(error)),
        };
        if start.elapsed() > limit {
            return Err(
                format!("timed out after {} seconds waiting for {}: {last}", limit.as_secs(), context.host).into()
            );
        }
        tokio::time::sleep(pause).await;
    }
}
