//! `reboot` and `wait_for_connection`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_modules::{Check, Kind, Opt, Return, Spec};
use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::connection::Kind as ConnectionKind;
use crate::outcome::TaskResult;

pub(super) static WAIT_FOR_CONNECTION: Spec = Spec {
    name: "wait_for_connection",
    lists_unknown: true,
    summary: "Wait until a host is reachable",
    description: &[
        "Retries until the host answers. Use it at the start of a play on newly created machines, with `gather_facts: \
         false`.",
    ],
    options: &[
        Opt::new("delay", Kind::Int, "Seconds to wait before the first attempt.").default("0"),
        Opt::new("sleep", Kind::Int, "Seconds to wait between attempts.").default("1"),
        Opt::new("timeout", Kind::Int, "Seconds after which to give up.").default("600"),
        Opt::new(
            "connect_timeout",
            Kind::Int,
            "Accepted for compatibility; `timeout` of the connection limits each attempt.",
        )
        .default("5"),
    ],
    check: Check::None,
    examples: "- name: Wait for the new machines\n  ansible.builtin.wait_for_connection:\n    timeout: 300\n",
    returns: &[Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." }],
    ..Spec::EMPTY
};

pub(super) static REBOOT: Spec = Spec {
    name: "reboot",
    lists_unknown: true,
    summary: "Restart a host and wait until it is back",
    description: &[
        "The host counts as back when it answers with a new boot id, so a restart that never happened is detected. \
         The controller itself is never restarted.",
    ],
    options: &[
        Opt::new("pre_reboot_delay", Kind::Int, "Seconds to wait before the restart.")
            .aliases(&["pre_reboot_delay_sec"])
            .default("0"),
        Opt::new("post_reboot_delay", Kind::Int, "Seconds to wait before checking for the host.")
            .aliases(&["post_reboot_delay_sec"])
            .default("0"),
        Opt::new("reboot_timeout", Kind::Int, "Seconds after which to give up.")
            .aliases(&["reboot_timeout_sec"])
            .default("600"),
        Opt::new(
            "connect_timeout",
            Kind::Int,
            "Accepted for compatibility; `timeout` of the connection limits each attempt.",
        )
        .aliases(&["connect_timeout_sec"]),
        Opt::new("test_command", Kind::Str, "Command that must succeed after the restart."),
        Opt::new("msg", Kind::Str, "Message to logged-in users before the restart.")
            .default("\"Reboot initiated by Ansible\""),
        Opt::new("boot_time_command", Kind::Str, "Command whose output changes with a restart.")
            .default("\"cat /proc/sys/kernel/random/boot_id\""),
        Opt::new(
            "reboot_command",
            Kind::Str,
            "Command that restarts the host; by default systemd's, or else `shutdown`.",
        ),
        Opt::new(
            "search_paths",
            Kind::List(&Kind::Str),
            "Accepted for compatibility; commands are searched in the user's PATH on the host.",
        ),
    ],
    examples: "- name: Boot the new kernel\n  ansible.builtin.reboot:\n    reboot_timeout: 900\n  when: kernel_updated is changed\n",
    returns: &[
        Return { name: "rebooted", kind: "bool", when: "always", doc: "Whether the host was restarted." },
        Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." },
    ],
    ..Spec::EMPTY
};

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
    if context.connection.target.kind == ConnectionKind::Local {
        let refused = TaskResult::failure("Running reboot with local connection would reboot the control node.");
        return Ok(refused.with("elapsed", 0).with("rebooted", false));
    }
    if context.connection.target.kind == ConnectionKind::Exec {
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
