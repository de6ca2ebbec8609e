//! Bare commands, run without an executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::test_kill_process_group;
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock, mpsc};
use tokio::time::{sleep, timeout};
use windlass_modules::process::KEEP;
use windlass_protocol::{BEGIN_MARKER, Become, Stream};

use super::bare_become::{Asker, asks_for_password, become_command, find, is_alone, needs_terminal, quote};
use super::start::random_word;
use super::{Error, Heartbeat, TaskEvent};
use crate::connection::{self, Connection, Duplex, Exit, GRACE, Kind, Output, Pending, Piece, Signal, Target};

/// Time for stopping a command: SIGTERM, SIGKILL, and the start of the shell that sends them.
const STOP_DEADLINE: Duration = GRACE.saturating_mul(4);
/// Maximum output in bytes before the become user's shell starts.
const NOISE: usize = 1 << 20;

/// Reads a process's parent and process group.
const STAT: &str = r#"group=
stat() {
    { read -r stat < "$1/stat"; } 2> /dev/null || return
    set -- ${stat##*) }
    parent=$2 group=$3
}
"#;

/// Finds the process group of the only other command, besides executors, that this shell's SSH server runs for the
/// connection. With several of them, it is unknown which is meant.
const FIND_SIBLING: &str = r#"found=0 command=
for process in /proc/[0-9]*; do
    stat "$process" || continue
    case $stat in *'(executor-'*) continue ;; esac
    if [ "$parent" = "$PPID" ] && [ "$group" != "$$" ]; then
        found=$((found + 1)) command=$group
    fi
done
[ "$found" = 1 ] && group=$command || group=
"#;

/// Signals a process group, and succeeds once it has ended.
const STOP_GROUP: &str = r#"[ -n "$group" ] || exit
for signal in TERM KILL; do
    kill -s "$signal" -- "-$group"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        kill -s 0 -- "-$group" 2> /dev/null || exit 0
        sleep 0.1
    done
done
exit 1
"#;

/// A bare command.
#[derive(Debug, Clone, Default)]
pub struct RawCommand {
    /// Command line for the login shell, unmodified.
    pub command: String,
    /// Another shell to run it with.
    pub executable: Option<String>,
    /// Become user.
    pub become_user: Option<Become>,
    /// Whether to use a terminal in raw mode, which merges standard error into standard output.
    pub pty: bool,
    /// Standard input of the command.
    pub input: Vec<u8>,
    /// Time limit of the command.
    pub timeout: Option<Duration>,
}

/// Result of a bare command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOutput {
    /// Exit status; death by a signal counts as 128.
    pub status: u32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Bytes of both streams that were dropped because of their size.
    pub left_out: u64,
}

/// Number of commands that run on other hosts, in all pools of this process.
static ON_HOSTS: AtomicUsize = AtomicUsize::new(0);

/// Whether a bare command runs on another host. Such a command does not notice the end of this process.
pub(crate) fn is_under_way() -> bool {
    ON_HOSTS.load(Ordering::Relaxed) > 0
}

/// Bare commands of a pool, including those that are being stopped.
#[derive(Debug, Default)]
pub(super) struct Commands {
    running: Arc<RwLock<()>>,
    /// Whether a call of [`Commands::ended`] has not returned; a second one then gives up at once.
    awaited: AtomicBool,
}

impl Commands {
    /// Waits until no command runs any more, but no longer than stopping one may take.
    pub(super) async fn ended(&self) {
        if self.awaited.swap(true, Ordering::Relaxed) {
            return;
        }
        if timeout(STOP_DEADLINE, self.running.write()).await.is_err() {
            tracing::debug!("a raw command did not end in time; its connection is cut");
        }
        self.awaited.store(false, Ordering::Relaxed);
    }
}

/// Runs the command on a connection and collects its output. If the future is dropped, the command is stopped in the
/// background; [`Commands::ended`] waits for that.
pub(super) async fn run(
    commands: &Commands,
    connection: Arc<dyn Connection>,
    target: &Arc<Target>,
    raw: &RawCommand,
    events: Option<&mpsc::Sender<TaskEvent>>,
    limits: Heartbeat,
) -> Result<RawOutput, RawFailure> {
    let counted = (commands.running.clone().read_owned().await, (target.kind != Kind::Local).then(Counted::new));
    let mut stoppable = Stoppable { running: None, counted: Some(counted) };
    let running = stoppable.running.insert(start(connection.clone(), target, raw).await?);
    let heard = Arc::clone(&running.heard);
    let quiet = || {
        // Where nobody reads the events, the deadline reports the host.
        let _ = events.map(|events| events.try_send(TaskEvent::Silent(limits.warning("raw"))));
    };
    let work = async {
        tokio::select! {
            outcome = running.finish(raw.input.clone(), events) => outcome,
            lost = lost(connection.as_ref(), target, limits, &heard, quiet) => Err(silent(target, lost)),
        }
    };
    let ended = match raw.timeout {
        None => Ok(work.await),
        Some(limit) => timeout(limit, work).await.map_err(|_| limit),
    };
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(limit) => {
            let ended = running.stop().await;
            Err(Error::TimedOut { host: target.name.clone(), seconds: limit.as_secs(), ended })
        }
    };
    stoppable.running = None;
    Ok(outcome?)
}

