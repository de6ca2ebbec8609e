//! Runs of this program that it starts itself.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Path of this program.
pub(super) fn own_program() -> Result<PathBuf> {
    crate::own_program::own_program()
        .map_err(|error| Error::new(format!("the path of this program cannot be found: {error}")))
}

/// Error for a run that this program could not start.
pub(super) fn cannot_start(error: std::io::Error) -> Error {
    Error::new(format!("this program cannot be started again: {error}"))
}

/// Exit code of a run that this program started; 1 if a signal ended it.
pub(super) fn code_of(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Time for a stopped run of this program to end.
const ENDING: std::time::Duration = std::time::Duration::from_secs(60);

/// Stops a run of this program in order.
pub(super) async fn stop(child: &mut tokio::process::Child) {
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    if tokio::time::timeout(ENDING, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
