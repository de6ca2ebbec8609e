//! The lead's door: where workers come from, and who each of them is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Interval, interval, sleep, timeout};

use super::keys::OfLead;
use super::wire::{Reader, Writer};
use super::{HANDSHAKE, LOOK};
use crate::error::{Error, Result};
use crate::output::{Event, Events};

/// Maximum size of a line that a worker prints as an error, in bytes.
const LINE: u64 = 4096;
/// Maximum number of handshakes at the same time, beside one of every worker. Further connections are closed.
const HANDSHAKES: usize = 64;

/// Where the workers of a run are.
#[derive(Debug)]
pub(crate) enum Workers {
    /// Processes of this machine, which the lead starts with its own command line.
    Processes(CommandLine),
    /// Pods, which connect to this address. The keys lie in a folder.
    Pods { listen: SocketAddr, keys: PathBuf },
}

/// The command line of the run, which all its processes have.
#[derive(Debug)]
pub(crate) struct CommandLine {
    /// Name under which the program was called.
    pub(crate) program: OsString,
    /// Words before `--`.
    pub(crate) options: Vec<OsString>,
    /// `--` and what follows.
    pub(crate) rest: Vec<OsString>,
}

/// A worker that has connected.
pub(super) struct Came {
    pub(super) index: usize,
    pub(super) from: Reader,
    pub(super) to: Writer,
    /// Its process, if it is one of this machine.
    pub(super) child: Option<Child>,
}

/// News at the door.
pub(super) enum News {
    Came(Came),
    /// A process has ended before it connected.
    Ended(usize, ExitStatus),
}

/// A place where workers connect.
pub(super) enum Door {
    Processes {
        listener: UnixListener,
        _directory: TempDir,
        /// Processes that have not connected, by their ids.
        started: HashMap<u32, (usize, Child)>,
        looking: Interval,
    },
    Pods {
        listener: TcpListener,
        keys: OfLead,
        handshakes: JoinSet<Option<Came>>,
        most: usize,
    },
}

impl Door {
    /// Opens it, and starts as many processes, if these are the workers.
    pub(super) fn open(workers: &Workers, count: usize, events: &Events) -> Result<Door> {
        match workers {
            Workers::Processes(line) => start(line, count, events)
                .map_err(|error| Error::new(format!("the processes of --shards cannot be started: {error}"))),
            Workers::Pods { listen, keys } => {
                let fail = |error: io::Error| Error::new(format!("workers cannot connect to {listen}: {error}"));
                let listener = std::net::TcpListener::bind(listen).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                let listener = TcpListener::from_std(listener).map_err(fail)?;
                let (handshakes, most) = (JoinSet::new(), HANDSHAKES + count);
                Ok(Door::Pods { listener, keys: OfLead::read(keys)?, handshakes, most })
            }
        }
    }

    /// Whether workers that are lost can be replaced.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Door::Pods { .. })
    }

    /// The next news; `None` if there will be no more. May be dropped.
    pub(super) async fn next(&mut self) -> Option<News> {
        match self {
            Door::Processes { listener, started, looking, .. } => {
                while !started.is_empty() {
                    tokio::select! {
                        accepted = listener.accept() => {
                            let (stream, _) = accepted.ok()?;
                            // Other processes of this user could connect too.
                            let pid = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
                            if let Some((index, child)) = pid.and_then(|pid| started.remove(&pid)) {
                                let (from, to) = stream.into_split();
                                let (from, to) = (Box::new(from), Box::new(to));
                                return Some(News::Came(Came { index, from, to, child: Some(child) }));
                            }
                        }
                        _ = looking.tick() => {
                            if let Some((index, status)) = ended(started) {
                                return Some(News::Ended(index, status));
                            }
                        }
                    }
                }
                None
            }
            Door::Pods { listener, keys, handshakes, most } => loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) if handshakes.len() < *most => {
                            handshakes.spawn(greet(keys.clone(), stream));
                        }
                        Ok(_) => {}
                        // For example, for lack of descriptors.
                        Err(_) => sleep(LOOK).await,
                    },
                    Some(done) = handshakes.join_next() => {
                        if let Ok(Some(came)) = done {
                            return Some(News::Came(came));
                        }
                    }
                }
            },
        }
    }
}

/// Makes the handshake of a connection from another pod; `None` if it is not a worker's.
async fn greet(keys: OfLead, stream: TcpStream) -> Option<Came> {
    let _ = stream.set_nodelay(true);
    let (index, stream) = timeout(HANDSHAKE, keys.accept(stream)).await.ok()?.ok()?;
    let (from, to) = tokio::io::split(stream);
    Some(Came { index, from: Box::new(from), to: Box::new(to), child: None })
}

/// Starts processes that run the same command line.
fn start(line: &CommandLine, count: usize, events: &Events) -> io::Result<Door> {
    // Only its owner may enter the directory.
    let directory = TempDir::with_prefix("windlass-shards.")?;
    let socket = directory.path().join("lead");
    let listener = UnixListener::bind(&socket)?;
    let program = crate::own_program::own_program()?;
    let mut started = HashMap::new();
    for index in 0..count {
        let mut command = Command::new(&program);
        command
            .arg0(&line.program)
            .args(&line.options)
            .arg(format!("--shard-of={}", socket.display()))
            .args(&line.rest);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(print_errors(index + 2, errors, events.clone()));
        }
        started.insert(child.id().unwrap_or_default(), (index, child));
    }
    Ok(Door::Processes { listener, _directory: directory, started, looking: interval(LOOK) })
}

/// Removes a process that has ended, and returns how.
fn ended(started: &mut HashMap<u32, (usize, Child)>) -> Option<(usize, ExitStatus)> {
    let mut ended = started.iter_mut().filter_map(|(pid, (_, child))| Some((*pid, child.try_wait().ok()??)));
    let (pid, status) = ended.next()?;
    started.remove(&pid).map(|(index, _)| (index, status))
}

/// Passes on what a worker prints as errors.
async fn print_errors(number: usize, errors: tokio::process::ChildStderr, events: Events) {
    let mut lines = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LINE).read_until(b'\n', &mut line).await {
            Ok(1..) => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                let _ = events.send(Event::Warning(format!("process {number} of the run: {text}")));
            }
            _ => return,
        }
    }
}
