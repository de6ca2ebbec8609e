//! Requested packages: parses them, compares them with dpkg's database, and yields arguments of apt-get.

use std::collections::BTreeMap;

use super::{super::dpkg::Database, settings::Settings};
use crate::{Failure, Host, files::glob, process::Command};

/// A requested package: `name`, `name=1.2*`, `name>=1.2`, `name:arch`, `name/release`, `name*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// The request as the task writes it, for messages.
    pub(super) written: String,
    /// Name or pattern, without version and release.
    pub(super) name: String,
    /// Release of the distribution to install from.
    pub(super) release: Option<String>,
    pub(super) version: Option<Version>,
}

/// A version requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// This version, possibly a pattern.
    Exactly(String),
    /// This version or a later one.
    AtLeast(String),
}

impl Wish {
    pub(super) fn parse(text: &str) -> Result<Wish, Failure> {
        let (rest, version) = if let Some((name, version)) = text.split_once(">=") {
            (name, Some(Version::AtLeast(version.trim().to_owned())))
        } else if let Some((name, version)) = text.split_once('=') {
            (name, Some(Version::Exactly(version.trim().to_owned())))
        } else {
            (text, None)
        };
        let (name, release) =
            rest.split_once('/').map_or((rest, None), |(name, release)| (name, Some(release.to_owned())));
        let name = name.trim();
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            return Err(Failure::new(format!("{text:?} is not the name of a package.")));
        }
        Ok(Wish { written: text.to_owned(), name: name.to_owned(), release, version })
    }

    /// Whether the request matches a package of this name.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.name == name || self.pattern() && glob::matches(&self.name, name)
    }

    fn pattern(&self) -> bool {
        self.name.contains(['*', '?', '['])
    }
}

/// Installed and candidate versions, from apt.
fn policies(names: &[&str], settings: &Settings, host: &Host) -> Result<BTreeMap<String, Option<String>>, Failure> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut command = Command::new("apt-cache").plain_locale().arg("policy");
    if let Some(release) = &settings.default_release {
        command = command.args(["-o", &format!("APT::Default-Release={release}")]);
    }
    let output = command.arg("--").args(names.iter().copied()).check_run(host)?;
    Ok(candidates(&output.stdout_text()))
}

/// Whether a package has this name, which others may provide too.
fn is_package(name: &str, settings: &Settings, host: &Host) -> Result<bool, Failure> {
    Ok(policies(&[name], settings, host)?.get(name).is_some_and(Option::is_some))
}

/// Parses the candidates from `apt-cache policy`; `None` for `(none)`.
fn candidates(text: &str) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if !line.starts_with(' ') {
            current = line.strip_suffix(':').map(str::to_owned);
        } else if let (Some(name), Some(version)) = (&current, line.trim().strip_prefix("Candidate:")) {
            let version = version.trim();
            found.insert(name.clone(), (version != "(none)").then(|| version.to_owned()));
        }
    }
    found
}

/// Whether one version is at least another, in dpkg's order.
fn at_least(version: &str, wanted: &str, host: &Host) -> Result<bool, Failure> {
    Ok(Command::new("dpkg").args(["--compare-versions", version, "ge", wanted]).run(host)?.success())
}

/// The arguments of `apt-get install` for requests that are not met.
pub(super) fn to_install(
    wishes: &[Wish],
    latest: bool,
    settings: &Settings,
    database: &Database,
    host: &Host,
) -> Result<Vec<String>, Failure> {
    let mut wishes: Vec<Wish> = wishes.to_vec();
    if wishes.iter().any(Wish::pattern) {
        let known = Command::new("apt-cache").plain_locale().arg("pkgnames").check_run(host)?.stdout_text();
        wishes = expand(&wishes, &known)?;
    }
    let candidates = if latest {
        let names: Vec<&str> = wishes.iter().map(|wish| wish.name.as_str()).collect();
        policies(&names, settings, host)?
    } else {
        BTreeMap::new()
    };
    let mut words = Vec::new();
    for wish in &wishes {
        let installed = database.version(&wish.name);
        if installed.is_none() && settings.only_upgrade {
            continue;
        }
        let wanted = match (&wish.version, installed) {
            (Some(Version::Exactly(version)), Some(installed)) => !glob::matches(version, installed),
            (Some(Version::AtLeast(version)), Some(installed)) => !at_least(installed, version, host)?,
            (Some(_), None) => true,
            (None, Some(installed)) => {
                let candidate = candidates.get(&wish.name).cloned().flatten();
                candidate.is_some_and(|candidate| candidate != installed) && !held(database, &wish.name, settings)
            }
            // A virtual name is met if an installed package provides it.
            (None, None) => latest || !database.provides(&wish.name) || is_package(&wish.name, settings, host)?,
        };
        if wanted {
            words.push(match &wish.version {
                Some(Version::Exactly(version)) => format!("{}={version}", wish.name),
                Some(Version::AtLeast(version)) => at_least_word(wish, version, settings, host)?,
                None => wish
                    .release
                    .as_ref()
                    .map_or_else(|| wish.name.clone(), |release| format!("{}/{release}", wish.name)),
            });
        }
    }
    words.dedup();
    Ok(words)
}

