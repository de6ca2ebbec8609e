//! Runs programs that provide facts, within limits of time and output. Simpler than `process`: without the task's
//! environment, cancellation and live output.

use std::{
    ffi::OsStr,
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use windlass_protocol::Stream;

/// Bytes that a program may print to each stream.
const LONGEST: u64 = 4 << 20;

/// Output of a program that provides facts.
pub(crate) struct Answer {
    /// Exit status; -1 if a signal ended the program, or it printed too much.
    pub(crate) rc: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a query program, and ends it after the time limit or when it prints too much. Returns `None` if it could not be
/// started, or did not end in time.
pub(crate) fn ask(program: impl AsRef<OsStr>, arguments: &[&str], limit: Duration) -> Option<Answer> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .ok()?;
    let (sender, receiver) = mpsc::channel();
    collect(child.stdout.take()?, Stream::Stdout, sender.clone());
    collect(child.stderr.take()?, Stream::Stderr, sender);
    // Without a limit, there is no such instant.
    let deadline = Instant::now().checked_add(limit);
    let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        match receiver.recv_timeout(left()) {
            Ok((_, bytes)) if bytes.len() as u64 > LONGEST => {
                stop(child);
                let stderr = format!("it printed more than {LONGEST} bytes, so it was stopped");
                return Some(Answer { rc: -1, stdout: String::new(), stderr });
            }
            Ok((Stream::Stdout, bytes)) => stdout = bytes,
            Ok((Stream::Stderr, bytes)) => stderr = bytes,
            Err(_) => {
                stop(child);
                return None;
            }
        }
    }
    let status = child.wait().ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some(Answer { rc: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) })
}

/// Kills a program with its descendants, which would keep the pipes open.
fn stop(mut child: Child) {
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
}

/// Reads a stream in a thread, up to one byte beyond the limit.
fn collect(pipe: impl Read + Send + 'static, stream: Stream, sender: mpsc::Sender<(Stream, Vec<u8>)>) {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.take(LONGEST + 1).read_to_end(&mut bytes);
        let _ = sender.send((stream, bytes));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_prints_too_much_is_stopped() {
        for stream in ["", " >&2"] {
            let text = format!("trap '' PIPE; head -c 9000000 /dev/zero{stream}; sleep 600");
            let answer = ask("/bin/sh", &["-c", &text], Duration::from_secs(60)).unwrap();
            assert_eq!((answer.rc, answer.stdout.as_str()), (-1, ""));
            assert_eq!(answer.stderr, "it printed more than 4194304 bytes, so it was stopped");
        }
        let answer = ask("/bin/sh", &["-c", "head -c 4194304 /dev/zero"], Duration::MAX).unwrap();
        assert_eq!((answer.rc, answer.stdout.len()), (0, 4_194_304));
    }

    #[test]
    fn program_over_limit_killed_with_children() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let text = format!("sleep 600 & echo $! > {}; wait", file.display());
        assert!(ask("/bin/sh", &["-c", &text], Duration::from_millis(500)).is_none());
        let pid = std::fs::read_to_string(&file).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        for _ in 0..100 {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            if state.is_empty() || state.contains(") Z") {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        unreachable!("the child of the program still runs");
    }
}
