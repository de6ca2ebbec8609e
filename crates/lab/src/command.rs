//! Runs external programs.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::Error;

/// Number of output lines that an error repeats.
const LINES_IN_ERROR: usize = 15;

/// Runs a program and returns its standard output. On failure, the error starts with "Cannot `doing`".
pub(crate) fn run(doing: &str, program: &str, arguments: &[&str]) -> Result<String, Error> {
    run_with_input(doing, program, arguments, "")
}

/// Like [`run`], with `input` on the program's standard input.
pub(crate) fn run_with_input(doing: &str, program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = output_of(doing, &mut command, input)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        doing: doing.to_owned(),
        command: display(&command),
        status: output.status.to_string(),
        stderr: last_lines(&String::from_utf8_lossy(&output.stderr)),
    })
}

/// Runs a command to its end and returns its output, whatever its status.
pub(crate) fn output_of(doing: &str, command: &mut Command, input: &str) -> Result<Output, Error> {
    let failed = |command: &Command, error: std::io::Error| Error::Command {
        doing: doing.to_owned(),
        command: display(command),
        status: "an error before it started".to_owned(),
        stderr: error.to_string(),
    };
    command.env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.spawn().map_err(|error| failed(command, error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that exits before reading all its input reports the reason by its status.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().map_err(|error| failed(command, error))
}

/// The command line as a user would type it, for messages.
pub(crate) fn display(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let start = lines.len().saturating_sub(LINES_IN_ERROR);
    lines.get(start..).unwrap_or_default().join("\n")
}
