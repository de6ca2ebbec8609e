//! Whether a become method itself asks for the password: programs of the become user share its streams, and can print
//! every prompt. Reads proc_pid_stat(5) and proc_pid_status(5), and the echo of the terminal (termios(3)).

use std::{fs, os::fd::AsFd, path::Path};

use rustix::{
    process::getuid,
    termios::{LocalModes, tcgetattr},
};

/// Whether other users' processes are visible. A `/proc` mounted with `hidepid` hides them.
pub(super) fn processes_visible() -> bool {
    stat(Path::new("/proc/1")).is_some()
}

/// Whether the process runs as root, for root or this user, and has never started another one, so that no program of
/// the become user can have printed anything yet.
///
/// Its program cannot be compared: the kernel shows `/proc/PID/exe` of a setuid program to root alone.
pub(super) fn is_alone(pid: u32) -> bool {
    let parent = pid.to_string();
    // A child that ended meanwhile is missing in the list, but its page faults count for the parent.
    let has_child = fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        stat(&entry.path()).is_some_and(|fields| fields.split(' ').nth(1).is_some_and(|found| found == parent))
    });
    let place = Path::new("/proc").join(&parent);
    let had_child = || stat(&place).is_none_or(|fields| fields.split(' ').nth(8) != Some("0"));
    // A method may execute the become user's program in its own process. That program may be setuid too, and would then
    // run as root on behalf of the become user.
    let is_root = || {
        let (other, own) = (Credentials::of(&place), Credentials::of(Path::new("/proc/self")));
        // sudo has the real user id 0. A setuid program of the become user may have it too, but keeps the groups of
        // that user.
        let is_ours = match other.real {
            Some(0) => other.groups == own.groups,
            real => real == Some(getuid().as_raw()),
        };
        is_ours && other.effective == Some(0)
    };
    !has_child && !had_child() && is_root()
}

/// Whether the terminal shows its input. Methods turn that off while they wait for a password.
pub(super) fn echoes(terminal: impl AsFd) -> bool {
    tcgetattr(terminal).is_ok_and(|settings| settings.local_modes.contains(LocalModes::ECHO))
}

/// Users of a process, and its real group with the supplementary ones.
struct Credentials {
    real: Option<u32>,
    effective: Option<u32>,
    groups: Vec<String>,
}

impl Credentials {
    fn of(process: &Path) -> Credentials {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let line = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let mut users = line("Uid:").split_whitespace().map(|user| user.parse().ok());
        let groups = line("Gid:").split_whitespace().take(1).chain(line("Groups:").split_whitespace());
        Credentials {
            real: users.next().flatten(),
            effective: users.next().flatten(),
            groups: groups.map(str::to_owned).collect(),
        }
    }
}

/// Fields after the name of a process, of which the first is its state.
fn stat(process: &Path) -> Option<String> {
    let text = fs::read_to_string(process.join("stat")).ok()?;
    text.rsplit_once(") ").map(|(_, fields)| fields.to_owned())
}
