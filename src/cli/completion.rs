//! `windlass completion`: what a shell needs to complete command lines.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::error::Result;

/// Print what a shell needs to complete command lines.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Cli::command(), "windlass", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
