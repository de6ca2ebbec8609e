//! Hosts that a program of this machine enters: containers, pods, and directories with a system.

use tokio::process::Command;

use super::duplex::process;
use super::{Connection, Duplex, Error, Pending, Target};

/// A host behind a command such as `docker exec -i web`, to which a shell command is added.
pub(super) struct Exec {
    words: Vec<String>,
    warning: Option<String>,
}

impl Exec {
    pub(super) fn new(target: &Target) -> Exec {
        Exec { words: target.exec.clone(), warning: target.exec_warning.clone() }
    }

    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

impl Connection for Exec {
    fn shell<'a>(&'a self, command: &'a str, _pty: bool) -> Pending<'a, Result<Duplex, Error>> {
        let mut program = Command::new(self.program());
        program.args(self.words.iter().skip(1)).args(["/bin/sh", "-c", command]);
        Box::pin(async move { process(program) })
    }

    fn lost_reason(&self) -> String {
        format!("`{}` has ended", self.program())
    }

    fn warning(&self) -> Option<String> {
        self.warning.clone()
    }
}
