//! One control group per host in every hierarchy of the machine: version 1, version 2 or both.
//!
//! systemd-nspawn starts inside the host's groups and gives the guest a control group namespace rooted there. Two
//! guests therefore never share `/system.slice` or `/kubepods.slice`. It also makes every process of a host easy to
//! find without recorded process ids.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::Error;
use crate::state::ignore_missing;
use crate::wait::Deadline;

/// The parent group of all labs on this machine.
const ROOT: &str = "windlass-lab";

/// Controllers of version 2 that a host needs.
const DELEGATED: &[&str] = &["cpu", "cpuset", "io", "memory", "pids"];

/// Seconds that processes may take to exit and groups to become empty.
const SECONDS_TO_DIE: u64 = 30;

/// A mounted control group hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    unified: bool,
}

impl Hierarchy {
    /// Keeps other threads and processes from adding or removing parent groups until the returned file is dropped. The
    /// last host that leaves a parent removes it, possibly while the next host is being created inside it.
    fn lock(&self) -> Result<File, Error> {
        let directory = File::open(&self.mount).map_err(Error::io("open", &self.mount))?;
        directory.lock().map_err(Error::io("lock", &self.mount))?;
        Ok(directory)
    }
}

/// Finds the hierarchies in a mount table in the format of /proc/self/mountinfo.
pub(crate) fn hierarchies(mount_table: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mount_table.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(mount), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let hierarchy = Hierarchy { mount: PathBuf::from(mount), unified: kind == "cgroup2" };
        if matches!(kind, "cgroup" | "cgroup2") && mount.starts_with("/sys/fs/cgroup") && !found.contains(&hierarchy) {
            found.push(hierarchy);
        }
    }
    found
}

/// Resource limits of a host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) memory: Option<u64>,
    pub(crate) cpus: Option<f64>,
}

/// The same group in every hierarchy.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    hierarchies: Vec<Hierarchy>,
    levels: Vec<String>,
}

impl Group {
    /// The group of a whole lab, named after its bridge.
    pub(crate) fn of_lab(bridge: &str) -> Result<Self, Error> {
        let path = Path::new("/proc/self/mountinfo");
        let table = fs::read_to_string(path).map_err(Error::io("read", path))?;
        Ok(Self { hierarchies: hierarchies(&table), levels: vec![ROOT.to_owned(), bridge.to_owned()] })
    }

    /// A group inside this one.
    pub(crate) fn child(&self, name: &str) -> Self {
        let mut levels = self.levels.clone();
        levels.push(name.to_owned());
        Self { hierarchies: self.hierarchies.clone(), levels }
    }

    /// Directory of the group in each hierarchy.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.hierarchies.iter().map(|hierarchy| self.path_in(hierarchy)).collect()
    }

    fn path_in(&self, hierarchy: &Hierarchy) -> PathBuf {
        self.levels.iter().fold(hierarchy.mount.clone(), |path, level| path.join(level))
    }

    /// Creates the group in every hierarchy and sets its limits.
    pub(crate) fn create(&self, limits: Limits) -> Result<(), Error> {
        for hierarchy in &self.hierarchies {
            let _lock = hierarchy.lock()?;
            let mut path = hierarchy.mount.clone();
            for level in &self.levels {
                if hierarchy.unified {
                    delegate_controllers(&path);
                }
                let parent = path.clone();
                path.push(level);
                match fs::create_dir(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                        return Err(Error::io("create the control group", &path)(error));
                    }
                    _ => {}
                }
                if !hierarchy.unified {
                    inherit_cpuset(&parent, &path)?;
                }
            }
        }
        if let Some(bytes) = limits.memory {
            self.limit("memory", &[("memory.max", bytes.to_string()), ("memory.limit_in_bytes", bytes.to_string())])?;
        }
        if let Some(cpus) = limits.cpus {
            let quota = format!("{:.0}", cpus * 100_000.0);
            self.limit("processor time", &[("cpu.max", format!("{quota} 100000")), ("cpu.cfs_quota_us", quota)])?;
        }
        Ok(())
    }

    /// Writes the first of `files` that exists in any hierarchy.
    fn limit(&self, what: &str, files: &[(&str, String)]) -> Result<(), Error> {
        for path in self.paths() {
            for (name, value) in files {
                let file = path.join(name);
                if file.exists() {
                    return fs::write(&file, value).map_err(Error::io("write the limit", &file));
                }
            }
        }
        Err(Error::Invalid(format!(
            "The {what} of a host cannot be limited: no control group of this machine has a controller for it."
        )))
    }

    /// Whether other labs still have groups, after this one was removed.
    pub(crate) fn has_siblings(&self) -> bool {
        self.paths().iter().filter_map(|path| path.parent()).any(Path::exists)
    }

    /// Memory in use; `None` if no hierarchy counts it.
    pub(crate) fn memory(&self) -> Option<u64> {
        let files = ["memory.current", "memory.usage_in_bytes"];
        let texts = self.paths().into_iter().flat_map(|path| files.map(|file| fs::read_to_string(path.join(file))));
        texts.flatten().find_map(|text| text.trim().parse().ok())
    }

    /// All processes in the group and its descendants.
    pub(crate) fn processes(&self) -> HashSet<Pid> {
        let mut processes = HashSet::new();
        for path in self.paths() {
            collect_processes(&path, &mut processes);
        }
        processes
    }

    /// Kills all processes in the group and its descendants, and waits until none is left.
    pub(crate) fn kill(&self) -> Result<(), Error> {
        let deadline = Deadline::new(format!("the processes of {} to die", self.levels.join("/")), SECONDS_TO_DIE);
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return Ok(());
            }
            for process in &processes {
                // The process may have exited between the listing and the signal; the next round checks again.
                let _ = kill_process(*process, Signal::KILL);
            }
            deadline.pause(|| format!("Still there: {processes:?}."))?;
        }
    }

    /// Removes the group and its descendants in every hierarchy, and parents that become empty.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        for hierarchy in &self.hierarchies {
            let mut path = self.path_in(hierarchy);
            let deadline =
                Deadline::new(format!("the control group {} to be removable", path.display()), SECONDS_TO_DIE);
            while let Err(error) = remove_tree(&path) {
                deadline.pause(|| error.to_string())?;
            }
            let _lock = hierarchy.lock()?;
            while path.pop() && path.starts_with(hierarchy.mount.join(ROOT)) && fs::remove_dir(&path).is_ok() {}
        }
        Ok(())
    }
}

