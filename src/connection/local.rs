//! `ansible_connection: local`: this machine as a host. Its executor is this very program, so nothing is uploaded.

use tokio::process::Command;

use super::duplex::{process, process_unguarded};
use super::{Connection, Duplex, Error, Pending};
use crate::own_program::own_program;

/// Hidden subcommand that runs an executor.
const EXECUTOR_COMMAND: &str = "__executor";
/// Hidden subcommand that runs the guard of an executor, or of this program.
pub(crate) const GUARD_COMMAND: &str = "__guard";

/// The controller's machine, as its current user.
pub(super) struct Local;

impl Connection for Local {
    fn shell<'a>(&'a self, command: &'a str, _pty: bool) -> Pending<'a, Result<Duplex, Error>> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]);
        Box::pin(async move { process(shell) })
    }

    fn resident_executor(&self, word: &str) -> Option<Result<Duplex, Error>> {
        let program = match own_program() {
            Ok(program) => program,
            Err(error) => {
                return Some(Err(Error::Process { program: "windlass".to_owned(), reason: error.to_string() }));
            }
        };
        let mut executor = Command::new(program);
        executor.args([EXECUTOR_COMMAND, word]);
        // The executor starts a guard of its own.
        Some(process_unguarded(executor))
    }

    fn lost_reason(&self) -> String {
        "the executor on this machine has ended".to_owned()
    }
}
