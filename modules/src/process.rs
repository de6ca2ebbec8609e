//! Processes of modules: started in their own group, stoppable, with a limit on the stored output.

mod running;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, ErrorKind},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

pub use windlass_guard::GRACE;

use self::running::{Pipes, Running};
use crate::{Failure, Host};

/// Bytes of each stream to keep; of a longer stream, only the two ends are kept.
pub const KEEP: usize = 32 << 20;

/// A process to run, with the task's environment.
#[derive(Debug, Clone)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    directory: Option<PathBuf>,
    environment: BTreeMap<OsString, OsString>,
    input: Option<Vec<u8>>,
    live: bool,
    keep: usize,
}

/// Outcome of a process.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit status; the negated signal number if a signal ended the process.
    pub rc: i32,
    /// Standard output; only the two ends if it was overlong.
    pub stdout: Vec<u8>,
    /// Standard error, likewise limited.
    pub stderr: Vec<u8>,
    /// Total bytes of both streams, if one was overlong and is incomplete.
    pub overlong: Option<u64>,
}

impl Command {
    /// A command that runs a program. A name without a slash is looked up in `PATH` and the system administration
    /// directories.
    pub fn new(program: impl Into<OsString>) -> Command {
        Command {
            program: program.into(),
            arguments: Vec::new(),
            directory: None,
            environment: BTreeMap::new(),
            input: None,
            live: false,
            keep: KEEP,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Command {
        self.directory = Some(directory.into());
        self
    }

    /// Sets a variable, which overrides the task's and the executor's.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Command {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Requests English messages and locale-independent numbers, for output that is parsed.
    pub fn plain_locale(self) -> Command {
        self.variable("LANG", "C").variable("LC_ALL", "C").variable("LC_MESSAGES", "C").variable("LANGUAGE", "C")
    }

    /// Sets the standard input; the default is empty.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Command {
        self.input = Some(bytes.into());
        self
    }

    /// Sets the umask for new files, in octal digits.
    pub fn umask(self, mask: &str) -> Command {
        // The umask belongs to the whole process, in which other modules run too; a shell sets it for the program
        // alone.
        let script = format!("umask {mask} && exec \"$@\"");
        let words = ["-c".into(), script.into(), "sh".into(), self.program.clone()].into_iter();
        let arguments = words.chain(self.arguments.iter().cloned()).collect();
        Command { program: "/bin/sh".into(), arguments, ..self }
    }

    /// Passes the output on live, if the controller wants it.
    pub fn live(mut self) -> Command {
        self.live = true;
        self
    }

    /// Sets the number of bytes to keep of each stream.
    pub fn keep(mut self, bytes: usize) -> Command {
        self.keep = bytes;
        self
    }

    /// The words of the command, for messages and results.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program).chain(&self.arguments).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Runs the process to its end. Fails if the program cannot be started, but not if it exits with an error.
    pub fn run(self, host: &Host) -> Result<Output, Failure> {
        host.check_cancelled()?;
        let start = windlass_guard::start();
        let mut running = Running::of(self.spawn(host)?, start);
        let pipes = Pipes::of(&mut running, self.input)?;
        let (stdout, stderr) = pipes.pump(host, &mut running, self.live, self.keep)?;
        let status = running.status()?;
        let overlong = (stdout.overlong || stderr.overlong).then_some(stdout.total + stderr.total);
        Ok(Output { rc: code(status), stdout: stdout.bytes(), stderr: stderr.bytes(), overlong })
    }

    /// Runs the process, and fails if the exit status is not 0.
    pub fn check_run(self, host: &Host) -> Result<Output, Failure> {
        let words = self.words();
        let output = self.run(host)?;
        if output.success() { Ok(output) } else { Err(output.failure(&words)) }
    }

    fn spawn(&self, host: &Host) -> Result<Child, Failure> {
        let words = self.words();
        let refuse = |error: &io::Error, reason: String| {
            Failure::new(reason)
                .with("rc", error.raw_os_error().unwrap_or(2))
                .with("cmd", words.clone())
                .with("stdout", "")
                .with("stderr", "")
        };
        if let Some(directory) = &self.directory
            && !directory.is_dir()
        {
            let error = io::Error::from(ErrorKind::NotFound);
            return Err(refuse(&error, format!("The directory {} to run in does not exist.", directory.display())));
        }
        let found = find_os(host, &self.program);
        let mut command = std::process::Command::new(found.as_deref().unwrap_or(Path::new(&self.program)));
        command.arg0(&self.program).args(&self.arguments).process_group(0);
        command.envs(host.environment()).envs(&self.environment);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        start(&mut command).map_err(|error| {
            let shown = self.program.to_string_lossy();
            refuse(&error, format!("Error executing command: {shown} could not be started: {}.", reason(&error)))
        })
    }
}

/// Starts a program, even one that was written shortly before. A process that another thread is starting may still have
/// the file open for writing, and the kernel refuses to run such a file, so the start is retried.
fn start(command: &mut std::process::Command) -> io::Result<Child> {
    const TRIES: u32 = 10;
    let mut wait = Duration::from_millis(1);
    for _ in 1..TRIES {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(wait),
            started => return started,
        }
        wait *= 2;
    }
    command.spawn()
}

