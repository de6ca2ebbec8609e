//! Processes of a stage, which has its own process namespace.

use std::fs;
use std::process::Command;

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    parent: u32,
    uid: u32,
    name: String,
    words: Vec<String>,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        if field("State:")? == "Z" {
            return None;
        }
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let (parent, uid) = (field("PPid:")?.parse().ok()?, field("Uid:")?.parse().ok()?);
        Some(Self { pid, parent, uid, name: field("Name:")?.to_owned(), words })
    }

    /// Whether this is an executor, by its file.
    fn is_executor(&self) -> bool {
        self.words.first().is_some_and(|word| word.contains("/.windlass-"))
    }

    pub(crate) fn is_roots_executor(&self) -> bool {
        self.is_executor() && self.uid == 0
    }

    pub(crate) fn is_elevated(&self) -> bool {
        self.is_executor() && self.uid != 0
    }

    pub(crate) fn is_sudo(&self) -> bool {
        self.name == "sudo"
    }

    /// Whether this process serves a connection of the server.
    pub(crate) fn is_session_of(&self, server: u32) -> bool {
        self.name.starts_with("sshd") && self.pid != server && self.parent == server
    }

    /// Whether a run must not leave this process behind.
    pub(crate) fn is_of_a_run(&self) -> bool {
        self.is_executor() || self.is_sudo() || self.name.starts_with("windlass")
    }
}

pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// Kills a process of the stage; it may have exited already.
pub(crate) fn kill(pid: u32) {
    assert!(pid > 1);
    Command::new("kill").args(["-KILL", &pid.to_string()]).output().unwrap();
}
