//! Pseudo-terminals.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Opens a terminal. Returns the side of its user, and that of a program.
pub(crate) fn open_terminal() -> (File, OwnedFd) {
    let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&control).unwrap();
    unlockpt(&control).unwrap();
    let name = ptsname(&control, Vec::new()).unwrap();
    let path = OsStr::from_bytes(name.to_bytes());
    let side = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    (File::from(control), side)
}
