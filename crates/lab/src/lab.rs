//! The lab as a whole: up, down, and what can be done with it in between.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use crate::inventory::{self, Format};
use crate::options::Options;
use crate::state::{Node, Phase, State};
use crate::wait::lock;
use crate::{Error, base, network, node, requirements, ssh, sysctl};

/// How long another command on the same lab may take.
const SECONDS_FOR_OTHERS: u64 = 600;

/// A lab that is up.
#[derive(Debug, Clone)]
pub struct Lab {
    state: State,
}

/// What is known of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The host.
    pub node: Node,
    /// Whether it has been started.
    pub running: bool,
    /// How many processes it has.
    pub processes: usize,
    /// The memory it uses, in bytes, where the machine counts it.
    pub memory: Option<u64>,
}

/// Starts the lab that `options` describe and waits until every host is up.
///
/// A lab of the same description that is up already is left alone, except that stopped hosts are started and, if it is to have more hosts
/// than it has, those are added. What an `up` that crashed has left is removed first.
pub fn up(options: &Options, report: &mut dyn FnMut(&str)) -> Result<Lab, Error> {
    options.check()?;
    let base = options.base.clone().unwrap_or_else(|| base::path(&options.cache, options.system));
    let missing = requirements::missing(options.base.is_none() && !base.is_dir());
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

/// Removes the lab in `directory` and everything it made, in whatever state it is. Answers whether there was one.
pub fn down(directory: &Path, report: &mut dyn FnMut(&str)) -> Result<bool, Error> {
    if !directory.is_dir() {
        return Ok(false);
    }
    let _lock = lock_lab(directory)?;
    let state = State::read(directory)?;
    if let Some(state) = &state {
        report(&format!("removing {} hosts and the bridge {}", state.nodes.len(), state.options.bridge));
        remove(state)?;
    }
    State::remove_files(directory)?;
    State::remove_directory(directory)?;
    Ok(state.is_some())
}

/// Where the lab keeps its state unless told otherwise: `WINDLASS_LAB_DIR`, or a directory under /var/lib.
#[must_use]
pub fn default_directory() -> PathBuf {
    Options::default().directory
}

impl Lab {
    /// The lab that is up in `directory`.
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

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.state.options
    }

    /// The inventory that reaches the hosts.
    #[must_use]
    pub fn inventory(&self, format: Format) -> String {
        inventory::write(&self.state, format)
    }

    /// The file with the inventory in INI format.
    #[must_use]
    pub fn inventory_file(&self) -> PathBuf {
        self.state.file("inventory.ini")
    }

    /// The private key that opens every host as root, ops and opspw.
    #[must_use]
    pub fn private_key(&self) -> PathBuf {
        self.state.private_key()
    }

    /// The file with the hosts' public keys.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.state.known_hosts()
    }

    /// The system's SSH client, ready to run a command on a host as `user`: root, ops (sudo without password) or opspw (with).
    pub fn ssh(&self, name: &str, user: &str) -> Result<Command, Error> {
        Ok(ssh::client(&self.state, self.node(name)?, user))
    }

    /// What the hosts are doing.
    pub fn status(&self) -> Result<Vec<NodeStatus>, Error> {
        let status = |node: &Node| {
            let group = node::group(&self.state, node)?;
            let processes = group.processes().len();
            Ok(NodeStatus { node: node.clone(), running: processes > 0, processes, memory: group.memory() })
        };
        self.state.nodes.iter().map(status).collect()
    }

    /// Cuts the power of a host. Its disks stay as they are.
    pub fn kill(&self, name: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        let node = self.node(name)?;
        if !node::is_running(&self.state, node)? {
            return Err(Error::Already { node: node.name.clone(), state: "stopped" });
        }
        node::kill(&self.state, node)
    }

    /// Boots a host again, with the disks and the address it had, and waits until it is up.
    pub fn start(&self, name: &str, report: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let _lock = self.lock()?;
        let node = self.node(name)?;
        if node::is_running(&self.state, node)? {
            return Err(Error::Already { node: node.name.clone(), state: "running" });
        }
        network::create(&self.state.options.bridge, self.state.options.network)?;
        boot(&self.state, std::slice::from_ref(node), Expect::Reachable, report)
    }

    /// Keeps other commands away, and makes sure that none of them has removed the lab meanwhile.
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

/// A lab that was up: the same is wanted, so start what stopped, also after the machine itself was started again, and add what is missing.
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
        // From here on they belong to the lab; had this been interrupted earlier, they would be made again.
        state.write()?;
        boot(&state, &added, Expect::Running, report)?;
    }
    Ok(Lab { state })
}

/// What a booted host must be like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A fresh host: every unit has started.
    Running,
    /// A host with a life behind it: units of the user may fail, the host only has to be there.
    Reachable,
}

/// Boots hosts side by side and waits for all of them.
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
                // The receiver lives until every sender is gone.
                let _ = sender.send(format!("{}: {answer} at {} after {seconds:.1} s{units}", node.name, node.address));
                Ok(())
            })
        });
        receiver.iter().for_each(|line| report(&line));
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Packets between hosts pass this machine's packet filter if it looks at bridges: then it may drop them.
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

/// Does something to all hosts at once; the answer is the first host's error, if any has one.
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

/// Writes the hosts' keys and the inventory.
fn describe_hosts(state: &State) -> Result<(), Error> {
    let keys = state.nodes.iter().map(|node| node::known_hosts(state, node)).collect::<Result<String, Error>>()?;
    let inventory = inventory::write(state, Format::Ini);
    for (path, text) in [(state.known_hosts(), keys), (state.file("inventory.ini"), inventory)] {
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// Ends and removes everything outside the lab's directory, and unfinished work in the cache.
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