/// Completes once a host behind a program of this machine has not answered for too long. A command may be silent, so
/// others ask whether the host still runs any. SSH has probes of its own, and this machine needs none.
async fn lost(
    connection: &dyn Connection,
    target: &Target,
    limits: Heartbeat,
    heard: &Notify,
    quiet: impl Fn(),
) -> Duration {
    if target.kind != Kind::Exec {
        return std::future::pending().await;
    }
    loop {
        let answered = async {
            loop {
                sleep(limits.quiet / 2).await;
                // A failure is repeated: a paused container refuses commands.
                if succeeds(connection, ":").await {
                    return;
                }
            }
        };
        let silence = async {
            sleep(limits.quiet).await;
            quiet();
            match limits.lost {
                Some(lost) => sleep(lost.saturating_sub(limits.quiet)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = heard.notified() => {}
            () = answered => {}
            () = silence => return limits.lost.unwrap_or_default(),
        }
    }
}

/// Whether the host runs a command with success.
async fn succeeds(connection: &dyn Connection, command: &str) -> bool {
    let Ok(Duplex { input: _input, mut output }) = connection.shell(command, false).await else { return false };
    while let Some(piece) = output.next().await {
        if let Piece::Exit(exit) = piece {
            return exit == Exit::Status(0);
        }
    }
    false
}

fn silent(target: &Target, lost: Duration) -> Error {
    let (host, seconds) = (&target.name, lost.as_secs());
    let message = format!(
        "{host} did not answer for {seconds} s (`heartbeat_timeout`) while a command ran there, which was given up"
    );
    Error::Indeterminate { message, rebooted: None }
}

/// Counts a command over SSH until it is dropped.
struct Counted(());

impl Counted {
    fn new() -> Self {
        ON_HOSTS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ON_HOSTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Stops its command if dropped before the command has ended.
struct Stoppable {
    running: Option<Running>,
    counted: Option<(OwnedRwLockReadGuard<()>, Option<Counted>)>,
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        if let (Some(mut running), counted) = (self.running.take(), self.counted.take())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                running.stop().await;
                drop(counted);
            });
        }
    }
}

/// Starts the command, as the become user if one is set.
async fn start(connection: Arc<dyn Connection>, target: &Arc<Target>, raw: &RawCommand) -> Result<Running, RawFailure> {
    let word = random_word()?;
    let command = match &raw.executable {
        Some(executable) => format!("{executable} -c {}", quote(&raw.command)),
        None => raw.command.clone(),
    };
    let (command, pty) = match &raw.become_user {
        Some(other) => (become_command(other, &command, &word), raw.pty || needs_terminal(other)),
        None => (command, raw.pty),
    };
    let mut duplex = connection.shell(&command, pty).await.map_err(RawFailure::Connection)?;
    duplex.output.terminate_on_drop();
    let mut running = Running {
        target: target.clone(),
        connection,
        become_user: raw.become_user.clone(),
        duplex,
        streams: Streams::default(),
        exit: None,
        shell: None,
        pty,
        heard: Arc::default(),
    };
    if let Some(other) = &raw.become_user {
        running.become_user(other, &word).await?;
    }
    Ok(running)
}

/// A running command with its streams.
pub struct Opened {
    /// Its streams.
    pub duplex: Duplex,
    /// Output that arrived while it was started.
    pub early: Vec<u8>,
    /// Completes with an error once the host does not answer any more. Keeps the connection open.
    pub lost: Pending<'static, Error>,
}

/// Starts the command on a connection and returns its streams.
pub(super) async fn open(
    connection: Arc<dyn Connection>,
    target: &Arc<Target>,
    raw: &RawCommand,
    limits: Heartbeat,
) -> Result<Opened, RawFailure> {
    let Running { duplex, streams, connection, target, .. } = start(connection, target, raw).await?;
    let lost = Box::pin(async move {
        let lost = lost(connection.as_ref(), &target, limits, &Notify::new(), || {}).await;
        silent(&target, lost)
    });
    Ok(Opened { duplex, early: streams.stdout, lost })
}

