//! Locks of package managers and the processes that hold them, found without starting a program.
//!
//! Each manager locks in its own way; the sources of dnf 4, libdnf5, rpm, libzypp, libalpm and apk-tools show it.

use std::{
    fmt,
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::{Failure, Host};

/// Way in which a manager locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// By `fcntl`: apt, dpkg, dnf 5 and rpm.
    Record,
    /// By `flock`: apk.
    Whole,
    /// By creating the file, which stays open: pacman.
    Presence,
    /// By writing its process id into the file: dnf 4 and zypper.
    Number,
}

/// A lock file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lock<'a> {
    pub(super) path: &'a str,
    pub(super) kind: Kind,
}

const fn lock(path: &str, kind: Kind) -> Lock<'_> {
    Lock { path, kind }
}

pub(super) const APT: &[Lock<'_>] = &[
    lock("/var/lib/dpkg/lock-frontend", Kind::Record),
    lock("/var/lib/dpkg/lock", Kind::Record),
    lock("/var/lib/apt/lists/lock", Kind::Record),
    lock("/var/cache/apt/archives/lock", Kind::Record),
];
pub(super) const DNF: &[Lock<'_>] = &[
    lock("/var/cache/dnf/metadata_lock.pid", Kind::Number),
    lock("/var/cache/dnf/download_lock.pid", Kind::Number),
    lock("/var/lib/dnf/rpmdb_lock.pid", Kind::Number),
    lock("/run/dnf/rpmtransaction.lock", Kind::Record),
    lock("/var/lib/rpm/.rpm.lock", Kind::Record),
    lock("/usr/lib/sysimage/rpm/.rpm.lock", Kind::Record),
];
pub(super) const ZYPPER: &[Lock<'_>] = &[lock("/run/zypp.pid", Kind::Number)];
pub(super) const PACMAN: &[Lock<'_>] = &[lock("/var/lib/pacman/db.lck", Kind::Presence)];
pub(super) const APK: &[Lock<'_>] = &[lock("/lib/apk/db/lock", Kind::Whole), lock("/usr/lib/apk/db/lock", Kind::Whole)];

/// A held lock, and its holder if that is visible from here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held<'a> {
    path: &'a str,
    /// Number and name of the process.
    process: Option<(u32, String)>,
}

impl fmt::Display for Held<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some((process, name)) => write!(formatter, "process {process} ({name}), which holds {}", self.path),
            None => write!(formatter, "an unknown process, which holds {}", self.path),
        }
    }
}

/// The first of the locks that another process holds.
pub(super) fn held<'a>(locks: &[Lock<'a>]) -> Option<Held<'a>> {
    locks.iter().find_map(Lock::held)
}

impl<'a> Lock<'a> {
    fn held(&self) -> Option<Held<'a>> {
        let path = fs::canonicalize(self.path).ok()?;
        let named = |process: u32| {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            Held { path: self.path, process: Some((process, name.trim().to_owned())) }
        };
        let holder = || processes_with(&path).find(|process| *process != std::process::id());
        match self.kind {
            Kind::Presence => Some(holder().map_or(Held { path: self.path, process: None }, named)),
            Kind::Number => {
                let text = fs::read_to_string(&path).ok()?;
                let process = text.split_whitespace().next()?.parse().ok()?;
                Path::new("/proc").join(format!("{process}")).exists().then(|| named(process))
            }
            Kind::Record => {
                // Readers of a database share its lock with each other.
                let asked = Flock::from(FlockType::ReadLock);
                let found = fcntl_getlk(File::open(&path).ok()?, &asked).ok()??;
                let process = found.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
                Some(process.map_or(Held { path: self.path, process: None }, named))
            }
            Kind::Whole => {
                // Only taking the lock shows whether it is held. That could disturb a manager that starts, so it is
                // tried only if a likely holder runs.
                let process = holder()?;
                let file = File::open(&path).ok()?;
                if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                    let _ = flock(&file, FlockOperation::Unlock);
                    return None;
                }
                Some(named(process))
            }
        }
    }
}

fn processes_with(path: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(move |number| {
        let files = fs::read_dir(format!("/proc/{number}/fd"));
        files.is_ok_and(|files| files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == path)))
    })
}

