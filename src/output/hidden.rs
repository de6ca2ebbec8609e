//! The terminal while the user types a secret.
//!
//! rpassword turns the echo off once it reads, when the prompt is already visible. An answer that follows the prompt
//! faster, as a program's does, would be shown.

use std::fs::File;
use std::io;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Shows nothing of what the user types while it lives.
#[must_use]
pub(crate) struct Hidden(Option<(File, Termios)>);

impl Hidden {
    /// Turns the echo off, if there is a terminal. Begin it before the question is printed.
    pub(crate) fn begin() -> Hidden {
        Hidden(enter().ok())
    }

    /// Reads the answer, and restores the mode of the terminal.
    pub(crate) fn read(self) -> io::Result<String> {
        rpassword::read_password()
    }
}

/// Sets the mode in which rpassword reads. Returns the terminal with its usual mode.
fn enter() -> io::Result<(File, Termios)> {
    let terminal = File::open("/dev/tty")?;
    let usual = tcgetattr(&terminal)?;
    let mut own = usual.clone();
    // rpassword handles Ctrl-C as a key. A signal would end the program and leave the terminal in this mode.
    own.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
    own.special_codes[SpecialCodeIndex::VMIN] = 1;
    own.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&terminal, OptionalActions::Now, &own)?;
    Ok((terminal, usual))
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some((terminal, usual)) = &self.0 {
            let _ = tcsetattr(terminal, OptionalActions::Now, usual);
        }
    }
}
