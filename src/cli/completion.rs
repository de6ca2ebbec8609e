//! `windlass completion`: what a shell needs to complete command lines.

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::error::Result;

/// Print what a shell needs to complete command lines.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

/// The command without what is hidden: the script for bash would offer that, too.
fn visible() -> Command {
    let all = super::Cli::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("windlass").version(env!("CARGO_PKG_VERSION")).propagate_version(true).subcommands(verbs)
}

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut visible(), "windlass", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_do_not_offer_what_is_hidden() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut visible(), "windlass", &mut script);
            let script = String::from_utf8_lossy(&script);
            assert!(script.contains("playbook") && !script.contains("__executor"), "{shell}");
        }
    }
}
