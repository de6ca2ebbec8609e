//! Errors of the lab, worded for the user at the terminal.

use std::path::{Path, PathBuf};

use crate::requirements::Missing;

/// An error of the lab. The message names the failure, its place and, if known, a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks requirements of the lab.
    #[error("This machine cannot run the lab:\n{}", list(.0))]
    Requirements(Vec<Missing>),
    /// A program failed.
    #[error("Cannot {doing}: `{command}` ended with {status}{}", output(.stderr))]
    Command {
        /// Purpose of the program, completing the phrase "Cannot ...".
        doing: String,
        /// The command line.
        command: String,
        /// Exit status.
        status: String,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// A file operation failed.
    #[error("Cannot {doing} {path}: {source}.", path = .path.display())]
    Io {
        /// The operation, completing the phrase "Cannot ...".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// An option has an impossible value.
    #[error("{0}")]
    Invalid(String),
    /// A wait exceeded its deadline.
    #[error("Waited {seconds} s for {what} without success.{}", after_space(.detail))]
    Deadline {
        /// The awaited event.
        what: String,
        /// The deadline, in seconds.
        seconds: u64,
        /// The state instead; may be empty.
        detail: String,
    },
    /// A host stopped while it was booting.
    #[error("The host {node} stopped while booting. The end of its console ({console}):\n{tail}", console = .console.display())]
    Died {
        /// The host.
        node: String,
        /// File with its console output.
        console: PathBuf,
        /// Last lines of that file.
        tail: String,
    },
    /// A host booted, but some of its units failed.
    #[error(
        "The host {node} booted in state `{state}`: {units}. See `journalctl -b` on it; `windlass lab down` removes the lab."
    )]
    Degraded {
        /// The host.
        node: String,
        /// Output of `systemctl is-system-running`.
        state: String,
        /// The failed units.
        units: String,
    },
    /// A lab with other options is running.
    #[error("A lab with other options is up in {directory} ({differences}). Remove it with `windlass lab down` first.", directory = .directory.display())]
    Different {
        /// Directory of that lab.
        directory: PathBuf,
        /// Options that differ, with both values.
        differences: String,
    },
    /// There is no lab.
    #[error("There is no lab in {directory}. Start one with `windlass lab up`.", directory = .0.display())]
    NoLab(PathBuf),
    /// An earlier `up` did not finish.
    #[error("The lab in {directory} was not finished. Run `windlass lab up` again, or `windlass lab down` to remove what there is.", directory = .0.display())]
    Unfinished(PathBuf),
    /// No host has this name.
    #[error("The lab has no host named {name}. Its hosts are {known}.")]
    UnknownNode {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// A host is in the wrong state for the operation.
    #[error("The host {node} is {state} already.")]
    Already {
        /// The host.
        node: String,
        /// `running` or `stopped`.
        state: &'static str,
    },
}

impl Error {
    /// Adds the operation and its path to an operating system error.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(|item| format!("  - {item}")).collect::<Vec<_>>().join("\n")
}

fn output(stderr: &str) -> String {
    if stderr.trim().is_empty() { ".".to_owned() } else { format!(":\n{}", stderr.trim_end()) }
}

fn after_space(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" {detail}") }
}