fn held(database: &Database, name: &str, settings: &Settings) -> bool {
    !settings.change_held && database.package(name).is_some_and(|package| package.held)
}

fn at_least_word(wish: &Wish, version: &str, settings: &Settings, host: &Host) -> Result<String, Failure> {
    let candidates = policies(&[&wish.name], settings, host)?;
    match candidates.get(&wish.name).cloned().flatten() {
        Some(candidate) if at_least(&candidate, version, host)? => Ok(format!("{}={candidate}", wish.name)),
        Some(candidate) => Err(Failure::new(format!(
            "no available installation candidate for {}: the newest is {candidate}",
            wish.written
        ))),
        None => Err(Failure::new(format!("No package matching '{}' is available", wish.name))),
    }
}

/// Expands patterns to the names they match.
fn expand(wishes: &[Wish], known: &str) -> Result<Vec<Wish>, Failure> {
    let mut names: Vec<&str> = known.lines().collect();
    names.sort_unstable();
    let mut all = Vec::new();
    for wish in wishes {
        if !wish.pattern() {
            all.push(wish.clone());
            continue;
        }
        let found: Vec<&&str> = names.iter().filter(|name| glob::matches(&wish.name, name)).collect();
        if found.is_empty() {
            return Err(Failure::new(format!("No package(s) matching '{}' available", wish.name)));
        }
        all.extend(found.into_iter().map(|name| Wish { name: (*name).to_owned(), ..wish.clone() }));
    }
    Ok(all)
}

/// The given packages that are installed or, with `purge`, left configuration behind.
pub(super) fn to_remove(names: &[String], database: &Database, purge: bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let bare = name.split('=').next().unwrap_or(name).trim();
        let matching: Vec<&str> = if bare.contains(['*', '?', '[']) {
            database.names().filter(|name| glob::matches(bare, name)).collect()
        } else {
            vec![bare]
        };
        for name in matching {
            let there = database.package(name).is_some_and(|package| package.installed || purge);
            if there && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// A package file, unless the same version is installed.
pub(super) fn file_to_install(
    path: &str,
    settings: &Settings,
    database: &Database,
    host: &Host,
) -> Result<Vec<String>, Failure> {
    if !std::path::Path::new(path).is_file() {
        return Err(Failure::new(format!("The package file {path} does not exist on the host.")));
    }
    let output = Command::new("dpkg-deb")
        .plain_locale()
        .args(["--field", path, "Package", "Version", "Architecture"])
        .check_run(host)?;
    let text = output.stdout_text();
    let field = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or_default().trim().to_owned()
    };
    let (name, version) = (field("Package"), field("Version"));
    let same = database.version(&name) == Some(version.as_str()) && !settings.force;
    let absolute =
        std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned());
    Ok(if same { Vec::new() } else { vec![absolute] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: curl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 7.88.1-10\n\nPackage: mawk\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1.3\nProvides: awk\n\nPackage: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n";

    fn install(names: &[&str]) -> Vec<String> {
        let wishes: Vec<Wish> = names.iter().map(|name| Wish::parse(name).unwrap()).collect();
        to_install(&wishes, false, &Settings::default(), &Database::parse(STATUS), &Host::alone()).unwrap()
    }

    #[test]
    fn missing_packages_installed() {
        assert!(install(&["curl", "mawk", "awk", "curl=7.88*", "curl=7.88.1-10"]).is_empty());
        assert_eq!(install(&["curl", "socat", "gone"]), ["socat", "gone"]);
        assert_eq!(install(&["curl=8.0", "socat=1.7*", "vim/testing"]), ["curl=8.0", "socat=1.7*", "vim/testing"]);
    }

    #[test]
    fn present_packages_removed() {
        let database = Database::parse(STATUS);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(to_remove(&names(&["curl", "nothing", "gone"]), &database, false), ["curl"]);
        assert_eq!(to_remove(&names(&["gone", "m*"]), &database, true), ["gone", "mawk"]);
    }

    #[test]
    fn requests_parsed() {
        let wish = Wish::parse("foo>=1.2").unwrap();
        assert_eq!((wish.name.as_str(), wish.version), ("foo", Some(Version::AtLeast("1.2".into()))));
        assert_eq!(Wish::parse("foo:i386=1").unwrap().name, "foo:i386");
        assert!(Wish::parse("-o").is_err() && Wish::parse("=1").is_err());
        let expanded = expand(&[Wish::parse("cur*").unwrap()], "curlftpfs\ncurl\nvim\n").unwrap();
        assert_eq!(expanded.iter().map(|wish| wish.name.as_str()).collect::<Vec<_>>(), ["curl", "curlftpfs"]);
        assert!(expand(&[Wish::parse("zz*").unwrap()], "curl\n").is_err());
    }

    #[test]
    fn candidates_parsed_from_policy() {
        let text = "curl:\n  Installed: 7.88.1-10\n  Candidate: 7.88.1-10+deb12u8\n  Version table:\n     7.88.1-10+deb12u8 500\nnope:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n";
        let found = candidates(text);
        assert_eq!(found["curl"].as_deref(), Some("7.88.1-10+deb12u8"));
        assert_eq!(found["nope"], None);
    }
}
