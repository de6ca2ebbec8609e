//! Checks the machine's requirements before anything is created.

use std::fmt;
use std::path::Path;

use crate::cgroup;

/// A missing requirement and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing item, as a sentence without its full stop.
    pub what: String,
    /// The remedy, as a sentence without its full stop.
    pub remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}. {}.", self.what, self.remedy)
    }
}

/// Programs that the lab runs, with their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("systemd-nspawn", "systemd-container"),
    ("ip", "iproute2"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("mount", "mount"),
    ("unshare", "util-linux"),
    ("setsid", "util-linux"),
    ("setpriv", "util-linux"),
    ("timeout", "coreutils"),
    ("chroot", "coreutils"),
];

/// Directories of system programs, which may be missing from the user's PATH.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr/sbin", "/sbin"];

/// Programs that are only needed for building a base.
const BUILD_PROGRAMS: &[(&str, &str)] = &[("mmdebstrap", "mmdebstrap")];

/// Keyring for verifying Debian's archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Inotify instances that the services of one Kubernetes host use (measured: systemd 5, kubelet 5, others one each).
const INOTIFY_INSTANCES: usize = 16;

/// State of the file system that hosts start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The base exists.
    Built,
    /// The base has to be built first.
    ToBuild,
}

/// All missing requirements; empty if the lab can start.
#[must_use]
pub fn missing(base: Base) -> Vec<Missing> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push(Missing {
            what: "It needs the rights of root (mounts, network links, control groups)".to_owned(),
            remedy: "Run the command with sudo".to_owned(),
        });
    }
    missing.extend(missing_file_systems(&read("/proc/filesystems")));
    missing.extend(missing_programs(PROGRAMS));
    if base == Base::ToBuild {
        missing.extend(missing_programs(BUILD_PROGRAMS));
        if !Path::new(KEYRING).exists() {
            missing.push(package("The keys of Debian's archive are not installed", "debian-archive-keyring"));
        }
    }
    if cgroup::hierarchies(&read("/proc/self/mountinfo")).is_empty() {
        missing.push(Missing {
            what: "No control groups are mounted under /sys/fs/cgroup".to_owned(),
            remedy: "Run `mount -t cgroup2 cgroup2 /sys/fs/cgroup`".to_owned(),
        });
    }
    missing
}

/// Warns if the machine is likely too small, although the lab itself starts.
pub(crate) fn warning(nodes: usize) -> Option<String> {
    let path = "/proc/sys/fs/inotify/max_user_instances";
    let limit: usize = read(path).trim().parse().ok()?;
    (nodes * INOTIFY_INSTANCES > limit).then(|| {
        format!(
            "warning: {nodes} hosts that run Kubernetes need about {} inotify instances, this machine allows {limit}; \
             `sysctl fs.inotify.max_user_instances=1024` raises that",
            nodes * INOTIFY_INSTANCES
        )
    })
}

fn missing_file_systems(known: &str) -> Option<Missing> {
    let overlay = known.lines().any(|line| line.split_whitespace().last() == Some("overlay"));
    (!overlay && !Path::new("/sys/module/overlay").exists()).then(|| Missing {
        what: "The kernel has no overlay file system".to_owned(),
        remedy: "Run `modprobe overlay`; if that fails, this kernel was built without it".to_owned(),
    })
}

fn missing_programs(programs: &[(&str, &str)]) -> Vec<Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |program: &str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let elsewhere = |program: &str| SYSTEM_DIRECTORIES.iter().find(|name| Path::new(name).join(program).is_file());
    let missing = |(program, debian): &(&str, &str)| match elsewhere(program) {
        Some(directory) => Missing {
            what: format!("The program {program} is in {directory}, which is not on PATH"),
            remedy: format!("Run `export PATH=\"$PATH:{directory}\"`"),
        },
        None => package(&format!("The program {program} is not on PATH"), debian),
    };
    programs.iter().filter(|(program, _)| !found(program)).map(missing).collect()
}

fn package(what: &str, debian: &str) -> Missing {
    Missing {
        what: what.to_owned(),
        remedy: format!("On Debian and Ubuntu, run `apt-get install --no-install-recommends {debian}`"),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_reported_with_install_command() {
        let missing = missing_programs(&[("sh", "dash"), ("no-such-program-anywhere", "some-package")]);
        assert_eq!(
            missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["The program no-such-program-anywhere is not on PATH. \
              On Debian and Ubuntu, run `apt-get install --no-install-recommends some-package`."]
        );
    }

    #[test]
    fn only_too_many_hosts_warn() {
        assert_eq!(warning(0), None);
        assert!(warning(1_000_000).unwrap().contains("16000000 inotify instances"));
    }

    #[test]
    fn overlay_is_found_among_the_file_systems_without_a_device() {
        assert_eq!(missing_file_systems("nodev\tproc\nnodev\toverlay\n\text4\n"), None);
    }
}
