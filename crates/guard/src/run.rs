//! The guard's own process.

use std::{
    collections::BTreeSet,
    fs::File,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, getppid, kill_process, kill_process_group, test_kill_process_group},
};

use crate::{Change, Entry, GRACE, Process, RECORD};

/// Time for an executor to end once its controller is gone, before it is assumed to be suspended and is continued.
const SUSPENDED: Duration = Duration::from_secs(3);
/// Time for an executor to end once its controller is gone, before the guard stops the processes itself.
const HUNG: Duration = Duration::from_secs(15);

/// Guards the process with this id: reads its list from standard input, and stops the processes on it once that ends.
/// Standard output is the owner's channel, on which nothing is written.
pub fn run(owner: &str) {
    let _ = rustix::thread::set_name(c"windlass-guard");
    let owner = owner.parse().ok().and_then(Pid::from_raw);
    let entries = until_gone(owner);
    // Closes the owner's channel now, so that its reader notices the end of the owner.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
    stop(entries);
}

/// Follows the list until the owner is gone or hangs, and returns what is on it.
fn until_gone(owner: Option<Pid>) -> BTreeSet<Entry> {
    let (mut entries, mut unread) = (BTreeSet::new(), Vec::new());
    let (mut hung_up, mut is_continued, mut outlives): (Option<Instant>, bool, bool) = (None, false, false);
    loop {
        let mut polled = vec![PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        let wait = match hung_up {
            None => {
                polled.push(PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::RDHUP));
                None
            }
            Some(_) if is_continued && outlives => None,
            Some(since) => {
                let limit = if is_continued { HUNG } else { SUSPENDED };
                let left = limit.saturating_sub(since.elapsed());
                Some(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() })
            }
        };
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return entries,
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.first() == Some(&true) {
            let mut buffer = [0; 1024];
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(count @ 1..) => unread.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return entries,
            }
            let (records, rest) = unread.as_chunks::<RECORD>();
            for (change, entry) in records.iter().map(Entry::from_record) {
                let _ = match change {
                    Change::Added => entries.insert(entry),
                    Change::Removed => entries.remove(&entry),
                    Change::Outlives => std::mem::replace(&mut outlives, true),
                };
            }
            unread = rest.to_vec();
        }
        match hung_up {
            None if ready.get(1) == Some(&true) => hung_up = Some(Instant::now()),
            None => {}
            Some(since) if since.elapsed() >= HUNG && !outlives => return entries,
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

/// Stops processes: TERM, then KILL.
fn stop(entries: BTreeSet<Entry>) {
    let (mut groups, mut programs) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            // The numbers 0 and 1 stand for processes that belong to no task.
            Entry::Group(group) => groups.extend(Some(group).filter(|group| *group > 1).and_then(Pid::from_raw)),
            Entry::Tree(root) => programs.push(root),
        }
    }
    // A process whose parent ends first would no longer be found.
    add_descendants(&mut programs);
    for group in &groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    for program in &programs {
        program.signal(Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    loop {
        // The number of a group that has ended may belong to another one later.
        groups.retain(|group| test_kill_process_group(*group).is_ok());
        programs.retain(|program| program.is_running());
        if (groups.is_empty() && programs.is_empty()) || Instant::now() >= deadline {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    for group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // A process that was started meanwhile is a descendant too.
    add_descendants(&mut programs);
    for program in programs {
        program.signal(Signal::KILL);
    }
}

/// Adds all descendants of these processes.
fn add_descendants(programs: &mut Vec<Process>) {
    let found: BTreeSet<Process> = programs.iter().flat_map(|program| program.descendants()).collect();
    programs.extend(found);
}
