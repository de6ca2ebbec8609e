//! `windlass lsp`: the language server.

use clap::Args;

use super::lint;
use crate::error::Result;
use crate::lint::Severity;
use crate::lsp::{self, Environment};
use crate::settings::{Config, Settings};

/// Serve an editor: findings, completion, documentation and definitions
#[derive(Debug, Args)]
#[command(
    after_help = "An editor starts this command and speaks the Language Server Protocol on its standard input and
output. No template is rendered, no inventory script runs, and no host is connected to.

Examples:
  windlass lsp                                   # with the inventory of ansible.cfg
  windlass lsp -i inventory/hosts.yml            # check this inventory, and host patterns with it
  windlass lsp --severity warning                # without findings about style"
)]
pub(super) struct Arguments {
    /// Inventory to check, and to complete host patterns from, relative to the editor's workspace: a file, a directory
    /// or a list of hosts; no script is run [default: the inventory of ansible.cfg]
    #[arg(short, long, value_name = "INVENTORY")]
    inventory: Vec<String>,
    /// Lowest severity to show
    #[arg(long, value_enum, default_value_t = Severity::Info)]
    severity: Severity,
    /// Use standard input and output, which is the only way; editors pass this option
    #[arg(long)]
    stdio: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let inventory = arguments.inventory.clone();
    lsp::run(Box::new(move || environment(&inventory)), arguments.severity)
}

/// Reads the settings and the inventory of the current directory.
fn environment(sources: &[String]) -> Result<Environment> {
    let config = Config::find()?;
    let settings = Settings::from_config(&config)?;
    let has_inventory = config.get("inventory").is_some();
    let sources = if sources.is_empty() && has_inventory { &settings.inventory.sources } else { sources };
    let modules = lint::modules(&settings);
    Ok(Environment { modules, sources: sources.to_vec(), roles_path: settings.code.roles_path })
}
