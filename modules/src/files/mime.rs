//! Types of files by the host's `file` program.
//!
//! `file` reads its whole database when it starts, so one process stays open and is asked file by file. It ends with
//! its standard input, at the latest with this process.

use std::{
    io::{ErrorKind, Read, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Host, process};

/// Time limit for an answer of the open `file`. After that, each file gets a process of its own with a longer limit.
const ANSWER: Duration = Duration::from_secs(2);
/// Interval at which a waiting run checks for cancellation.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Largest accepted answer, in bytes.
const LONGEST: usize = 4096;

/// The open `file` of this process.
static OPEN: Mutex<Open> = Mutex::new(Open::None);

enum Open {
    None,
    Running(Running),
    /// This `file` does not answer line by line.
    Unusable,
}

/// MIME type and encoding of a file; `unknown` if the host has no `file` program, or that cannot tell.
pub(super) fn mime(path: &Path, host: &Host) -> (String, String) {
    let told = process::find(host, "file").and_then(|program| {
        let text = asked(&program, path, host).or_else(|| run(path, host))?;
        let (kind, charset) = text.trim().split_once("; charset=")?;
        Some((kind.trim().to_owned(), charset.trim().to_owned()))
    });
    told.unwrap_or_else(|| ("unknown".to_owned(), "unknown".to_owned()))
}

/// The answer of the open `file`, which is started if necessary; `None` if it cannot be asked.
fn asked(program: &Path, path: &Path, host: &Host) -> Option<String> {
    let name = path.as_os_str().as_bytes();
    if name.contains(&b'\n') {
        return None;
    }
    // If another task uses the process now, this one starts its own instead of waiting.
    let mut open = OPEN.try_lock().ok()?;
    if matches!(&*open, Open::Running(running) if running.program != program) {
        *open = Open::None;
    }
    if let Open::None = *open {
        *open = Running::start(program).map_or(Open::Unusable, Open::Running);
    }
    let Open::Running(running) = &mut *open else { return None };
    let answer = running.ask(name, host);
    if answer.is_none() {
        // An answer that arrives too late must not be taken for that to the next question.
        *open = if host.cancelled() { Open::None } else { Open::Unusable };
    }
    answer
}

/// The answer of a process for this file alone.
fn run(path: &Path, host: &Host) -> Option<String> {
    let command = process::Command::new("file").args(["--brief", "--mime-type", "--mime-encoding", "--"]).arg(path);
    let output = command.run(host).ok()?;
    output.success().then(|| output.stdout_text())
}

struct Running {
    program: PathBuf,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Running {
    fn start(program: &Path) -> Option<Running> {
        let mut command = std::process::Command::new(program);
        command.args(["--brief", "--mime-type", "--mime-encoding", "--no-buffer", "--files-from", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().ok()?;
        let (input, output) = (child.stdin.take()?, child.stdout.take()?);
        Some(Running { program: program.to_owned(), child, input, output })
    }

    fn ask(&mut self, name: &[u8], host: &Host) -> Option<String> {
        self.input.write_all(&[name, b"\n"].concat()).ok()?;
        let deadline = Instant::now() + ANSWER;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            let mut polled = [PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::IN)];
            let ready = poll(&mut polled, Some(&TICK)).unwrap_or_default();
            if host.cancelled() || Instant::now() > deadline || answer.len() > LONGEST {
                return None;
            }
            if ready == 0 {
                continue;
            }
            let mut piece = [0; LONGEST];
            match self.output.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => answer.extend(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        String::from_utf8(answer).ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_program_answers_for_many_files() {
        let host = Host::alone();
        if process::find(&host, "file").is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [("plain", "text\n"), (" größe ", "größe\n"), ("-n", "{\"a\": 1}\n"), ("new\nline", "x\n")]
        {
            std::fs::write(path(name), text).unwrap();
        }
        std::fs::create_dir(path("folder")).unwrap();
        let told = |name: &str| {
            let (kind, charset) = mime(&path(name), &host);
            assert_eq!(
                run(&path(name), &host).map(|text| text.trim().to_owned()),
                Some(format!("{kind}; charset={charset}"))
            );
            kind
        };
        let kinds = ["plain", " größe ", "-n", "new\nline", "folder"].map(told);
        assert_eq!(kinds, ["text/plain", "text/plain", "application/json", "text/plain", "inode/directory"]);
        assert_eq!(mime(&path("none"), &host).0, "unknown");
        assert_eq!(told("plain"), "text/plain");
        assert!(matches!(&*OPEN.lock().unwrap(), Open::Running(_)));
    }
}
