//! `windlass man`: generates man pages.

use std::path::PathBuf;

use clap::Args;

use super::completion::visible;
use crate::error::{Error, Result};

/// Generate man pages
///
/// Writes one page for each verb and each of its subcommands, such as `windlass-playbook.1`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass man ~/.local/share/man/man1\n  windlass man /usr/local/share/man/man1")]
pub(super) struct Arguments {
    /// Directory to write the pages to; it is created if missing
    directory: PathBuf,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(visible(), directory))
        .map_err(|error| Error::new(format!("the man pages cannot be written to {}: {error}", directory.display())))?;
    Ok(0)
}
