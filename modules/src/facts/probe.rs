use std::{
    io::Read,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// What a program that facts are asked from answered.
pub(crate) struct Answer {
    /// The exit status; -1 if a signal ended it.
    pub(crate) rc: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs a program that only answers a question, and gives up on it (and ends it) after a while.
pub(crate) fn ask(program: &str, arguments: &[&str], limit: Duration) -> Option<Answer> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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
            let _ = child.kill();
            let _ = child.wait();
            None
        }
    }
}