/// Reason why a bare command was not run. A `Connection` error may be overcome with a connection of its own.
#[derive(Debug)]
pub(super) enum RawFailure {
    Connection(connection::Error),
    Error(Error),
}

impl From<Error> for RawFailure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Output of the command, each stream up to [`KEEP`] bytes.
#[derive(Default)]
struct Streams {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    left_out: u64,
}

impl Streams {
    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let (first, rest) = bytes.split_at(KEEP.saturating_sub(kept.len()).min(bytes.len()));
        kept.extend_from_slice(first);
        self.left_out += rest.len() as u64;
    }
}

struct Running {
    target: Arc<Target>,
    connection: Arc<dyn Connection>,
    become_user: Option<Become>,
    duplex: Duplex,
    streams: Streams,
    exit: Option<Exit>,
    /// Process of the become user's shell.
    shell: Option<u32>,
    /// Whether standard error is merged into standard output.
    pty: bool,
    /// Notified of each piece of output.
    heard: Arc<Notify>,
}

impl Running {
    /// Receives the next piece of output. Returns its stream and size in bytes, or `None` at the end.
    async fn receive(&mut self) -> Option<(Stream, usize)> {
        loop {
            match self.duplex.output.next().await? {
                Piece::Stdout(bytes) => {
                    self.streams.keep(Stream::Stdout, &bytes);
                    return Some((Stream::Stdout, bytes.len()));
                }
                Piece::Stderr(bytes) => {
                    self.streams.keep(Stream::Stderr, &bytes);
                    return Some((Stream::Stderr, bytes.len()));
                }
                Piece::Exit(exit) => self.exit = Some(exit),
                Piece::Refused => {
                    self.streams.stderr.extend_from_slice(b"the server refused to run a command");
                    return None;
                }
            }
        }
    }

    /// Answers the password prompt once, and waits until the become user's shell has started.
    async fn become_user(&mut self, other: &Become, word: &str) -> Result<(), Error> {
        let limit = Duration::from_secs(other.timeout.max(1));
        let failed = |reason: String| Error::Become {
            message: format!("{} to {} failed on {}: {reason}", other.method, other.user, self.target.name),
        };
        let failed_late = failed(format!(
            "it neither started nor was seen to ask for a password itself within {} s",
            limit.as_secs()
        ));
        match timeout(limit, self.wait_for_begin(other, word)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(Error::Become {
                message: format!("{} to {} failed on {}: {reason}", other.method, other.user, self.target.name),
            }),
            Err(_) => Err(failed_late),
        }
    }

