//! `windlass links`: Ansible's command names as links to this program.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::ANSIBLE_NAMES;
use crate::error::{Error, Result};

/// Install or remove Ansible's command names as links to this program
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass links install\n  windlass links install ~/bin\n  windlass links remove")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create the links: `ansible`, `ansible-playbook` and others
    ///
    /// A missing directory is created. A file that is not such a link stays, and is an error.
    Install(Place),
    /// Remove the links that lead to this program
    Remove(Place),
}

#[derive(Debug, Args)]
struct Place {
    /// Directory of the links [default: the directory of this program]
    directory: Option<PathBuf>,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let program = super::child::own_program()?;
    let (Verb::Install(place) | Verb::Remove(place)) = &arguments.verb;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let directory = place.directory.as_deref().unwrap_or(beside);
    // Links beside the program survive a move of the directory.
    let target =
        if directory == beside { program.file_name().map_or(program.clone(), PathBuf::from) } else { program.clone() };
    let links: Vec<PathBuf> = ANSIBLE_NAMES.iter().map(|(name, ..)| directory.join(name)).collect();
    match arguments.verb {
        Verb::Install(_) => {
            std::fs::create_dir_all(directory).map_err(|error| failed("created", directory, &error))?;
            install(&links, &target, &program)?;
        }
        Verb::Remove(_) => remove(&links, &program)?,
    }
    Ok(0)
}

/// Creates all links, or none if one of the names is taken.
fn install(links: &[PathBuf], target: &Path, program: &Path) -> Result<()> {
    if let Some(taken) = links.iter().find(|link| link.symlink_metadata().is_ok() && !leads_to(link, program)) {
        return Err(Error::new(format!(
            "{} exists and is not a link to this program; nothing was changed. Remove it, or name another directory.",
            taken.display()
        )));
    }
    for link in links.iter().filter(|link| link.symlink_metadata().is_err()) {
        std::os::unix::fs::symlink(target, link).map_err(|error| failed("created", link, &error))?;
        super::stdout::print(&format!("{} -> {}\n", link.display(), target.display()))?;
    }
    Ok(())
}

fn remove(links: &[PathBuf], program: &Path) -> Result<()> {
    for link in links.iter().filter(|link| leads_to(link, program)) {
        std::fs::remove_file(link).map_err(|error| failed("removed", link, &error))?;
        super::stdout::print(&format!("{} removed\n", link.display()))?;
    }
    Ok(())
}

fn failed(done: &str, link: &Path, error: &io::Error) -> Error {
    Error::new(format!("{} cannot be {done}: {error}", link.display()))
}

/// Whether a path is a link to this program.
fn leads_to(link: &Path, program: &Path) -> bool {
    let is_link = link.symlink_metadata().is_ok_and(|found| found.is_symlink());
    is_link && link.canonicalize().ok() == program.canonicalize().ok()
}
