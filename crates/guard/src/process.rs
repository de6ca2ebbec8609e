//! Processes by their id and start, and their descendants.

use std::{collections::BTreeMap, fs};

use rustix::process::{Pid, Signal, kill_process};

/// A process. Its id may belong to another process later, but not together with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Process id.
    pub(crate) id: i32,
    /// Time of its start, in clock ticks since the machine booted.
    pub(crate) start: u64,
}

/// A process in the table of all processes.
struct Row {
    process: Process,
    parent: i32,
    /// Whether the process still runs. One that has ended stays in the table until its parent reaps it.
    is_running: bool,
}

impl Row {
    fn of(id: i32) -> Option<Row> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The program's name is in parentheses and may contain parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let is_running = !matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        Some(Row { process: Process { id, start }, parent, is_running })
    }
}

impl Process {
    /// The process with this id; `None` if none exists.
    pub fn of(id: i32) -> Option<Process> {
        // Process 1 is never a program of ours, and lower numbers mean process groups.
        (id > 1).then(|| Row::of(id)).flatten().map(|row| row.process)
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(self) -> bool {
        self.id > 1 && Row::of(self.id).is_some_and(|row| row.is_running && row.process == self)
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.id).filter(|_| self.is_running()) {
            // An error means that it has ended.
            let _ = kill_process(id, signal);
        }
    }

    /// Kills it, unless it has ended.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Kills all its descendants. One that starts meanwhile may be missed.
    pub fn kill_descendants(self) {
        for descendant in self.descendants() {
            descendant.signal(Signal::KILL);
        }
    }

    /// All its descendants, parents first, without itself.
    pub(crate) fn descendants(self) -> Vec<Process> {
        if !self.is_running() {
            return Vec::new();
        }
        let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(row) = entry.file_name().to_str().and_then(|name| Row::of(name.parse().ok()?)) else { continue };
            children.entry(row.parent).or_default().push(row.process);
        }
        let (mut found, mut at) = (vec![self], 0);
        while let Some(process) = found.get(at) {
            found.extend(children.remove(&process.id).unwrap_or_default());
            at += 1;
        }
        found.split_off(1)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn own_process_found_and_running() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_running() && own.start > 0);
        let earlier = Process { start: own.start - 1, ..own };
        assert!(!earlier.is_running(), "another process had this id");
        assert_eq!((Process::of(0), Process::of(1), Process::of(-1)), (None, None, None));
    }

    #[test]
    fn grandchildren_are_descendants() {
        let mut child =
            Command::new("/bin/sh").args(["-c", "sh -c 'sleep 600; :' & wait"]).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::of(child.id().cast_signed()).unwrap();
        let mut found = Vec::new();
        for _ in 0..500 {
            found = process.descendants();
            if found.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(found.len(), 2, "{found:?}");
        child.kill().unwrap();
        // It ends soon after the signal.
        for _ in 0..500 {
            if !process.is_running() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(process.descendants(), [], "a process that has ended has none");
        child.wait().unwrap();
        for process in found {
            process.signal(Signal::KILL);
        }
    }
}
