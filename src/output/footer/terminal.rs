//! The standard streams as terminals.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::FileType;

/// Columns of output that is not a terminal, as in Ansible.
const COLUMNS: usize = 79;

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Writes text and flushes it.
    pub(super) fn write(self, text: &str) -> io::Result<()> {
        match self {
            Stream::Stdout => {
                let mut stream = io::stdout().lock();
                stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
            }
            Stream::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        }
    }

    fn ask<T>(self, question: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        match self {
            Stream::Stdout => question(io::stdout().as_fd()),
            Stream::Stderr => question(io::stderr().as_fd()),
        }
    }

    fn is_terminal(self) -> bool {
        self.ask(|stream| stream.is_terminal())
    }

    /// Columns of the terminal; 0 if they are unknown.
    pub(super) fn columns(self) -> usize {
        self.ask(|stream| rustix::termios::tcgetwinsize(stream)).map_or(0, |size| size.ws_col.into())
    }

    /// Whether the terminal belongs to this program. A shell has it while the program is in the background.
    pub(super) fn is_foreground(self) -> bool {
        let group = self.ask(|stream| rustix::termios::tcgetpgrp(stream));
        group.map_or(true, |group| group == rustix::process::getpgrp())
    }
}

/// Stream for the footer, and whether text of both standard streams shares its terminal. `None` without a terminal that
/// can redraw a line.
pub(super) fn for_footer() -> Option<(Stream, bool)> {
    let can_redraw = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    match (Stream::Stdout.is_terminal(), Stream::Stderr.is_terminal()) {
        _ if !can_redraw => None,
        (true, is_shared) => Some((Stream::Stdout, is_shared)),
        (false, true) if !has_reader() => Some((Stream::Stderr, false)),
        (false, _) => None,
    }
}

/// Whether a program reads the standard output. It may print on this terminal, as `tee` and `less` do.
fn has_reader() -> bool {
    let stdout = io::stdout();
    rustix::fs::fstat(&stdout).map_or(true, |status| {
        matches!(FileType::from_raw_mode(status.st_mode), FileType::Fifo | FileType::Socket | FileType::Unknown)
    })
}

/// Columns for titles: one fewer than the terminal has, or 79 where the output is not a terminal.
pub(crate) fn columns() -> usize {
    terminal_columns().map_or(COLUMNS, |columns| columns - 1)
}

/// Columns of the terminal that gets the output, if it is one and has at least two.
pub(crate) fn terminal_columns() -> Option<usize> {
    Stream::Stdout.is_terminal().then(|| Stream::Stdout.columns()).filter(|columns| *columns > 1)
}