/// Waits until no process holds a lock. Reports the holder immediately, and again after the time limit, in a failure
/// that begins with `refusal`.
pub(super) fn wait(locks: &[Lock<'_>], limit: Duration, refusal: &str, host: &Host) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut is_reported = false;
    while let Some(held) = held(locks) {
        host.check_cancelled()?;
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "{refusal}: waited {} seconds for {held}. Wait for it to end, or raise lock_timeout.",
                limit.as_secs()
            )));
        }
        if !is_reported {
            host.warn(format!("Waiting for {held}."));
            is_reported = true;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Adds the holder of a lock to the failure of a manager that does not wait for it.
pub(super) fn explain(mut failure: Failure, locks: &[Lock<'_>]) -> Failure {
    let sentence = match held(locks) {
        None => return failure,
        Some(Held { path, process: None }) => format!(
            "No process has {path} open: an interrupted package manager left it. Remove it once no package manager runs"
        ),
        Some(held) => format!("Wait for {held}"),
    };
    failure.message = format!("{}. {sentence}.", failure.message.trim_end_matches('.'));
    failure
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Takes a record lock for writing.
    const RECORD: &str =
        "open(F, '+<', $ARGV[0]); $l = pack('s s l! l! i', F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $l) or die";

    /// A process that holds a lock as a script of perl takes it. Every Debian has perl.
    fn holding(path: &str, script: &str) -> Option<Child> {
        let script = format!("use Fcntl ':DEFAULT', ':flock'; {script}; print \"locked\\n\"; close STDOUT; sleep 60");
        let child = Command::new("perl").args(["-e", &script, path]).stdout(Stdio::piped()).spawn();
        let mut child = child.ok()?;
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert_eq!(printed, "locked\n");
        Some(child)
    }

    #[test]
    fn lock_holder_found() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, file, script) in [
            (Kind::Record, "record", RECORD),
            (Kind::Whole, "whole", "open(F, '+<', $ARGV[0]); flock(F, LOCK_EX) or die"),
            (Kind::Presence, "presence", "sysopen(F, $ARGV[0], O_WRONLY | O_CREAT | O_EXCL) or die"),
            (Kind::Number, "number", "open(F, '>', $ARGV[0]); print F \"$$\\n\"; close F"),
        ] {
            let path = folder.path().join(file);
            let path = path.to_str().unwrap();
            let locks = [lock(path, kind)];
            assert_eq!(held(&locks), None);
            if kind != Kind::Presence {
                fs::write(path, "").unwrap();
                assert_eq!(held(&locks), None, "{kind:?}");
            }
            let Some(mut child) = holding(path, script) else { return };
            let found = held(&locks).unwrap().to_string();
            assert_eq!(found, format!("process {} (perl), which holds {path}", child.id()), "{kind:?}");
            let failure = explain(Failure::new("failed to lock database"), &locks);
            assert_eq!(failure.message, format!("failed to lock database. Wait for {found}."));
            child.kill().unwrap();
            child.wait().unwrap();
            let left = held(&locks).map(|held| held.process);
            assert_eq!(left, (kind == Kind::Presence).then_some(None), "{kind:?}");
        }
        let path = folder.path().join("presence");
        let failure = explain(Failure::new("Failed."), &[lock(path.to_str().unwrap(), Kind::Presence)]);
        assert!(failure.message.starts_with("Failed. No process has ") && failure.message.contains("Remove it"));
    }

    /// A process may have the file open without a lock on it.
    #[test]
    fn process_with_an_open_file_is_not_taken_for_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        let path = path.to_str().unwrap();
        let Some(mut reader) = holding(path, "open(F, '<', $ARGV[0]) or die") else { return };
        let mut holder = holding(path, RECORD).unwrap();
        let found = held(&[lock(path, Kind::Record)]).unwrap();
        assert_eq!(found.process, Some((holder.id(), "perl".to_owned())));
        for child in [&mut reader, &mut holder] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn lock_shared_by_readers_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        let path = path.to_str().unwrap();
        let script =
            "open(F, '<', $ARGV[0]); $l = pack('s s l! l! i', F_RDLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $l) or die";
        let Some(mut child) = holding(path, script) else { return };
        assert_eq!(held(&[lock(path, Kind::Record)]), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn wait_ends_with_the_name_of_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let path = path.to_str().unwrap();
        fs::write(path, format!("{}\n", std::process::id())).unwrap();
        let locks = [lock(path, Kind::Number)];
        let host = Host::alone();
        let failure = wait(&locks, Duration::ZERO, "dnf lockfile is held by another process", &host).unwrap_err();
        let start =
            format!("dnf lockfile is held by another process: waited 0 seconds for process {}", std::process::id());
        assert!(failure.message.starts_with(&start), "{}", failure.message);
        fs::remove_file(path).unwrap();
        assert!(wait(&locks, Duration::ZERO, "", &host).is_ok());
    }
}
