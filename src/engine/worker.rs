//! The program of a worker's pod: unpacks the project and becomes the command line of the run, which follows the lead.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use super::pod::Unpacked;
use crate::error::{Error, Result};

/// A pod of a worker.
#[derive(Debug)]
pub(crate) struct Place {
    /// Name and port of the lead.
    pub(crate) lead: String,
    /// Folder for everything that the run writes.
    pub(crate) work: PathBuf,
    /// Folder of the mounted project.
    pub(crate) input: PathBuf,
    /// Folder of the mounted keys of this worker.
    pub(crate) keys: PathBuf,
}

/// Runs the command line of the run in this process. It ends with 0 when the run has ended, and otherwise when the lead
/// is lost: the worker's Job then starts the next pod.
///
/// # Errors
///
/// If the project cannot be unpacked or the program cannot be started.
pub(crate) fn run(place: &Place) -> Result<u8> {
    let unpacked = Unpacked::new(&place.work, &place.input)?;
    let following = [format!("--shard-of-pod={}", place.lead), format!("--shard-keys={}", place.keys.display())];
    let error = unpacked.command(following.to_vec())?.exec();
    Err(Error::new(format!("the run cannot be started: {error}")))
}
