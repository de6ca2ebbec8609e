//! The file of this program, to start it again.

use std::io;
use std::path::PathBuf;

/// Variable with the process id of the program that starts a run in a session of its own. The run compares it with its
/// parent's id, because further programs inherit the variable.
pub(crate) const SESSION: &str = "WINDLASS_FLEET";

/// Path of this program's file. If an upgrade has replaced it, the path leads to the file that is running.
///
/// # Errors
///
/// If the operating system does not know the path.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // Linux appends ` (deleted)` to the path of a replaced file.
    Ok(if cfg!(target_os = "linux") && !path.exists() { PathBuf::from("/proc/self/exe") } else { path })
}
