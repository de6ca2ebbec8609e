//! State of dpkg's database, read without starting a process.

use std::collections::BTreeMap;

use crate::facts::Root;

/// A package in dpkg's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) version: String,
    /// Unpacked and configured. A removed package that left configuration files does not count.
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
}