fn collect_processes(directory: &Path, processes: &mut HashSet<Pid>) {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    // A zero stands for a process of another process id namespace, which is not ours.
    processes.extend(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)));
    for child in subdirectories(directory) {
        collect_processes(&child, processes);
    }
}

fn remove_tree(directory: &Path) -> std::io::Result<()> {
    for child in subdirectories(directory) {
        remove_tree(&child)?;
    }
    ignore_missing(fs::remove_dir(directory))
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// A new cpuset group of version 1 is empty. It accepts no process until it has processors and memory nodes.
fn inherit_cpuset(parent: &Path, group: &Path) -> Result<(), Error> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let file = group.join(name);
        if fs::read_to_string(&file).is_ok_and(|value| value.trim().is_empty()) {
            let value = fs::read_to_string(parent.join(name)).map_err(Error::io("read", &parent.join(name)))?;
            fs::write(&file, value).map_err(Error::io("write", &file))?;
        }
    }
    Ok(())
}

/// Delegates the controllers that a kubelet needs. Inside a container some are missing, which only affects limits on
/// them.
fn delegate_controllers(group: &Path) {
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace().filter(|name| DELEGATED.contains(name)) {
        let _ = fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
24 1 0:21 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
26 24 0:23 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
27 1 0:24 / /somewhere/else rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn both_versions_are_found_under_sys_only() {
        let hierarchy = |mount: &str, unified| Hierarchy { mount: mount.into(), unified };
        assert_eq!(
            hierarchies(HYBRID),
            [hierarchy("/sys/fs/cgroup/cpu,cpuacct", false), hierarchy("/sys/fs/cgroup/unified", true)]
        );
        let unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(hierarchies(unified), [hierarchy("/sys/fs/cgroup", true)]);
    }

    /// A host that boots removes the groups of its last start, but not a parent that another host is about to use.
    #[test]
    fn hosts_that_start_together_keep_their_parent() {
        let mount = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { mount: mount.path().to_owned(), unified: false };
        let lab = Group { hierarchies: vec![hierarchy], levels: vec![ROOT.into(), "windlass0".into()] };
        std::thread::scope(|scope| {
            for host in ["node1", "node2", "node3"] {
                let group = lab.child(host);
                scope.spawn(move || {
                    for _ in 0..300 {
                        group.child("keeper").create(Limits::default()).unwrap();
                        group.remove().unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_group_has_one_path_in_each_hierarchy() {
        let lab = Group { hierarchies: hierarchies(HYBRID), levels: vec![ROOT.into(), "windlass0".into()] };
        assert_eq!(
            lab.child("node1").paths(),
            [
                PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/windlass-lab/windlass0/node1"),
                PathBuf::from("/sys/fs/cgroup/unified/windlass-lab/windlass0/node1"),
            ]
        );
    }
}
