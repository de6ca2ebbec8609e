//! Lookups that ask the control machine: commands and the environment.

use std::io::{self, Read as _};
use std::process::{Command, ExitStatus, Stdio};

use minijinja::Value;

use super::call::{Answer, Call};
use crate::limits::LONGEST_TEXT;

/// What a command prints. It runs in the playbook's directory.
fn output(call: &Call<'_>, command: &str) -> Result<String, crate::Error> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    let directory = &call.context.engine().options().playbook_dir;
    if directory.is_dir() {
        shell.current_dir(directory);
    }
    let (status, stdout, stderr) =
        bounded(&mut shell).map_err(|error| call.error(format!("cannot run '{command}': {error}")))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        let code = status.code().map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
        return Err(call.error(format!("ran '{command}', which failed with {code}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Runs it and reads what it writes, as long as that is not too much.
fn bounded(command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    fn read(pipe: Option<impl io::Read>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |pipe| pipe.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes))?;
        match read > LONGEST_TEXT {
            true => Err(io::Error::other(format!("it writes more than {LONGEST_TEXT} bytes"))),
            false => Ok(bytes),
        }
    }
    let mut child = command.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || read(stderr));
    let output = read(stdout).inspect_err(|_| {
        let _ = child.kill();
    });
    let errors = errors.join().unwrap_or_else(|_| Err(io::Error::other("its errors could not be read")));
    let status = child.wait()?;
    Ok((status, output?, errors?))
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
