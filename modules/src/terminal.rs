//! Starts programs on a terminal of their own.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    process::{Child, Command, Stdio},
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};

/// Starts a program on a new terminal, and returns the controlling side.
pub(crate) fn spawn(mut command: Command, arrange: impl FnOnce(&mut Termios)) -> io::Result<(Child, File)> {
    let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&control)?;
    unlockpt(&control)?;
    let name = ptsname(&control, Vec::new())?;
    let path = OsStr::from_bytes(name.to_bytes());
    let side: OwnedFd = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let mut settings = tcgetattr(&side)?;
    arrange(&mut settings);
    tcsetattr(&side, OptionalActions::Now, &settings)?;
    command.stdin(Stdio::from(side.try_clone()?)).stdout(Stdio::from(side.try_clone()?)).stderr(Stdio::from(side));
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated and no lock is taken.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    let child = command.spawn()?;
    // The command holds the program's side of the terminal open. Once dropped, the program's end ends the stream.
    drop(command);
    Ok((child, File::from(control)))
}
