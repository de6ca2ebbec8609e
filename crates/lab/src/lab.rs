//! Creates, removes and operates a lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use crate::inventory::{self, Format};
use crate::options::Options;
use crate::requirements::Base;
use crate::state::{Node, Phase, State};
use crate::wait::lock;
use crate::{Error, base, network, node, requirements, ssh, sysctl};

/// Seconds to wait for another command on the same lab.
const SECONDS_FOR_OTHERS: u64 = 600;

/// A lab that is up.
#[derive(Debug, Clone)]
pub struct Lab {
    state: State,
}

/// Status of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The host.
    pub node: Node,
    /// Whether the host is running.
    pub running: bool,
    /// Number of processes.
    pub processes: usize,
    /// Memory in use, in bytes; `None` if the machine does not count it.
    pub memory: Option<u64>,
}

/// Creates the lab that `options` describe and waits until every host is up.
///
/// If a matching lab is already up, it starts stopped hosts and adds missing ones. It removes the remains of an `up`
/// that crashed.
pub fn up(options: &Options, report: &mut dyn FnMut(&str)) -> Result<Lab, Error> {
    options.check()?;
    let base = options.base.clone().unwrap_or_else(|| base::path(&options.cache, options.system));
    let state = if options.base.is_some() || base.is_dir() { Base::Built } else { Base::ToBuild };
    let missing = requirements::missing(state);
    if !missing.is_empty() {
        return Err(Error::Requirements(missing));
    }
    if let Some(warning) = requirements::warning(options.nodes) {
        report(&warning);
    }
    let _lock = lock_lab(&options.directory)?;
    match State::read(&options.directory)? {
        Some(state) if state.phase == Phase::Ready => return resume(state, options, report),
        Some(state) => {
            report("an earlier start did not finish: removing what it left");
            remove(&state)?;
            State::remove_files(&options.directory)?;
        }
        None => {}
    }
    if let Err(error) = network::check(&options.bridge, options.network) {
        State::remove_directory(&options.directory)?;
        return Err(error);
    }
    let mut state = State::new(options, base);
    state.write()?;
    sysctl::remember()?;
    base::build(&mut state, report)?;
    network::create(&options.bridge, options.network)?;
    ssh::make_key_pair(&state)?;
    in_parallel(&state.nodes, |node| node::prepare(&state, node))?;
    describe_hosts(&state)?;
    boot(&state, &state.nodes, Expect::Running, report)?;
    check_bridge(&state)?;
    state.phase = Phase::Ready;
    state.write()?;
    Ok(Lab { state })
}

/// Removes the lab in `directory` and everything it created, whatever its state. Returns whether a lab existed.
pub fn down(directory: &Path, report: &mut dyn FnMut(&str)) -> Result<bool, Error> {
    if !directory.is_dir() {
        return Ok(false);
    }
    let _lock = lock_lab(directory)?;
    let state = State::read(directory)?;
    if let Some(state) = &state {
        let hosts = if state.nodes.len() == 1 { "host" } else { "hosts" };
        report(&format!("removing {} {hosts} and the bridge {}", state.nodes.len(), state.options.bridge));
        remove(state)?;
    }
    State::remove_files(directory)?;
    State::remove_directory(directory)?;
    Ok(state.is_some())
}

/// Default directory of the lab's state: `WINDLASS_LAB_DIR`, otherwise a directory under /var/lib.
#[must_use]
pub fn default_directory() -> PathBuf {
    Options::default().directory
}

