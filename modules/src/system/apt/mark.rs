//! Clears apt's automatic mark from requested packages, so that autoremove keeps them.

use super::{super::dpkg::Database, request::Wish};
use crate::{Failure, Host, process::Command};

const STATES: &str = "/var/lib/apt/extended_states";

/// The requested packages that are installed only as dependencies.
pub(super) fn came_by_themselves(wishes: &[Wish]) -> Vec<String> {
    // Without the file, no package is marked.
    let states = std::fs::read_to_string(STATES).unwrap_or_default();
    let database = Database::of_host();
    let mut names = marked(wishes, &states);
    names.retain(|name| database.version(name).is_some());
    names
}

/// Clears the marks.
pub(super) fn take_off(names: &[String], host: &Host) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let command = Command::new("apt-mark").plain_locale().arg("manual").args(names.iter().cloned());
    let shown = command.words().join(" ");
    let output = command.run(host)?;
    if output.success() {
        return Ok(());
    }
    let error = output.stderr_text();
    Err(Failure::new(format!("'{shown}' failed: {error}"))
        .with("rc", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", error))
}

fn marked(wishes: &[Wish], states: &str) -> Vec<String> {
    let mut names = Vec::new();
    for paragraph in states.split("\n\n") {
        let field = |name: &str| {
            paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
        };
        if field("Auto-Installed") != "1" {
            continue;
        }
        let (package, architecture) = (field("Package"), field("Architecture"));
        let full = format!("{package}:{architecture}");
        if let Some(wish) = wishes.iter().find(|wish| wish.matches(package) || wish.matches(&full)) {
            names.push(if wish.matches(package) { package.to_owned() } else { full });
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_requested_packages_found() {
        let states = "Package: one\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: two\nArchitecture: amd64\nAuto-Installed: 0\n\n\
                      Package: three\nArchitecture: i386\nAuto-Installed: 1\n\nPackage: four\nArchitecture: amd64\nAuto-Installed: 1\n";
        let names = |wishes: &[&str]| {
            let wishes: Vec<Wish> = wishes.iter().map(|wish| Wish::parse(wish).expect("a name")).collect();
            marked(&wishes, states)
        };
        assert_eq!(names(&["one", "two"]), ["one"]);
        assert_eq!(names(&["three:i386", "four:i386"]), ["three:i386"]);
        assert_eq!(names(&["f*", "one=1.0"]), ["one", "four"]);
        assert!(names(&["other"]).is_empty());
    }
}
