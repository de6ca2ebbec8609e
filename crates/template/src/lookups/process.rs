//! Lookups of command output and of the environment.

use std::process::{Command, Stdio};

use minijinja::Value;
use windlass_bounds::child::{self, Limits};

use super::call::{Answer, Call};
use crate::limits::LONGEST_TEXT;
use crate::reads::Read;

/// Output of a command that runs in the playbook's directory.
fn output(call: &Call<'_>, command: &str) -> Result<String, crate::Error> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    let directory = &call.context.engine().options().playbook_dir;
    if directory.is_dir() {
        shell.current_dir(directory);
    }
    let limits = Limits { output: LONGEST_TEXT as u64, deadline: call.context.engine().options().commands.deadline };
    let ran = child::run(shell.stdin(Stdio::inherit()), limits);
    let child::Output { status, stdout, stderr } = ran.map_err(|error| {
        let remedy = match &error {
            child::Error::Late(_) => {
                "; `command_timeout` under [windlass] and the task's `timeout` set how long it may take"
            }
            _ => "",
        };
        call.error(format!("cannot run '{command}': {error}{remedy}"))
    })?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        let code = status.code().map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
        return Err(call.error(format!("ran '{command}', which failed with {code}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

pub(super) fn pipe(call: &Call<'_>) -> Answer {
    call.texts().iter().map(|command| Ok(Value::from(output(call, command)?.trim_end()))).collect()
}

pub(super) fn lines(call: &Call<'_>) -> Answer {
    let mut lines = Vec::new();
    for command in call.texts() {
        lines.extend(output(call, &command)?.lines().map(Value::from));
    }
    Ok(lines)
}

pub(super) fn env(call: &Call<'_>) -> Answer {
    let default = call.options.get("default");
    let read = |term: String| {
        let name = term.split_whitespace().next().unwrap_or_default();
        call.reads().note(Read::Environment(name.to_owned()));
        match (std::env::var(name), default) {
            (Ok(value), _) => Value::from(value),
            (Err(_), None) => Value::from(""),
            (Err(_), Some(default)) if crate::is_undefined(default) => {
                crate::undefined(format!("the environment variable {name}"))
            }
            (Err(_), Some(default)) => default.clone(),
        }
    };
    Ok(call.texts().into_iter().map(read).collect())
}
