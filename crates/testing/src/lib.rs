//! Requirements of tests that a machine may lack: privileges, programs and servers.
//!
//! A test without its requirements does nothing and reports that on standard error, past the harness that hides the
//! output of tests. `WINDLASS_REQUIRE` lists requirements, separated by blanks, whose lack is a failure: `make
//! host-test` lists what `make setup` installs.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Whether the machine has a requirement: `root`, `namespaces` (mounts of its own), or the name of a program.
///
/// # Panics
///
/// If it is missing although `WINDLASS_REQUIRE` lists it.
#[allow(clippy::panic, reason = "a test fails by panicking")]
pub fn has(requirement: &str) -> bool {
    let is_there = match requirement {
        "root" => rustix::process::geteuid().is_root(),
        "namespaces" => runs(Command::new("unshare").args(["--mount", "true"])),
        program => path_of(program).is_some(),
    };
    is_there || {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        assert!(!is_required(requirement), "{test} needs {requirement}, which WINDLASS_REQUIRE lists");
        let _ = writeln!(std::io::stderr(), "ignored: {test} needs {requirement}");
        false
    }
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
