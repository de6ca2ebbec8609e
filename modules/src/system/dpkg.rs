//! State of dpkg's database and holders of its locks, read without starting a process.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::{Failure, Host, facts::Root};

/// A package in dpkg's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) version: String,
    /// Unpacked and configured; a package of which only configuration files remain does not count.
    pub(super) installed: bool,
    pub(super) held: bool,
}

/// Packages by name; packages of a foreign architecture by `name:architecture`.
#[derive(Debug, Default)]
pub(super) struct Database {
    packages: BTreeMap<String, Installed>,
    provided: BTreeMap<String, Vec<String>>,
    /// Packages with an interrupted installation.
    pub(super) broken: Vec<String>,
}

impl Database {
    /// Reads the status file.
    pub(super) fn parse(status: &str) -> Database {
        let mut database = Database::default();
        for fields in crate::facts::package_facts::paragraphs(status) {
            let field = |key: &str| fields.get(key).copied().unwrap_or_default();
            let (name, state) = (field("Package"), field("Status"));
            let words: Vec<&str> = state.split(' ').collect();
            let (Some(want), Some(now)) = (words.first(), words.last()) else { continue };
            if name.is_empty() || *now == "not-installed" {
                continue;
            }
            if matches!(*now, "half-installed" | "unpacked" | "half-configured") {
                database.broken.push(name.to_owned());
            }
            let installed = Installed {
                version: field("Version").to_owned(),
                installed: matches!(*now, "installed" | "triggers-awaited" | "triggers-pending"),
                held: *want == "hold",
            };
            if installed.installed {
                for provided in field("Provides").split(',') {
                    let provided = provided.split('(').next().unwrap_or_default().trim();
                    if !provided.is_empty() {
                        database.provided.entry(provided.to_owned()).or_default().push(name.to_owned());
                    }
                }
            }
            database.packages.insert(format!("{name}:{}", field("Architecture")), installed.clone());
            // The plain name means the host's own architecture, which dpkg lists first.
            database.packages.entry(name.to_owned()).or_insert(installed);
        }
        database
    }

    /// Reads the host's database.
    pub(super) fn of_host() -> Database {
        Database::parse(&Root::host().read("/var/lib/dpkg/status").unwrap_or_default())
    }

    /// The entry of a package; `None` if dpkg does not know it.
    pub(super) fn package(&self, name: &str) -> Option<&Installed> {
        self.packages.get(name)
    }

    /// Version of an installed package.
    pub(super) fn version(&self, name: &str) -> Option<&str> {
        self.package(name).filter(|package| package.installed).map(|package| package.version.as_str())
    }

    /// Whether an installed package provides this name.
    pub(super) fn provides(&self, name: &str) -> bool {
        self.provided.contains_key(name)
    }

    /// Names of installed packages, without the entries that name an architecture.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.packages
            .iter()
            .filter(|(name, package)| package.installed && !name.contains(':'))
            .map(|(name, _)| name.as_str())
    }
}

/// Lock files of apt and dpkg.
const LOCKS: &[&str] =
    &["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"];

/// The first held lock: its file, and the process and name of its holder.
fn holder() -> Option<(&'static str, u32, String)> {
    LOCKS.iter().find_map(|path| {
        let process = holder_of(Path::new(path))?;
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Some((*path, process, name.trim().to_owned()))
    })
}

/// Finds the process that holds a lock on a file. Probes the lock only if some process has the file open, so that it
/// never blocks an apt that is just starting.
fn holder_of(path: &Path) -> Option<u32> {
    let process = processes_with(path).into_iter().find(|process| *process != std::process::id())?;
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            let _ = fcntl_lock(&file, FlockOperation::Unlock);
            None
        }
        Err(_) => Some(process),
    }
}

fn processes_with(path: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let files = std::fs::read_dir(format!("/proc/{number}/fd"));
        files.is_ok_and(|files| {
            files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == path))
        })
    };
    numbers.filter(has).collect()
}

/// Waits until no process holds a lock. Reports the holder at once, and again when the time is over.
pub(super) fn wait_for_locks(limit: Duration, host: &Host) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut told = false;
    while let Some((path, process, name)) = holder() {
        host.check_cancelled()?;
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "Failed to lock apt for exclusive operation: {path} has been held by process {process} ({name}) for {} seconds. Wait for it \
                 to end, or raise lock_timeout.",
                limit.as_secs()
            )));
        }
        if !told {
            host.warn(format!("Waiting for process {process} ({name}), which holds {path}."));
            told = true;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: mawk\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.3.4\nProvides: awk, mawk-any (= 1)\n\nPackage: old\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\nPackage: kept\nStatus: hold ok installed\nArchitecture: all\nVersion: 2:1.0-1\n\nPackage: half\nStatus: install ok half-configured\nArchitecture: amd64\nVersion: 3\n";

    #[test]
    fn status_file_parsed() {
        let database = Database::parse(STATUS);
        assert_eq!(database.version("mawk"), Some("1.3.4"));
        assert_eq!(database.version("mawk:amd64"), Some("1.3.4"));
        assert_eq!(database.version("old"), None);
        assert!(database.package("old").is_some() && database.package("kept").unwrap().held);
        assert!(database.provides("awk") && database.provides("mawk-any") && !database.provides("mawk"));
        assert_eq!(database.broken, ["half"]);
        assert_eq!(database.names().collect::<Vec<_>>(), ["kept", "mawk"]);
    }

    #[test]
    fn lock_holder_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "").unwrap();
        assert_eq!(holder_of(&path), None);
        // These locks belong to processes, so another process must hold one. Every Debian has perl.
        let script = "use Fcntl; open(F, '+<', $ARGV[0]); $l = pack('s s l! l! i', F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $l) or die; print \"locked\\n\"; close STDOUT; sleep 60";
        let child = std::process::Command::new("perl")
            .args(["-e", script])
            .arg(&path)
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return };
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
        assert_eq!(said, "locked\n");
        assert_eq!(holder_of(&path), Some(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(holder_of(&path), None);
    }
}
