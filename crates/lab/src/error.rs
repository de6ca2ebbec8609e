//! What can go wrong, as sentences for the person at the terminal.

use std::path::{Path, PathBuf};

use crate::requirements::Missing;

/// An error of the lab. Every message says what failed, where, and what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something the lab needs.
    #[error("This machine cannot run the lab:\n{}", list(.0))]
    Requirements(Vec<Missing>),
    /// A program ended with an error.
    #[error("Cannot {doing}: `{command}` ended with {status}{}", output(.stderr))]
    Command {
        /// What the program was run for, as the end of "Cannot ...".
        doing: String,
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The last lines it wrote to standard error.
        stderr: String,
    },
    /// A file operation failed.
    #[error("Cannot {doing} {path}: {source}.", path = .path.display())]
    Io {
        /// What was tried, as the end of "Cannot ...".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// An option has a value that cannot work.
    #[error("{0}")]
    Invalid(String),
    /// A wait reached its deadline.
    #[error("Waited {seconds} s for {what}, in vain.{}", after_space(.detail))]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// What was seen instead; may be empty.
        detail: String,
    },
    /// A host stopped while it was booting.
    #[error("The host {node} stopped while booting. The end of its console ({console}):\n{tail}", console = .console.display())]
    Died {
        /// The host.
        node: String,
        /// The file with everything it printed.
        console: PathBuf,
        /// The last lines of that file.
        tail: String,
    },
    /// A host booted, but some of its units failed.
    #[error(
        "The host {node} booted in state `{state}`: {units}. See `journalctl -b` on it; `windlass lab down` removes the lab."
    )]
    Degraded {
        /// The host.
        node: String,
        /// The answer of `systemctl is-system-running`.
        state: String,
        /// The failed units.
        units: String,
    },
    /// A lab with other options is up.
    #[error("A lab with other options is up in {directory} ({differences}). Remove it with `windlass lab down` first.", directory = .directory.display())]
    Different {
        /// The directory of that lab.
        directory: PathBuf,
        /// What differs.
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
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A host is not in the state that the operation needs.
    #[error("The host {node} is {state} already.")]
    Already {
        /// The host.
        node: String,
        /// `running` or `stopped`.
        state: &'static str,
    },
}

impl Error {
    /// Adds what was tried and where to an operating system error.
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
