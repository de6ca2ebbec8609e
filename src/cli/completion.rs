//! `windlass completion`: generates shell completions.

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::error::Result;

/// Generate shell completions
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Shell to generate completions for
    shell: Shell,
}

/// The command without hidden subcommands, which scripts for bash and man pages would show too.
pub(super) fn visible() -> Command {
    let all = super::Cli::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("windlass").version(env!("CARGO_PKG_VERSION")).propagate_version(true).subcommands(verbs)
}

/// Runs the subcommand.
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
    fn scripts_omit_hidden_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut visible(), "windlass", &mut script);
            let script = String::from_utf8_lossy(&script);
            assert!(script.contains("playbook") && !script.contains("__executor"), "{shell}");
        }
    }
}
