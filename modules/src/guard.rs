//! Stops the processes of tasks when the process that started them can no longer do so.
//!
//! An executor stops what its tasks run when the controller is gone. One that was killed cannot, and neither can one
//! that is suspended. So before its first process, it starts a guard: this program again, in a session of its own. The
//! guard gets the process group of every process of a running task, and stops these groups once its owner has died.
//!
//! A task that ends takes its group off the list. So programs that it left running on purpose stay, as do daemons that
//! started a session of their own.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, getppid, kill_process, kill_process_group, setsid, test_kill_process_group},
};

use crate::process::GRACE;

/// Name of a guard in a list of processes.
const NAME: &str = "windlass-guard";
/// Time for an executor to end once its controller is gone, before it is assumed to be suspended and is continued.
const SUSPENDED: Duration = Duration::from_secs(3);
/// Time for an executor to end once its controller is gone, before the guard stops the processes itself.
const HUNG: Duration = Duration::from_secs(15);
/// Bytes of a record: whether a group is added, and its number.
const RECORD: usize = 5;

/// The guard of this process.
struct Guard {
    /// Verb of this program that runs a guard.
    verb: OsString,
    /// Input that ends with the controller; only watched.
    channel: Option<OwnedFd>,
    running: Option<Started>,
    groups: BTreeSet<i32>,
}

struct Started {
    child: Child,
    /// Ends with this process, whatever ends it.
    lifeline: ChildStdin,
}

static GUARD: Mutex<Option<Guard>> = Mutex::new(None);

/// Protects the processes that this process starts from now on. `verb` is the argument with which this program calls
/// [`run`]; the owner's process id follows it. `channel` is the input whose end this process should notice.
pub fn install(verb: &str, channel: Option<OwnedFd>) {
    locked().get_or_insert_with(|| Guard { verb: verb.into(), channel, running: None, groups: BTreeSet::new() });
}

/// Ends the guard. Processes of tasks that are still running are stopped.
pub(crate) fn end() {
    let Some(Guard { running: Some(Started { mut child, lifeline }), groups, .. }) = locked().take() else { return };
    drop(lifeline);
    if groups.is_empty() {
        let _ = child.wait();
    }
}

/// Starts the guard, so that [`watch`] takes no time: a process that starts next is unprotected until then.
pub fn prepare() {
    if let Some(guard) = locked().as_mut().filter(|guard| guard.running.is_none()) {
        guard.running = guard.start().ok();
    }
}

/// A process group that must not outlive this process; dropping it lets the group live.
#[derive(Debug)]
pub struct Watched(i32);

/// Stops a process group should this process die first. Without [`install`] it has no effect.
pub fn watch(group: Pid) -> Watched {
    let group = group.as_raw_nonzero().get();
    if let Some(guard) = locked().as_mut() {
        guard.groups.insert(group);
        guard.tell(true, group);
    }
    Watched(group)
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(guard) = locked().as_mut() {
            guard.groups.remove(&self.0);
            guard.tell(false, self.0);
        }
    }
}

/// A panicking thread leaves no half-updated data under this lock.
fn locked() -> MutexGuard<'static, Option<Guard>> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(is_added: bool, group: i32) -> [u8; RECORD] {
    let [a, b, c, d] = group.to_le_bytes();
    [is_added.into(), a, b, c, d]
}

impl Guard {
    /// Passes a change of the list on. A guard that does not read is replaced: its list would be outdated.
    fn tell(&mut self, is_added: bool, group: i32) {
        if let Some(started) = &mut self.running {
            if started.lifeline.write_all(&record(is_added, group)).is_ok() {
                return;
            }
            let _ = started.child.kill();
            let _ = started.child.wait();
            self.running = None;
        }
        if !self.groups.is_empty() {
            // Without a guard, a task still runs; only a killed executor would leave its processes behind.
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
            .stdin(Stdio::piped())
            .stdout(channel)
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        let mut lifeline = child.stdin.take().ok_or_else(|| io::Error::other("the guard has no input"))?;
        // A guard that does not run must not make tasks wait.
        let flags = rustix::fs::fcntl_getfl(&lifeline)?;
        rustix::fs::fcntl_setfl(&lifeline, flags | rustix::fs::OFlags::NONBLOCK)?;
        for group in &self.groups {
            lifeline.write_all(&record(true, *group))?;
        }
        Ok(Started { child, lifeline })
    }
}

/// Guards the process with this id: reads its list from standard input, and stops the groups on it once that ends.
/// Standard output is the owner's channel, on which nothing is written.
pub fn run(owner: &str) {
    // Signals for the owner's session must not reach its guard.
    let _ = setsid();
    let _ = rustix::thread::set_name(c"windlass-guard");
    let owner = owner.parse().ok().and_then(Pid::from_raw);
    let groups = until_gone(owner);
    // Whoever reads from the owner must learn of its end now.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
    stop(groups);
}

/// Follows the list until the owner is gone or hangs, and returns the groups on it.
fn until_gone(owner: Option<Pid>) -> BTreeSet<i32> {
    let (mut groups, mut unread) = (BTreeSet::new(), Vec::new());
    let (mut hung_up, mut is_continued): (Option<Instant>, bool) = (None, false);
    loop {
        let mut polled = vec![PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        let wait = match hung_up {
            None => {
                polled.push(PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::RDHUP));
                None
            }
            Some(since) => {
                let limit = if is_continued { HUNG } else { SUSPENDED };
                let left = limit.saturating_sub(since.elapsed());
                Some(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() })
            }
        };
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return groups,
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.first() == Some(&true) {
            let mut buffer = [0; 1024];
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(count @ 1..) => unread.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return groups,
            }
            let (records, rest) = unread.as_chunks::<RECORD>();
            for [is_added, number @ ..] in records {
                let group = i32::from_le_bytes(*number);
                let _ = if *is_added == 1 { groups.insert(group) } else { groups.remove(&group) };
            }
            unread = rest.to_vec();
        }
        match hung_up {
            None if ready.get(1) == Some(&true) => hung_up = Some(Instant::now()),
            None => {}
            Some(since) if since.elapsed() >= HUNG => return groups,
            Some(since) if since.elapsed() >= SUSPENDED && !is_continued => {
                is_continued = true;
                // A suspended owner notices the end of its input once it is continued, and ends in order.
                if let Some(owner) = owner.filter(|owner| getppid() == Some(*owner)) {
                    let _ = kill_process(owner, Signal::CONT);
                }
            }
            Some(_) => {}
        }
    }
}

/// Stops process groups: TERM, then KILL.
fn stop(groups: BTreeSet<i32>) {
    // The numbers 0 and 1 stand for other processes than those of a task.
    let mut groups: Vec<Pid> = groups.into_iter().filter(|group| *group > 1).filter_map(Pid::from_raw).collect();
    for group in &groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    loop {
        // The number of a group that has ended may belong to another one later.
        groups.retain(|group| test_kill_process_group(*group).is_ok());
        if groups.is_empty() || Instant::now() >= deadline {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    for group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
