//! `raw`: a command for the login shell of hosts that cannot run the executor.

use windlass_modules::process::KEEP;
use windlass_modules::{Check, Kind, Opt, Return, Spec};

use tokio::sync::mpsc;

use super::{ActionContext, Failure};
use crate::executor::{RawCommand, RawOutput, TaskEvent};
use crate::outcome::TaskResult;

pub(super) static SPEC: Spec = Spec {
    name: "raw",
    summary: "Run a command without the executor",
    description: &[
        "The text goes unchanged to the login shell of the connection. Nothing is copied to the host, so it works on \
         appliances and on machines that cannot run the executor. Elsewhere prefer `command` and `shell`, which \
         report more and are safer.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "The command."),
        Opt::new("executable", Kind::Str, "Absolute path of the shell to run it with."),
    ],
    free_form: Some("_raw_params"),
    others: Some("Accepted for compatibility, without effect."),
    check: Check::None,
    examples: "- name: Query a switch\n  ansible.builtin.raw: show version\n  changed_when: false\n",
    returns: &[
        Return { name: "rc", kind: "int", when: "always", doc: "Exit status." },
        Return { name: "stdout", kind: "str", when: "always", doc: "Standard output." },
        Return { name: "stderr", kind: "str", when: "always", doc: "Standard error." },
        Return { name: "stdout_lines", kind: "list", when: "always", doc: "Standard output in lines." },
        Return { name: "stderr_lines", kind: "list", when: "always", doc: "Standard error in lines." },
    ],
    ..Spec::EMPTY
};

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
