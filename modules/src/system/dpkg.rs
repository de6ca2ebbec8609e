//! What dpkg knows and who holds its locks, read without a process.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use crate::{Failure, Host, facts::Root};

/// A package as dpkg's database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) version: String,
    /// Unpacked and configured, not merely its configuration left behind.
    pub(super) installed: bool,
    pub(super) held: bool,
}

/// Packages by name, and by `name:architecture` for those of another architecture.
#[derive(Debug, Default)]
pub(super) struct Database {
    packages: BTreeMap<String, Installed>,
    provided: BTreeMap<String, Vec<String>>,
    /// Packages whose installation was interrupted.
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
            // The plain name means the host's own architecture, which dpkg lists first where there are several.
            database.packages.entry(name.to_owned()).or_insert(installed);
        }
        database
    }

    /// The host's own.
    pub(super) fn of_host() -> Database {
        Database::parse(&Root::host().read("/var/lib/dpkg/status").unwrap_or_default())
    }

    /// A package, if dpkg has ever had it.
    pub(super) fn package(&self, name: &str) -> Option<&Installed> {
        self.packages.get(name)
    }

    /// The version that is installed.
    pub(super) fn version(&self, name: &str) -> Option<&str> {
        self.package(name).filter(|package| package.installed).map(|package| package.version.as_str())
    }

    /// Whether an installed package provides this name.
    pub(super) fn provides(&self, name: &str) -> bool {
        self.provided.contains_key(name)
    }

    /// Names of installed packages, without those that name their architecture.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.packages
            .iter()
            .filter(|(name, package)| package.installed && !name.contains(':'))
            .map(|(name, _)| name.as_str())
    }
}

/// The files that apt and dpkg lock.
const LOCKS: &[&str] =
    &["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"];

/// Who holds one of the locks: the file, the process and its name.
fn holder() -> Option<(&'static str, u32, String)> {
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    LOCKS.iter().find_map(|path| {
        let inode = std::fs::metadata(path).ok()?.ino();
        let process = lock_holder(&table, inode)?;
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Some((*path, process, name.trim().to_owned()))
    })
}

/// The process that holds a write lock on the file with this inode: `1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF`.
fn lock_holder(table: &str, inode: u64) -> Option<u32> {
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "WRITE")?;
        let locked: u64 = words.get(at + 2)?.rsplit(':').next()?.parse().ok()?;
        let process: u32 = words.get(at + 1)?.parse().ok()?;
        (locked == inode && process > 0 && !line.contains("->")).then_some(process)
    })
}

/// Waits until nobody holds a lock. Who does is said at once, and again when the time is over.
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
    fn the_database_knows_what_is_there() {
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
    fn the_holder_of_a_lock_is_found_by_the_files_number() {
        let table = "1: POSIX  ADVISORY  READ  100 08:01:7 0 EOF\n2: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF\n2: -> POSIX  ADVISORY  WRITE 4712 08:01:132 0 EOF\n";
        assert_eq!(lock_holder(table, 131), Some(4711));
        assert_eq!(lock_holder(table, 7), None);
        assert_eq!(lock_holder(table, 132), None);
    }
}