    async fn wait_for_begin(&mut self, other: &Become, word: &str) -> Result<(), String> {
        let begin = format!("{BEGIN_MARKER}{word} ");
        let (mut answered, mut asker) = (false, Asker::Unknown);
        loop {
            if let Some(position) = find(&self.streams.stdout, begin.as_bytes()) {
                let line = position + begin.len();
                if let Some(length) = find(&self.streams.stdout[line..], b"\n") {
                    self.shell = std::str::from_utf8(&self.streams.stdout[line..line + length])
                        .ok()
                        .and_then(|process| process.trim_end().parse().ok());
                    self.streams.stdout.drain(..=line + length);
                    self.streams.stderr.clear();
                    return Ok(());
                }
            }
            if self.streams.stdout.len() > NOISE {
                return Err("the login shell prints without end instead of becoming the user".to_owned());
            }
            // In this stream, the reports precede everything that the become user's programs print.
            let stream = if self.pty { &mut self.streams.stdout } else { &mut self.streams.stderr };
            asker.read(stream, word);
            let asked = asks_for_password(stream, other, word)
                || other.password.is_none() && asks_for_password(&self.streams.stdout, other, word);
            if asked {
                let password = other.password.as_ref().ok_or("it asks for a password and none is given")?;
                if self.waits(&mut asker).await {
                    if answered {
                        // A second wrong answer may lock the account.
                        return Err("the password is wrong".to_owned());
                    }
                    answered = true;
                    self.streams.stdout.clear();
                    self.streams.stderr.clear();
                    self.duplex.input.send(password.line().to_vec()).await;
                }
            }
            if self.receive().await.is_none() {
                let said = [&self.streams.stdout, &self.streams.stderr]
                    .map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned())
                    .join(" ");
                let hint = if answered { "the password is wrong, or " } else { "" };
                return Err(format!("{hint}it was refused: {}", said.trim()));
            }
        }
    }

    /// Whether the method itself waits for the password. The become user's programs can print every prompt.
    async fn waits(&self, asker: &mut Asker) -> bool {
        if let Asker::Process(method) = *asker
            && !succeeds(self.connection.as_ref(), &is_alone(method)).await
        {
            *asker = Asker::Nobody;
        }
        matches!(asker, Asker::Validation | Asker::Process(_))
    }

    /// Ends the command: SIGTERM, then SIGKILL. Returns whether all processes of its group are known to have ended.
    async fn stop(&mut self) -> bool {
        let group = match &self.duplex.output {
            Output::Process(_, group) if self.become_user.is_none() => *group,
            _ => {
                let ended = self.stop_by_shell().await;
                if !ended {
                    // Not all servers can run a second shell or have /proc, but this request is not confirmed.
                    self.duplex.output.signal(Signal::Term).await;
                    let output = async { while self.duplex.output.next().await.is_some() {} };
                    if timeout(GRACE, output).await.is_err() {
                        self.duplex.output.signal(Signal::Kill).await;
                    }
                }
                return ended;
            }
        };
        for signal in [Signal::Term, Signal::Kill] {
            self.duplex.output.signal(signal).await;
            let ended = async {
                // Processes that wait for a reader would not end.
                while self.duplex.output.next().await.is_some() {}
                while group.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            if timeout(GRACE, ended).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Ends the command's process group from a second shell on its connection. SSH's own request does not suffice:
    /// OpenSSH ignores it for root, and can signal only processes of the login user.
    async fn stop_by_shell(&self) -> bool {
        let find = match (&self.become_user, self.shell) {
            (Some(_), Some(shell)) => format!("stat /proc/{shell}\n"),
            (Some(_), None) => return false,
            (None, _) => FIND_SIBLING.to_owned(),
        };
        let stop = RawCommand {
            command: format!("exec /bin/sh -c {}", quote(&format!("{STAT}{find}{STOP_GROUP}"))),
            become_user: self.become_user.clone(),
            ..RawCommand::default()
        };
        let work = async {
            let started = start(self.connection.clone(), &self.target, &stop).await;
            started.ok()?.finish(Vec::new(), None).await.ok()
        };
        matches!(timeout(STOP_DEADLINE, work).await, Ok(Some(RawOutput { status: 0, .. })))
    }

    async fn finish(&mut self, input: Vec<u8>, events: Option<&mpsc::Sender<TaskEvent>>) -> Result<RawOutput, Error> {
        if let (Some(events), false) = (events, self.streams.stdout.is_empty()) {
            let _ = events.send(TaskEvent::Output { stream: Stream::Stdout, bytes: self.streams.stdout.clone() }).await;
        }
        let duplex = &mut self.duplex;
        // Input is sent concurrently, because a command may write output before it has read all input.
        let (pipe, output) = (&mut duplex.input, &mut duplex.output);
        let mut feeding = std::pin::pin!(async move {
            if !input.is_empty() {
                pipe.send(input).await;
            }
            pipe.finish().await;
        });
        let mut fed = false;
        loop {
            let piece = tokio::select! {
                () = &mut feeding, if !fed => { fed = true; continue; }
                piece = output.next() => piece,
            };
            let (stream, bytes) = match piece {
                Some(Piece::Stdout(bytes)) => (Stream::Stdout, bytes),
                Some(Piece::Stderr(bytes)) => (Stream::Stderr, bytes),
                Some(Piece::Exit(exit)) => {
                    self.exit = Some(exit);
                    continue;
                }
                Some(Piece::Refused) => {
                    let message = format!("the SSH server of {} refused to run a command", self.target.name);
                    return Err(Error::Unreachable { message });
                }
                None => break,
            };
            self.heard.notify_one();
            self.streams.keep(stream, &bytes);
            if let Some(events) = events {
                // An error means that the receiver was dropped.
                let _ = events.send(TaskEvent::Output { stream, bytes }).await;
            }
        }
        let status = match &self.exit {
            Some(Exit::Status(status)) => *status,
            Some(Exit::Signal(_)) => 128,
            None => {
                let message = format!("the connection to {} was lost while a command ran", self.target.name);
                return Err(Error::Indeterminate { message, rebooted: None });
            }
        };
        let Streams { stdout, stderr, left_out } = std::mem::take(&mut self.streams);
        Ok(RawOutput { status, stdout, stderr, left_out })
    }
}
