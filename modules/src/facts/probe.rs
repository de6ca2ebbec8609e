use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Output of a program that provides facts.
pub(crate) struct Answer {
    /// Exit status; -1 if a signal ended the program.
    pub(crate) rc: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a query program, and ends it after the time limit.
pub(crate) fn ask(program: &str, arguments: &[&str], limit: Duration) -> Option<Answer> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .ok()?;
    let (mut stdout, mut stderr) = (child.stdout.take()?, child.stderr.take()?);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            bytes
        });
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        let _ = sender.send((bytes, errors.join().unwrap_or_default()));
    });
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match receiver.recv_timeout(limit) {
        Ok((stdout, stderr)) => {
            let status = child.wait().ok()?;
            Some(Answer { rc: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) })
        }
        Err(_) => {
            // Descendants too: a script's child would keep the pipes open.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