impl Output {
    /// Whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.rc == 0
    }

    /// Standard output as text; invalid UTF-8 is replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; invalid UTF-8 is replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Both streams as text, like [`Output::stdout_text`] and [`Output::stderr_text`] but without a copy.
    pub fn into_texts(self) -> (String, String) {
        (text(self.stdout), text(self.stderr))
    }

    /// The message of a command: standard error, or standard output if it is empty, without space around it.
    pub fn message(&self) -> String {
        let error = self.stderr_text();
        let text = if error.trim().is_empty() { self.stdout_text() } else { error };
        text.trim().to_owned()
    }

    /// The failure of a command that should have succeeded.
    pub fn failure(&self, words: &[String]) -> Failure {
        let command = words.join(" ");
        let message = match self.message().as_str() {
            "" => format!("{command} failed with exit status {} and without a message.", self.rc),
            message => format!("{command} failed with exit status {}: {message}", self.rc),
        };
        Failure::new(message)
            .with("rc", self.rc)
            .with("stdout", self.stdout_text())
            .with("stderr", self.stderr_text())
            .with("cmd", words.to_vec())
    }
}

/// Text of bytes; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The path of a program: unchanged if it contains a slash, otherwise from `PATH` or the system administration
/// directories.
pub fn find(host: &Host, program: &str) -> Option<PathBuf> {
    find_os(host, &OsString::from(program))
}

fn find_os(host: &Host, program: &OsString) -> Option<PathBuf> {
    let given = Path::new(program);
    if program.to_string_lossy().contains('/') {
        return given.exists().then(|| given.to_owned());
    }
    let path = host.variable("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|directory| directory.join(given)).find(|candidate| {
        candidate.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// An operating system error without Rust's number in parentheses.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        sync::{Arc, atomic::Ordering},
        time::Instant,
    };

    use super::{running::END, *};

    fn shell(text: &str) -> Command {
        Command::new("/bin/sh").args(["-c", text])
    }

    #[test]
    fn output_streams_and_status_separate() {
        let output = shell("echo out; echo err >&2; exit 3").run(&Host::alone()).unwrap();
        assert_eq!((output.rc, output.stdout_text(), output.stderr_text()), (3, "out\n".into(), "err\n".into()));
    }

    #[test]
    fn input_larger_than_pipe_returned_complete() {
        let bytes = vec![b'x'; 3 << 20];
        let output = Command::new("cat").input(bytes.clone()).run(&Host::alone()).unwrap();
        assert_eq!(output.stdout, bytes);
        assert_eq!(output.overlong, None);
    }

    #[test]
    fn process_ignoring_input_succeeds() {
        let output = Command::new("true").input(vec![0; 1 << 20]).run(&Host::alone()).unwrap();
        assert!(output.success());
    }

    #[test]
    fn overlong_output_loses_middle() {
        let command = shell("echo begin; head -c 300000 /dev/zero; echo end").keep(200_000);
        let output = command.run(&Host::alone()).unwrap();
        assert_eq!(output.overlong, Some(300_010));
        assert!(output.stdout.starts_with(b"begin\n") && output.stdout.ends_with(b"end\n"));
        assert!(output.stdout.len() < 3 * END);
        let command = shell("echo begin; head -c 300000 /dev/zero; echo end").keep(300_010);
        let output = command.run(&Host::alone()).unwrap();
        assert_eq!((output.overlong, output.stdout.len()), (None, 300_010));
    }

    #[test]
    fn background_process_not_awaited() {
        let started = Instant::now();
        let output = shell("sleep 30 & echo started").run(&Host::alone()).unwrap();
        assert_eq!(output.stdout_text(), "started\n");
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn process_killed_by_signal_has_negative_status() {
        assert_eq!(shell("kill -9 $$").run(&Host::alone()).unwrap().rc, -9);
    }

    #[test]
    fn cancelled_run_kills_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let host = Host::alone();
        let cancelled = Arc::clone(&host.cancelled);
        let path = file.clone();
        let canceller = std::thread::spawn(move || {
            while std::fs::read_to_string(&path).unwrap_or_default().trim().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        let failure = shell(&format!("sleep 600 & echo $! > {}; wait", file.display())).run(&host).unwrap_err();
        canceller.join().unwrap();
        assert!(failure.message.contains("cancelled"), "{}", failure.message);
        let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        // The kernel ends a killed process when it is scheduled next, which a busy machine delays.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let has_ended = |state: &str| state.is_empty() || state.contains(") Z");
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !has_ended(&state()) && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(has_ended(&state()), "the background process still runs: {}", state());
    }

    #[test]
    fn process_printing_while_stopped_runs_its_traps() {
        let directory = tempfile::tempdir().unwrap();
        let (ready, cleaned) = (directory.path().join("ready"), directory.path().join("cleaned"));
        let host = Host::alone();
        let cancelled = Arc::clone(&host.cancelled);
        let path = ready.clone();
        let canceller = std::thread::spawn(move || {
            while !path.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        // More than a pipe holds: without a reader, the process would block or be killed.
        let text = format!(
            "trap 'head -c 300000 /dev/zero; echo stopping >&2; touch {}; exit 0' TERM; touch {}; while :; do sleep 0.05; done",
            cleaned.display(),
            ready.display()
        );
        shell(&text).run(&host).unwrap_err();
        canceller.join().unwrap();
        assert!(cleaned.exists(), "the trap did not run to its end");
    }

    #[test]
    fn program_open_for_writing_started_after_retry() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, "#!/bin/sh\necho ran\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let held = File::options().append(true).open(&path).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
        });
        let output = Command::new(&path).run(&Host::alone());
        holder.join().unwrap();
        assert_eq!(output.unwrap().stdout_text(), "ran\n");
    }

    #[test]
    fn missing_program_named_in_failure() {
        let failure = Command::new("no-such-program-here").run(&Host::alone()).unwrap_err();
        assert!(failure.message.contains("no-such-program-here"), "{}", failure.message);
        assert_eq!(failure.data.get("rc"), Some(&2.into()));
    }
}
