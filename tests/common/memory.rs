//! Memory of other processes.

/// Peak of a process's resident memory in KiB (`proc_pid_status(5)`); `None` once it has ended.
pub(crate) fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
