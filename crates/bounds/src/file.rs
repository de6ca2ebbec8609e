//! Reads files of the control machine whole, within a size limit. A path may name a pipe or a device, so reading one of
//! these has a deadline too, and ends with the program.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::child;

/// Largest file that is read whole, in bytes. Applies to inventories, playbooks, variables, settings and keys.
pub const LARGEST_FILE: u64 = 64 << 20;

/// Interval at which a wait for a pipe or device looks for an interruption.
const LOOK: Duration = Duration::from_millis(100);

/// Whether [`interrupt`] has been called.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Whether [`interrupt`] has ended a wait.
static HAS_ENDED_ONE: AtomicBool = AtomicBool::new(false);

/// Ends all waits for pipes and devices, now and later, because the program ends. Such reads fail.
pub fn interrupt() {
    IS_OVER.store(true, Ordering::Release);
}

/// Whether [`interrupt`] has been called. If so, the caller must stop waiting, and [`was_interrupted`] reports it.
pub(crate) fn is_interrupted() -> bool {
    let is_over = IS_OVER.load(Ordering::Acquire);
    HAS_ENDED_ONE.fetch_or(is_over, Ordering::AcqRel);
    is_over
}

/// Whether [`interrupt`] ended a wait.
pub fn was_interrupted() -> bool {
    HAS_ENDED_ONE.load(Ordering::Acquire)
}

/// An open file. A pipe or device must deliver its content before a deadline.
#[derive(Debug)]
pub struct Source {
    file: File,
    /// `None` for a regular file, which never blocks for long.
    until: Option<Instant>,
}

/// Opens a file for reading. A pipe without a writer opens too. Reading a pipe or device fails after
/// [`child::DEADLINE`], or at the deadline of this thread's action ([`child::until`]).
pub fn open(path: impl AsRef<Path>) -> io::Result<Source> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let waits = !file.metadata()?.is_file();
    let deadline = child::remaining(Some(child::DEADLINE)).filter(|_| waits);
    Ok(Source { file, until: deadline.map(|deadline| Instant::now() + deadline) })
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(until) = self.until else { return self.file.read(buffer) };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout)) {
                Ok(0) if IS_OVER.load(Ordering::Acquire) => {
                    HAS_ENDED_ONE.store(true, Ordering::Release);
                    // Readers would retry after `Interrupted`.
                    return Err(io::Error::other("the program was interrupted while it waited for the content"));
                }
                Ok(0) if left > LOOK => continue,
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::TimedOut,
                        "it is not a regular file, and its content did not arrive in time",
                    ));
                }
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match self.file.read(buffer) {
                // Another reader took what had arrived.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Reads a file of at most [`LARGEST_FILE`] bytes. The bound also covers devices and pipes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_up_to(path, LARGEST_FILE)
}

/// Like [`read`], for a file that the user did not name: it was found in a directory, or its name was constructed.
/// Fails with [`ErrorKind::InvalidInput`] for anything but a regular file and the empty device `/dev/null`.
pub fn read_regular(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let source = open(path)?;
    regular(&source.file.metadata()?)?;
    read_from(source, LARGEST_FILE)
}

/// Like [`read_regular`], for a file whose content other users must not choose. Fails with
/// [`ErrorKind::PermissionDenied`] for one that another user than root owns or can write to.
pub fn read_own(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let source = open(path)?;
    let found = source.file.metadata()?;
    regular(&found)?;
    own(&found)?;
    read_from(source, LARGEST_FILE)
}

