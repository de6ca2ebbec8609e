//! Text on the standard output that is meant for other programs.

use crate::error::{Error, Result};

/// Prints text for other programs: without colours, and unmasked because the user requested it.
pub(super) fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Error::new(format!("the standard output cannot be written: {error}"))),
    }
}
