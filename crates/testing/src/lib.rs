//! Requirements of tests that a machine may lack: privileges, programs and servers.
//!
//! A test without its requirements does nothing and reports that on standard error, past the harness that hides the
//! output of tests. `WINDLASS_REQUIRE` lists requirements, separated by blanks, that must not be missing: `make
//! host-test` lists what `make setup` installs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the machine has a requirement: `root`, `namespaces` (mounts of its own), `python3-yaml` (Python's `yaml`),
/// or the name of a program.
///
/// # Panics
///
/// If it is missing although `WINDLASS_REQUIRE` lists it.
pub fn has(requirement: &str) -> bool {
    let is_there = match requirement {
        "root" => rustix::process::geteuid().is_root(),
        "namespaces" => runs(Command::new("unshare").args(["--mount", "true"])),
        "python3-yaml" => runs(Command::new("python3").args(["-c", "import yaml"])),
        program => path_of(program).is_some(),
    };
    if !is_there {
        lacks(requirement);
    }
    is_there
}

/// Reports a requirement that only the test itself can look for, and that is missing.
///
/// # Panics
///
/// If `WINDLASS_REQUIRE` lists it.
#[allow(clippy::panic, reason = "a test fails by panicking")]
pub fn lacks(requirement: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!is_required(requirement), "{test} needs {requirement}, which WINDLASS_REQUIRE lists");
    let _ = writeln!(std::io::stderr(), "ignored: {test} needs {requirement}");
}

/// Path of a program of the machine, or of one that `tools/programs` unpacks. If it is missing, this is reported as by
/// [`has`].
pub fn unpacked(program: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("WINDLASS_CACHE").unwrap_or_else(|| "/var/cache/windlass".into());
    let unpacked = || Some(Path::new(&cache).join("programs/usr/bin").join(program)).filter(|path| path.is_file());
    let found = path_of(program).or_else(unpacked);
    if found.is_none() {
        lacks(program);
    }
    found
}

/// Whether the machine has all of the requirements. See [`has`].
pub fn has_all(requirements: &[&str]) -> bool {
    requirements.iter().all(|requirement| has(requirement))
}

/// Whether `WINDLASS_REQUIRE` lists the requirement.
pub fn is_required(requirement: &str) -> bool {
    std::env::var("WINDLASS_REQUIRE").is_ok_and(|listed| listed.split_whitespace().any(|word| word == requirement))
}

/// A program on the path, or in a folder of root's programs.
fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_of_the_machine_found_and_unknown_one_reported() {
        assert!(has("sh") && has_all(&["sh", "ls"]));
        assert!(!has("no-such-program-anywhere") && !has_all(&["sh", "no-such-program-anywhere"]));
        assert!(
            unpacked("sh").is_some_and(|path| path.ends_with("sh")) && unpacked("no-such-program-anywhere").is_none()
        );
    }
}
