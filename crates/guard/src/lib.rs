//! Stops processes when the process that started them can no longer do so.
//!
//! An executor stops what its tasks run when the controller is gone, and the controller stops its own programs. A
//! killed or suspended process cannot do that. So before its first process, it starts a guard: this program again, in a
//! separate process group. The guard gets every process that must not outlive its owner, and
//! stops these once its owner has died.
//!
//! A process that ends takes itself off the list. So programs that a task left running on purpose stay, as do daemons
//! that started a session of their own.
//!
//! The list arrives on a pipe that only the owner can write: the pipe has no name, no child inherits it, and neither
//! process can be inspected by others of its user.

mod process;
mod run;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;

pub use process::Process;
pub use run::run;

/// Name of a guard in a list of processes.
const NAME: &str = "windlass-guard";
/// Time between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(3);
/// Maximum time for [`end`] to wait until processes that are being started are on the list.
const STARTING: Duration = Duration::from_secs(1);
/// Size of a record in bytes: the change, the kind of entry, the id, and the start time of a process.
const RECORD: usize = 14;

/// Something that must not outlive its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// A process group.
    Group(i32),
    /// A process with its descendants, in the process group of its owner.
    Tree(Process),
}

/// The guard of this process.
struct Guard {
    /// Verb of this program that runs a guard.
    verb: OsString,
    /// Last argument of the guard, unless it is empty.
    mark: OsString,
    /// Standard input, which closes when the controller ends. The guard never reads it.
    channel: Option<OwnedFd>,
    /// Whether processes may outlive the channel, though not this process.
    outlives: bool,
    running: Option<Started>,
    entries: BTreeSet<Entry>,
}

struct Started {
    child: Child,
    /// Pipe to the guard, which closes when this process ends for any reason.
    lifeline: ChildStdin,
}

static GUARD: Mutex<Option<Guard>> = Mutex::new(None);
/// Locked for reading while a process starts, and for writing from the end of this process on.
static STARTS: RwLock<()> = RwLock::new(());
/// Whether [`STARTS`] is locked for writing until the process ends.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Protects the processes that this process starts from now on. `verb` is the argument with which this program calls
/// [`run`]; the owner's process id follows it, and then `mark`, by which others find the guard, unless it is empty.
/// `channel` is the input whose end this process should notice.
pub fn install(verb: &str, mark: &str, channel: Option<OwnedFd>) {
    let (verb, mark) = (verb.into(), mark.into());
    locked().get_or_insert_with(|| Guard {
        verb,
        mark,
        channel,
        outlives: false,
        running: None,
        entries: BTreeSet::new(),
    });
}

/// Lets processes outlive the end of the channel, though not this process. Must be called before the first [`start`]. A
/// suspended process is continued all the same, as only it can tell whether its controller has ended in order.
pub fn outlive_channel() {
    locked().iter_mut().for_each(|guard| guard.outlives = true);
}

/// Ends the guard, at the end of this process: later calls of [`start`] never return. Processes that are still on the
/// list are stopped.
pub fn end() {
    close_starts();
    let Some(Guard { running: Some(Started { mut child, lifeline }), entries, .. }) = locked().take() else { return };
    drop(lifeline);
    if entries.is_empty() {
        let _ = child.wait();
    }
}