/// Fails like [`read_own`] for a file or directory that others can change. In a directory with the sticky bit, they can
/// only add files.
pub fn own(found: &Metadata) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    // Many systems give each user a group, to which the user's files belong and may be open.
    let own_group = found.gid() == rustix::process::getegid().as_raw();
    let writable = if own_group { 0o002 } else { 0o022 };
    let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    let is_device = found.file_type().is_char_device();
    let why = if ![0, user].contains(&found.uid()) {
        format!("it belongs to the user {}", found.uid())
    } else if found.mode() & writable != 0 && !sticky && !is_device {
        "other users can write to it".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// Fails like [`read_regular`] for anything but a regular file and `/dev/null`.
pub fn regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let kind = match () {
        () if kind.is_file() || (kind.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3)) => return Ok(()),
        () if kind.is_fifo() => "a pipe",
        () if kind.is_dir() => "a directory",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}, and only a regular file is read here")))
}

/// Reads a file of at most `limit` bytes. A larger one is an error of the kind [`ErrorKind::FileTooLarge`].
pub fn read_up_to(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let source = open(path)?;
    // The size of a regular file is known, so an oversized one is refused before any of it is read.
    if source.until.is_none() && source.file.metadata().is_ok_and(|found| found.len() > limit) {
        return Err(too_large(limit));
    }
    read_from(source, limit)
}

/// Reads a stream of at most `limit` bytes to its end. Fails like [`read_up_to`] if it has more.
pub fn read_from(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

/// Reads a UTF-8 text of at most [`LARGEST_FILE`] bytes. Other bytes are an error of the kind
/// [`ErrorKind::InvalidData`].
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    to_text(read(path)?)
}

/// Fails with [`ErrorKind::InvalidData`] unless the bytes are UTF-8.
pub fn to_text(bytes: Vec<u8>) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(bytes).map_err(not_text)
}

fn too_large(limit: u64) -> io::Error {
    let limit = if limit >> 20 > 0 { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit}, the most that is read of such a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_large_files_are_refused() {
        for path in ["/dev/zero", "/dev/urandom"] {
            let error = read_up_to(path, 1 << 20).unwrap_err();
            assert_eq!(error.to_string(), "it has more than 1 MiB, the most that is read of such a file");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LARGEST_FILE + 1).unwrap();
        assert_eq!(read(file.path()).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn small_files_and_the_empty_device_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text").unwrap();
        assert_eq!(read_text(file.path()).unwrap(), "text");
        assert_eq!(read("/dev/null").unwrap(), b"");
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn found_file_that_is_a_pipe_or_device_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, kind) in [(pipe.as_path(), "a pipe"), (Path::new("/dev/zero"), "a device")] {
            let error = read_regular(path).unwrap_err();
            assert_eq!(error.to_string(), format!("it is {kind}, and only a regular file is read here"));
        }
        std::fs::write(folder.path().join("file"), "text").unwrap();
        assert_eq!(read_regular(folder.path().join("file")).unwrap(), b"text");
        assert_eq!(read_regular("/dev/null").unwrap(), b"");
    }

    #[test]
    fn file_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        for (mode, accepted) in [(0o600, true), (0o644, true), (0o664, true), (0o666, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = read_own(&file).map_err(|error| error.to_string());
            let expected = if accepted { Ok(b"text".to_vec()) } else { Err("other users can write to it".to_owned()) };
            assert_eq!(read, expected, "{mode:o}");
        }
        for (mode, accepted) in [(0o755, true), (0o777, false), (0o1777, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(own(&folder.path().metadata().unwrap()).is_ok(), accepted, "{mode:o}");
        }
    }

    #[test]
    fn pipe_is_read_until_its_writer_ends_or_the_deadline_passes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let soon = || Some(Instant::now() + std::time::Duration::from_millis(200));
        let error = child::until(soon(), || read(&path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");

        let (to, writes) = (path.clone(), std::time::Duration::from_millis(100));
        let writer = std::thread::spawn(move || {
            let mut pipe = OpenOptions::new().write(true).open(to).unwrap();
            for piece in ["first ", "second"] {
                std::thread::sleep(writes);
                io::Write::write_all(&mut pipe, piece.as_bytes()).unwrap();
            }
        });
        assert_eq!(read_text(&path).unwrap(), "first second");
        writer.join().unwrap();
    }
}
