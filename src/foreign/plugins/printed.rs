//! Text that plugins and their programs print. It reaches the user through the output, which masks and escapes it.

use std::fmt;
use std::io::{ErrorKind, Read as _};
use std::os::fd::BorrowedFd;
use std::process::ChildStderr;
use std::sync::Arc;

use super::helper::nonblocking;

/// Limits in bytes of a line, and of the text of one request.
const LINE: usize = 64 << 10;
const TEXT: usize = 1 << 20;
/// Number of reads after which text that has arrived is left for the next request.
const READS: usize = 64;

/// Prints a line of a plugin.
#[derive(Clone)]
pub struct Print(Arc<dyn Fn(&str) + Send + Sync>);

impl Print {
    /// Prints with this function.
    pub fn by(print: impl Fn(&str) + Send + Sync + 'static) -> Print {
        Print(Arc::new(print))
    }

    pub(super) fn line(&self, text: &str) {
        (self.0)(text);
    }
}

impl fmt::Debug for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Print")
    }
}

/// The standard error of a process of plugins.
#[derive(Debug)]
pub(super) struct Printed {
    /// `None` once it is closed.
    pipe: Option<ChildStderr>,
    /// Beginning of a line, cut if it is too long, and the bytes of it that have arrived.
    line: Vec<u8>,
    length: usize,
    /// Bytes that the request may still print, and those that it printed beyond them.
    left: usize,
    left_out: usize,
}

impl Printed {
    pub(super) fn new(pipe: ChildStderr) -> std::io::Result<Printed> {
        nonblocking(&pipe)?;
        Ok(Printed { pipe: Some(pipe), line: Vec::new(), length: 0, left: TEXT, left_out: 0 })
    }

    /// The pipe, if it is still open.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// Reads some of what has arrived, and prints the lines that are complete. Returns whether there may be more.
    pub(super) fn read(&mut self, print: &Print) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut piece = vec![0; 64 << 10];
        match pipe.read(&mut piece) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                self.take(piece.get(..count).unwrap_or_default(), print);
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn take(&mut self, bytes: &[u8], print: &Print) {
        let kept = bytes.len().min(self.left);
        self.left -= kept;
        self.left_out += bytes.len() - kept;
        for piece in bytes.get(..kept).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            self.length += piece.len();
            if self.length <= LINE {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.print_line(print);
            }
        }
        if self.left_out > 0 {
            // A secret may begin where it is cut.
            self.line.clear();
            self.length = 0;
        }
    }

    /// Prints the line, unless it is too long: a part of it could end with a part of a secret.
    fn print_line(&mut self, print: &Print) {
        let (line, length) = (std::mem::take(&mut self.line), std::mem::take(&mut self.length));
        match length > LINE {
            true => print.line(&format!("[a line of {length} bytes is not shown]")),
            false => print.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])),
        }
    }

    /// Prints all that has arrived.
    pub(super) fn finish(&mut self, print: &Print) {
        // A program in the background may print for ever.
        for _ in 0..READS {
            if !self.read(print) {
                break;
            }
        }
        // The rest of a line waits for its end: a part of it could end with a part of a secret.
        if self.pipe.is_none() && self.length > 0 {
            self.print_line(print);
        }
        if self.left_out > 0 {
            print.line(&format!("[more than {} KiB were printed, and the rest is not shown]", TEXT >> 10));
        }
        (self.left, self.left_out) = (TEXT, 0);
    }
}
