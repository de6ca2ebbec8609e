//! `pause`: waits on the controller, once for all hosts.

use std::io::{BufRead as _, IsTerminal as _};
use std::time::{Duration, Instant};

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;
use crate::output::{Event, Hidden, Question};

/// `pause`: waits for a time, or until the user answers.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let echo = context.flag("echo").unwrap_or(true);
    let number = |name: &str| -> Result<Option<u64>, Failure> {
        match context.arg(name) {
            None => Ok(None),
            Some(value) => crate::vars::number(value)
                .map(Some)
                .ok_or_else(|| Failure::Failed(format!("non-integer value given for prompt duration: {name}={value}"))),
        }
    };
    let seconds = number("seconds")?
        .or(number("minutes")?.map(|minutes| minutes.saturating_mul(60)))
        .map(|seconds| seconds.max(1));
    let prompt = context.text("prompt");
    if seconds.is_none() && context.world.run.settings.plans {
        // Only the run that carries out the plan has something to wait for.
        let sentence = format!("a plan does not wait for the `pause` at {}", context.task.span);
        let _ = context.events.send(Event::Warning(sentence));
        return Ok(TaskResult::skipped("a plan does not ask"));
    }
    let (start, began) = (Instant::now(), windlass_template::text(&windlass_template::about::now()));
    let mut answer = String::new();
    if let Some(seconds) = seconds {
        let _ = context.events.send(Event::Notice(format!("Pausing for {seconds} seconds")));
        if let Some(prompt) = &prompt {
            let _ = context.events.send(Event::Notice(prompt.clone()));
        }
        if !context.check {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    } else {
        let _question = Question::begin();
        let text = prompt.unwrap_or_else(|| "Press enter to continue, Ctrl+C to interrupt".to_owned());
        let is_interactive = std::io::stdin().is_terminal();
        let hidden = (is_interactive && !echo).then(Hidden::begin);
        let _ = context.events.send(Event::Notice(format!("[{}]\n{text}:", context.task.short_action())));
        if is_interactive {
            let read = tokio::task::spawn_blocking(move || {
                if let Some(hidden) = hidden {
                    return hidden.read().unwrap_or_default();
                }
                let mut line = String::new();
                let _ = std::io::stdin().lock().read_line(&mut line);
                line
            });
            answer = read.await.unwrap_or_default().trim_end_matches(['\r', '\n']).to_owned();
        } else {
            let _ = context
                .events
                .send(Event::Warning("Not waiting for response to prompt as stdin is not interactive".to_owned()));
        }
    }
    let waited = start.elapsed();
    let (amount, unit) = if context.arg("minutes").is_some() {
        (waited.as_secs_f64() / 60.0, "minutes")
    } else {
        (waited.as_secs_f64(), "seconds")
    };
    let mut result =
        TaskResult::unchanged().with("rc", 0).with("stderr", "").with("echo", echo).with("user_input", answer);
    result.set("delta", waited.as_secs());
    result.set("start", began);
    result.set("stop", windlass_template::text(&windlass_template::about::now()));
    result
        .set("stdout", format!("Paused for {} {unit}", windlass_yaml::python_float((amount * 100.0).round() / 100.0)));
    Ok(result)
}