/// Prevents further starts of processes, and waits at most [`STARTING`] for starts under way. Returns whether all of
/// them are on the list. May be called again.
fn close_starts() -> bool {
    let deadline = Instant::now() + STARTING;
    while !CLOSED.load(Ordering::Acquire) {
        match STARTS.try_write() {
            Ok(last) => {
                std::mem::forget(last);
                CLOSED.store(true, Ordering::Release);
            }
            Err(_) if Instant::now() >= deadline => return false,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    true
}

/// Start of a process that must not outlive this one. While this value exists, [`end`] waits, so that the process gets
/// onto the list.
#[must_use = "a process that starts without it may outlive this one"]
#[derive(Debug)]
pub struct Start(#[expect(dead_code, reason = "held until it is dropped")] RwLockReadGuard<'static, ()>);

/// Begins the start of a process. It starts the guard first, so that putting the process on the list takes no time.
pub fn start() -> Start {
    let starts = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(guard) = locked().as_mut().filter(|guard| guard.running.is_none()) {
        guard.running = guard.start().ok();
    }
    Start(starts)
}

impl Start {
    /// Stops a process group if this process dies first. Without [`install`] it has no effect.
    pub fn watch_group(self, group: Pid) -> Watched {
        Watched::new(Some(Entry::Group(group.as_raw_nonzero().get())))
    }

    /// Stops a child that shares this process's group, and its descendants, if this process dies first.
    /// Without [`install`] it has no effect. The child must not be reaped yet.
    ///
    /// Descendants are found by their parents. One whose parent has ended, such as a daemon, is not found.
    pub fn watch_tree(self, child: Pid) -> Watched {
        Watched::new(Process::of(child.as_raw_nonzero().get()).map(Entry::Tree))
    }
}

/// Processes that must not outlive this process; dropping it lets them live.
#[derive(Debug)]
pub struct Watched(Option<Entry>);

impl Watched {
    fn new(entry: Option<Entry>) -> Watched {
        if let (Some(entry), Some(guard)) = (entry, locked().as_mut()) {
            guard.entries.insert(entry);
            guard.pass_on(Change::Added, entry);
        }
        Watched(entry)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(entry), Some(guard)) = (self.0, locked().as_mut()) {
            guard.entries.remove(&entry);
            guard.pass_on(Change::Removed, entry);
        }
    }
}

/// A panicking thread leaves no half-updated data under this lock.
fn locked() -> MutexGuard<'static, Option<Guard>> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Change of the list of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Added,
    /// The entries may outlive the channel. Its entry means nothing.
    Outlives,
}

impl Entry {
    fn record(self, change: Change) -> [u8; RECORD] {
        let (kind, number, start) = match self {
            Entry::Group(group) => (0, group, 0),
            Entry::Tree(process) => (1, process.id, process.start),
        };
        let [a, b, c, d] = number.to_le_bytes();
        let [e, f, g, h, i, j, k, l] = start.to_le_bytes();
        [change as u8, kind, a, b, c, d, e, f, g, h, i, j, k, l]
    }

    fn from_record([change, kind, a, b, c, d, start @ ..]: &[u8; RECORD]) -> (Change, Entry) {
        let number = i32::from_le_bytes([*a, *b, *c, *d]);
        let entry = match kind {
            0 => Entry::Group(number),
            _ => Entry::Tree(Process { id: number, start: u64::from_le_bytes(*start) }),
        };
        let change = match change {
            0 => Change::Removed,
            1 => Change::Added,
            _ => Change::Outlives,
        };
        (change, entry)
    }
}

impl Guard {
    /// Passes a change of the list on. A guard that does not read is replaced: its list would be outdated.
    fn pass_on(&mut self, change: Change, entry: Entry) {
        if let Some(started) = &mut self.running {
            if started.lifeline.write_all(&entry.record(change)).is_ok() {
                return;
            }
            let _ = started.child.kill();
            let _ = started.child.wait();
            self.running = None;
        }
        if !self.entries.is_empty() {
            // Without a guard, everything still runs; only a killed owner would leave its processes behind.
            self.running = self.start().ok();
        }
    }

    /// Starts a guard with the present list.
    fn start(&self) -> io::Result<Started> {
        let channel = match &self.channel {
            Some(channel) => Stdio::from(channel.try_clone()?),
            None => Stdio::null(),
        };
        // The path that started this process may no longer exist.
        let mut child = Command::new("/proc/self/exe")
            .arg0(NAME)
            .arg(&self.verb)
            .arg(std::process::id().to_string())
            .args(Some(&self.mark).filter(|mark| !mark.is_empty()))
            .stdin(Stdio::piped())
            .stdout(channel)
            .stderr(Stdio::null())
            // An interrupt at the terminal must not reach it, not even before it runs.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let mut lifeline = child.stdin.take().ok_or_else(|| io::Error::other("the guard has no input"))?;
        // A guard that does not run must not make its owner wait.
        let flags = rustix::fs::fcntl_getfl(&lifeline)?;
        rustix::fs::fcntl_setfl(&lifeline, flags | rustix::fs::OFlags::NONBLOCK)?;
        if self.outlives {
            lifeline.write_all(&Entry::Group(0).record(Change::Outlives))?;
        }
        for entry in &self.entries {
            lifeline.write_all(&entry.record(Change::Added))?;
        }
        Ok(Started { child, lifeline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_waits_for_a_process_that_starts_but_no_second_time() {
        let start = start();
        let end = thread::spawn(end);
        thread::sleep(Duration::from_millis(50));
        assert!(!end.is_finished());
        drop(start);
        end.join().unwrap();
        assert!(STARTS.try_read().is_err(), "another process may start");
        assert!(close_starts(), "a second end waits for its deadline");
    }

    #[test]
    fn record_read_returns_entry() {
        for entry in [Entry::Group(4711), Entry::Tree(Process { id: i32::MAX, start: u64::MAX - 1 })] {
            for change in [Change::Added, Change::Removed, Change::Outlives] {
                assert_eq!(Entry::from_record(&entry.record(change)), (change, entry));
            }
        }
    }
}