impl Lab {
    /// Opens the running lab in `directory`.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        match State::read(directory)? {
            Some(state) if state.phase == Phase::Ready => Ok(Self { state }),
            Some(_) => Err(Error::Unfinished(directory.to_owned())),
            None => Err(Error::NoLab(directory.to_owned())),
        }
    }

    /// The hosts.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.state.nodes
    }

    /// Options that the lab was created with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.state.options
    }

    /// The inventory for reaching the hosts.
    #[must_use]
    pub fn inventory(&self, format: Format) -> String {
        inventory::write(&self.state, format)
    }

    /// Path of the inventory in INI format.
    #[must_use]
    pub fn inventory_file(&self) -> PathBuf {
        self.state.file("inventory.ini")
    }

    /// Path of the private key that grants access to every host as root, ops and opspw.
    #[must_use]
    pub fn private_key(&self) -> PathBuf {
        self.state.private_key()
    }

    /// Path of the file with the hosts' public keys.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.state.known_hosts()
    }

    /// An SSH client command for a host, as `user`: root, ops (sudo without a password) or opspw (with a password).
    pub fn ssh(&self, name: &str, user: &str) -> Result<Command, Error> {
        Ok(ssh::client(&self.state, self.node(name)?, user))
    }

    /// Status of all hosts.
    pub fn status(&self) -> Result<Vec<NodeStatus>, Error> {
        let status = |node: &Node| {
            let group = node::group(&self.state, node)?;
            let processes = group.processes().len();
            Ok(NodeStatus { node: node.clone(), running: processes > 0, processes, memory: group.memory() })
        };
        self.state.nodes.iter().map(status).collect()
    }

    /// Cuts the power of a host, which keeps its disks.
    pub fn kill(&self, name: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        let node = self.node(name)?;
        if !node::is_running(&self.state, node)? {
            return Err(Error::Already { node: node.name.clone(), state: "stopped" });
        }
        node::kill(&self.state, node)
    }

    /// Boots a stopped host with its former disks and address, and waits until it is up.
    pub fn start(&self, name: &str, report: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let _lock = self.lock()?;
        let node = self.node(name)?;
        if node::is_running(&self.state, node)? {
            return Err(Error::Already { node: node.name.clone(), state: "running" });
        }
        network::create(&self.state.options.bridge, self.state.options.network)?;
        boot(&self.state, std::slice::from_ref(node), Expect::Reachable, report)
    }

    /// Locks the lab against other commands, and checks that none has removed it.
    fn lock(&self) -> Result<fs::File, Error> {
        let directory = &self.state.options.directory;
        let lock = lock_lab(directory)?;
        if State::read(directory)?.is_some() {
            return Ok(lock);
        }
        State::remove_directory(directory)?;
        Err(Error::NoLab(directory.clone()))
    }

    fn node(&self, name: &str) -> Result<&Node, Error> {
        self.state.nodes.iter().find(|node| node.name == name).ok_or_else(|| Error::UnknownNode {
            name: name.to_owned(),
            known: self.state.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Resumes a matching lab: starts stopped hosts, also after a reboot of this machine, and adds missing hosts.
fn resume(mut state: State, options: &Options, report: &mut dyn FnMut(&str)) -> Result<Lab, Error> {
    let differences = options.differences(&state.options);
    if !differences.is_empty() {
        return Err(Error::Different { directory: options.directory.clone(), differences });
    }
    sysctl::remember()?;
    network::create(&state.options.bridge, state.options.network)?;
    let mut stopped = Vec::new();
    for node in &state.nodes {
        if !node::is_running(&state, node)? {
            stopped.push(node.clone());
        }
    }
    boot(&state, &stopped, Expect::Reachable, report)?;
    let added = state.grow(options.nodes);
    if stopped.is_empty() && added.is_empty() {
        report("the lab is up already");
    }
    if !added.is_empty() {
        in_parallel(&added, |node| node::prepare(&state, node))?;
        describe_hosts(&state)?;
        // The hosts belong to the lab from here on. After an earlier interruption they are created again.
        state.write()?;
        boot(&state, &added, Expect::Running, report)?;
    }
    Ok(Lab { state })
}

/// Required state of a booted host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// Every unit has started, as on a fresh host.
    Running,
    /// The host is reachable, but the user's units may have failed.
    Reachable,
}

/// Boots hosts in parallel and waits for all of them.
fn boot(state: &State, nodes: &[Node], expect: Expect, report: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            in_parallel(nodes, |node| {
                let (answer, seconds) = node::boot(state, node)?;
                let units = if answer == "running" { String::new() } else { ssh::failed_units(state, node)? };
                if expect == Expect::Running && answer != "running" {
                    return Err(Error::Degraded { node: node.name.clone(), state: answer, units });
                }
                let units = if units.is_empty() { units } else { format!(" ({units})") };
                // The receiver lives until every sender is dropped.
                let _ = sender.send(format!("{}: {answer} at {} after {seconds:.1} s{units}", node.name, node.address));
                Ok(())
            })
        });
        receiver.iter().for_each(|line| report(&line));
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Checks that hosts reach each other. This machine's packet filter may drop their packets if it filters bridges.
fn check_bridge(state: &State) -> Result<(), Error> {
    let (Some(first), Some(last)) = (state.nodes.first(), state.nodes.last()) else { return Ok(()) };
    let refusal = ssh::reaches(state, last, first.address)?;
    if refusal.is_empty() {
        return Ok(());
    }
    let bridge = &state.options.bridge;
    Err(Error::Invalid(format!(
        "The host {} does not reach the host {}: {refusal}. If this machine's packet filter drops what passes its bridges, run \
         `iptables -I FORWARD -i {bridge} -o {bridge} -j ACCEPT`, then `windlass lab up` again.",
        last.name, first.name
    )))
}

/// Runs `work` for all hosts in parallel; returns the error of the first host that failed.
fn in_parallel(nodes: &[Node], work: impl Fn(&Node) -> Result<(), Error> + Sync) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(move || work(node))).collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        results.into_iter().collect()
    })
}

/// Writes the files with the hosts' keys and the inventory.
fn describe_hosts(state: &State) -> Result<(), Error> {
    let keys = state.nodes.iter().map(|node| node::known_hosts(state, node)).collect::<Result<String, Error>>()?;
    let inventory = inventory::write(state, Format::Ini);
    for (path, text) in [(state.known_hosts(), keys), (state.file("inventory.ini"), inventory)] {
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// Removes everything outside the lab's directory, and unfinished work in the cache.
fn remove(state: &State) -> Result<(), Error> {
    let group = node::lab_group(state)?;
    group.kill()?;
    network::remove(&state.options.bridge)?;
    group.remove()?;
    if !group.has_siblings() {
        sysctl::restore()?;
    }
    base::remove_unfinished(state)
}

fn lock_lab(directory: &Path) -> Result<fs::File, Error> {
    lock(&directory.join("lock"), "another `windlass lab` command", SECONDS_FOR_OTHERS)
}
