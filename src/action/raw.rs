use super::{ActionContext, Failure};
use crate::executor::RawCommand;
use crate::strategy::TaskResult;

/// `raw`: a command on the connection itself, for hosts that cannot run the executor.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.check {
        return Ok(TaskResult::skipped("raw is not run in check mode"));
    }
    let command = context.text("_raw_params").unwrap_or_default();
    let assignments: Vec<String> =
        context.environment.iter().map(|(name, value)| format!("{name}={}", shell_words::quote(value))).collect();
    let command = RawCommand {
        command: if assignments.is_empty() { command } else { format!("export {}; {command}", assignments.join(" ")) },
        executable: context.text("executable"),
        become_user: context.connection.become_user.clone(),
        timeout: (context.timeout > 0).then(|| std::time::Duration::from_secs(context.timeout)),
        ..RawCommand::default()
    };
    let target = std::sync::Arc::new(context.connection.target.clone());
    let output = context.pool.raw(&target, &command, None).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = |text: &str| text.lines().map(windlass_template::Value::from).collect::<windlass_template::Value>();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let mut result = TaskResult::ok(true).with("rc", output.status);
    result.set("stdout_lines", lines(&stdout));
    result.set("stderr_lines", lines(&stderr));
    result.set("stdout", stdout);
    result.set("stderr", stderr);
    if output.status != 0 {
        result.set("failed", true);
        result.set("msg", "non-zero return code");
    }
    Ok(result)
}
