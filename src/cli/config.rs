//! `windlass config`: the settings in force.

use clap::{Args, Subcommand};

use crate::error::Result;
use crate::settings::Config;

/// Show the settings in force.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Every setting that is set, with its value and where it comes from
    Dump {
        /// Only what differs from the default; settings that are not set are never shown
        #[arg(long)]
        only_changed: bool,
    },
    /// The configuration file
    View,
}

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let config = Config::find()?;
    match arguments.verb {
        Verb::Dump { .. } => {
            let file = config.file.as_ref().map(|file| file.display().to_string()).unwrap_or_else(|| "None".to_owned());
            let mut text = format!("CONFIG_FILE() = {file}\n");
            for (name, value, origin) in config.changed() {
                text.push_str(&format!("{}({origin}) = {value}\n", name.to_uppercase()));
            }
            super::print(&text)?;
        }
        Verb::View => {
            if let Some(file) = &config.file {
                super::print(&std::fs::read_to_string(file).unwrap_or_default())?;
            }
        }
    }
    Ok(0)
}
