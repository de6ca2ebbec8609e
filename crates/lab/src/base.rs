//! The tree that every host boots from: Debian without Python. It is built once and cached by its inputs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest, Sha256};

use crate::cgroup::Limits;
use crate::command::{display, last_lines, run_with_input};
use crate::node::launch;
use crate::options::System;
use crate::state::{State, ignore_missing};
use crate::{Error, node, wait};

/// Packages of a small Debian server, and those that a Kubernetes node needs. Python is absent on purpose.
const PACKAGES: &[&str] = &[
    "bird2",
    "bzip2",
    "ca-certificates",
    "conntrack",
    "cron",
    "curl",
    "dbus",
    "ebtables",
    "ethtool",
    "gzip",
    "haproxy",
    "iproute2",
    "ipset",
    "iptables",
    "iputils-ping",
    "kmod",
    "mount",
    "netbase",
    "nftables",
    "openssh-server",
    "procps",
    "socat",
    "sudo",
    "systemd",
    "systemd-sysv",
    "tar",
    "unzip",
    "util-linux",
    "xz-utils",
];

/// Files added to the base, with their modes.
const FILES: &[(&str, u32, &str)] = &[
    ("etc/systemd/system/windlass-lab-remount.service", 0o644, include_str!("../guest/windlass-lab-remount.service")),
    ("usr/local/lib/windlass-lab/remount", 0o755, include_str!("../guest/remount")),
];

/// Runs inside the base after the packages are installed.
const CUSTOMIZE: &str = include_str!("../guest/customize.sh");

/// Seconds to wait while another lab builds the same base.
const SECONDS_TO_BUILD: u64 = 1800;

/// Path of the base in the cache, whether or not it exists.
pub(crate) fn path(cache: &Path, system: System) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(system.suite());
    for package in PACKAGES {
        hash.update([0]);
        hash.update(package);
    }
    for (path, mode, content) in FILES {
        hash.update(format!("\0{path}\0{mode}\0{content}"));
    }
    hash.update(CUSTOMIZE);
    let name: String = hex::encode(hash.finalize()).chars().take(16).collect();
    cache.join(format!("base-{name}"))
}

/// Builds the base at `state.base` if it is missing. Concurrent labs build it once.
pub(crate) fn build(state: &mut State, report: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let base = state.base.clone();
    if base.is_dir() {
        return Ok(());
    }
    let cache = &state.options.cache.clone();
    fs::create_dir_all(cache).map_err(Error::io("create", cache))?;
    report(&format!(
        "base: building Debian {} in {}, once; this takes a minute or two",
        state.options.system.suite(),
        base.display()
    ));
    let _lock = wait::lock(&base.with_extension("lock"), "another lab's build of the base", SECONDS_TO_BUILD)?;
    if base.is_dir() {
        report("base: another lab has built it");
        return Ok(());
    }
    let building = base.with_extension(format!("building-{}", std::process::id()));
    state.building = Some(building.clone());
    state.write()?;
    debootstrap(state, &building, report)?;
    customize(&building)?;
    fs::rename(&building, &base).map_err(Error::io("move into place", &building))?;
    state.building = None;
    state.write()?;
    report("base: built");
    Ok(())
}

/// Removes an unfinished base after a crash. Its processes are already dead.
pub(crate) fn remove_unfinished(state: &State) -> Result<(), Error> {
    let Some(building) = &state.building else { return Ok(()) };
    ignore_missing(fs::remove_dir_all(building)).map_err(Error::io("remove", building))
}

fn debootstrap(state: &State, directory: &Path, report: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let group = node::lab_group(state)?.child("base");
    group.create(Limits::default())?;
    let include = format!("--include={}", PACKAGES.join(","));
    let directory = directory.display().to_string();
    let mut command =
        launch(&group, "mmdebstrap", &["--variant=minbase", &include, state.options.system.suite(), &directory]);
    let doing = "build the base".to_owned();
    let failed = |status: String, stderr: String, command: &_| Error::Command {
        doing: doing.clone(),
        command: display(command),
        status,
        stderr,
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| failed("an error before it started".to_owned(), error.to_string(), &command))?;
    let mut log = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // Package managers redraw their progress line; only complete messages are shown.
            let line = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default();
            if let Some(message) = line.strip_prefix("I: ") {
                report(&format!("base: {message}"));
            }
            log.push_str(line);
            log.push('\n');
        }
    }
    let status = child.wait().map_err(|error| failed("no status".to_owned(), error.to_string(), &command))?;
    group.kill()?;
    group.remove()?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string(), last_lines(&log), &command)) }
}

fn customize(directory: &Path) -> Result<(), Error> {
    for (path, mode, content) in FILES {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        fs::write(&path, content).map_err(Error::io("write", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).map_err(Error::io("set the mode of", &path))?;
    }
    let root = directory.display().to_string();
    run_with_input("finish the base", "chroot", &[&root, "/bin/sh", "-eu"], CUSTOMIZE)?;
    match python_in(directory) {
        Some(python) => Err(Error::Invalid(format!(
            "The base contains {}, but the lab's hosts must be without Python. A package of the base depends on it now.",
            python.display()
        ))),
        None => Ok(()),
    }
}

fn python_in(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory.join("usr/bin")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_depends_on_the_content_only() {
        let one = path(Path::new("/cache"), System::Debian12);
        assert_eq!(one, path(Path::new("/cache"), System::Debian12));
        assert_ne!(one, path(Path::new("/cache"), System::Debian13));
        assert!(one.to_str().unwrap().starts_with("/cache/base-"));
    }

    #[test]
    fn packages_are_sorted_and_unique_so_that_the_name_is_stable() {
        assert!(PACKAGES.is_sorted());
        assert!(PACKAGES.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(PACKAGES.iter().all(|package| !package.contains("python")));
    }

    #[test]
    fn python_in_base_found() {
        let directory = tempfile::tempdir().unwrap();
        let binaries = directory.path().join("usr/bin");
        fs::create_dir_all(&binaries).unwrap();
        assert_eq!(python_in(directory.path()), None);
        fs::write(binaries.join("python3.11"), "").unwrap();
        assert_eq!(python_in(directory.path()), Some(binaries.join("python3.11")));
    }
}
