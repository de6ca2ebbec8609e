//! Creates, boots and kills a host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::Error;
use crate::cgroup::{Group, Limits};
use crate::command::{display, last_lines, run};
use crate::network;
use crate::ssh;
use crate::state::{Node, State};
use crate::wait::Deadline;

/// Seconds that a host may take to boot; a loaded machine is slow.
const SECONDS_TO_BOOT: u64 = 240;

/// Joins control groups and then executes another program.
const LAUNCH: &str = include_str!("../guest/launch.sh");

/// Mounts the overlay and runs systemd-nspawn, repeatedly across reboots.
const BOOT: &str = include_str!("../guest/boot.sh");

/// Directories outside the overlay: container runtimes mount their own overlays there, and etcd depends on disk
/// latency.
const PLAIN_DIRECTORIES: &[(&str, &str)] =
    &[("containerd", "/var/lib/containerd"), ("docker", "/var/lib/docker"), ("etcd", "/var/lib/etcd")];

/// Directories of a host's disks, parents first.
const DIRECTORIES: &[&str] = &[
    "work",
    "root",
    "upper",
    "upper/etc",
    "upper/etc/ssh",
    "upper/etc/systemd",
    "upper/etc/systemd/network",
    "upper/home",
];

/// Users that the lab's key gives access to, with their ids and homes.
const USERS: &[(u32, &str)] = &[(0, "root"), (1000, "home/ops"), (1001, "home/opspw")];

/// Parent group of all processes of a lab.
pub(crate) fn lab_group(state: &State) -> Result<Group, Error> {
    Group::of_lab(&state.options.bridge)
}

/// The group of one host.
pub(crate) fn group(state: &State, node: &Node) -> Result<Group, Error> {
    Ok(lab_group(state)?.child(&node.name))
}

/// A command that runs in `group`, in its own session and mount namespace. It outlives this process, and its mounts end
/// with it.
pub(crate) fn launch(group: &Group, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["unshare", "--mount", "--propagation", "private", "sh", "-euc", LAUNCH, "windlass-lab"]);
    command.args(group.paths()).arg("--").arg(program).args(arguments);
    command
}

/// Creates the host's disks, and writes what differs from the base to the upper layer of its overlay.
pub(crate) fn prepare(state: &State, node: &Node) -> Result<(), Error> {
    let directory = state.node_directory(node);
    let upper = directory.join("upper");
    let plain = PLAIN_DIRECTORIES.iter().map(|(name, _)| *name);
    for name in DIRECTORIES.iter().copied().chain(plain) {
        let path = directory.join(name);
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        set_mode(&path, 0o755)?;
    }
    run("make host keys", "ssh-keygen", &["-q", "-A", "-f", &upper.display().to_string()])?;
    let public_key = upper.join("etc/ssh/ssh_host_ed25519_key.pub");
    let identity = Sha256::digest(fs::read(&public_key).map_err(Error::io("read", &public_key))?);
    let machine_id: String = hex::encode(identity).chars().take(32).collect();
    let (name, address, gateway) = (&node.name, node.address, state.options.network.gateway());
    let files = [
        ("etc/hostname", format!("{name}\n")),
        ("etc/machine-id", format!("{machine_id}\n")),
        ("etc/hosts", format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{address} {name}\n")),
        // Without a server, lookups go to the host itself, where nothing listens. They fail at once instead of hanging.
        ("etc/resolv.conf", "# The lab has no name service.\n".to_owned()),
        (
            "etc/systemd/network/10-host0.network",
            format!(
                "[Match]\nName=host0\n\n[Network]\nAddress={address}/24\nGateway={gateway}\nLinkLocalAddressing=no\n"
            ),
        ),
    ];
    for (path, content) in files {
        let path = upper.join(path);
        fs::write(&path, content).map_err(Error::io("write", &path))?;
        set_mode(&path, 0o644)?;
    }
    authorize(state, &upper)
}

/// Authorizes the lab's key for every user.
fn authorize(state: &State, upper: &Path) -> Result<(), Error> {
    let public_key = state.file("id_ed25519.pub");
    for (id, home) in USERS {
        let home = upper.join(home);
        let directory = home.join(".ssh");
        let file = directory.join("authorized_keys");
        fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        fs::copy(&public_key, &file).map_err(Error::io("write", &file))?;
        for (path, mode) in [(&home, 0o700), (&directory, 0o700), (&file, 0o600)] {
            set_mode(path, mode)?;
            chown(path, Some(*id), Some(*id)).map_err(Error::io("set the owner of", path))?;
        }
    }
    Ok(())
}

/// Sets the mode regardless of the umask: a directory in the upper layer hides the mode in the base.
fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::io("set the mode of", path))
}

/// Lines of known_hosts for a host: each of its keys, under its address and its name.
pub(crate) fn known_hosts(state: &State, node: &Node) -> Result<String, Error> {
    let directory = state.node_directory(node).join("upper/etc/ssh");
    let mut lines = String::new();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let path = directory.join(format!("ssh_host_{kind}_key.pub"));
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let key: Vec<&str> = text.split_whitespace().take(2).collect();
        lines.push_str(&format!("{},{} {}\n", node.address, node.name, key.join(" ")));
    }
    Ok(lines)
}

/// Set by the thread that waits for a host's systemd-nspawn, with the reason for its end.
type Ended = Arc<OnceLock<String>>;

/// Starts a host and waits until it is up. Returns the state that systemd reports, and the seconds it took.
pub(crate) fn boot(state: &State, node: &Node) -> Result<(String, f64), Error> {
    let deadline = Deadline::new(format!("the host {} at {} to boot", node.name, node.address), SECONDS_TO_BOOT);
    // A host that stopped by itself has left its control groups.
    kill(state, node)?;
    let ended = start(state, node)?;
    let alive = || match ended.get() {
        Some(status) => Err(died(state, node, status)),
        None => Ok(()),
    };
    while let Err(reason) = ssh::banner(node.address) {
        alive()?;
        deadline.pause(|| format!("No answer from its SSH server: {reason}. {}", console_hint(state, node)))?;
    }
    loop {
        alive()?;
        let answer = ssh::system_state(state, node)?;
        match answer.as_str() {
            "running" | "degraded" | "maintenance" => return Ok((answer, deadline.elapsed())),
            other => deadline.pause(|| format!("Its systemd says `{other}`. {}", console_hint(state, node)))?,
        }
    }
}

/// Starts systemd-nspawn from a script that restarts it when the guest reboots. The script has a separate group, and a
/// thread waits for its end.
fn start(state: &State, node: &Node) -> Result<Ended, Error> {
    let group = group(state, node)?;
    let (keeper, host) = (group.child("keeper"), group.child("host"));
    keeper.create(Limits::default())?;
    host.create(Limits { memory: state.options.memory, cpus: state.options.cpus })?;
    let console_path = console(state, node);
    let console = fs::File::create(&console_path).map_err(Error::io("create", &console_path))?;
    let both = console.try_clone().map_err(Error::io("open twice", &console_path))?;
    let directory = state.node_directory(node);
    let root = directory.join("root").display().to_string();
    let overlay = format!(
        "lowerdir={},upperdir={},workdir={}",
        state.base.display(),
        directory.join("upper").display(),
        directory.join("work").display()
    );
    let mut command = launch(&keeper, "sh", &["-euc", BOOT, "windlass-lab", &overlay, &root, LAUNCH]);
    command.args(host.paths()).args(["--", "systemd-nspawn"]);
    command.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"]);
    // All hosts share this machine's clock: a host that sets the time or runs an NTP daemon would change it.
    command.args(["--capability=all", "--drop-capability=CAP_SYS_TIME", "--system-call-filter=@known"]);
    command.args(["--bind=/dev/kmsg", "--tmpfs=/tmp", "--resolv-conf=off", "--timezone=off", "--link-journal=no"]);
    command.arg(format!("--directory={root}"));
    command.arg(format!("--machine={}", network::machine_name(&state.options.bridge, node.number)));
    command.arg(format!("--hostname={}", node.name));
    command.arg(format!("--network-bridge={}", state.options.bridge));
    for (name, guest) in PLAIN_DIRECTORIES {
        command.arg(format!("--bind={}:{guest}", directory.join(name).display()));
    }
    for mount in &state.options.mounts {
        command.arg(format!("--bind-ro={}:{}", mount.host.display(), mount.guest.display()));
    }
    if state.options.base.is_none() {
        command.args(state.options.system.init_arguments());
    }
    command.stdin(Stdio::null()).stdout(console).stderr(both);
    let mut child = command.spawn().map_err(|error| Error::Command {
        doing: format!("start the host {}", node.name),
        command: display(&command),
        status: "an error before it started".to_owned(),
        stderr: error.to_string(),
    })?;
    let ended = Ended::default();
    let told = Arc::clone(&ended);
    std::thread::spawn(move || {
        let status = child.wait().map_or_else(|error| error.to_string(), |status: ExitStatus| status.to_string());
        let _ = told.set(status);
    });
    Ok(ended)
}

/// Cuts a host's power: kills all its processes and waits until only its disks are left.
pub(crate) fn kill(state: &State, node: &Node) -> Result<(), Error> {
    // First, because a host without power closes no connections. Those it cannot close would keep the link for minutes.
    network::cut(&network::link_of(&state.options.bridge, node.number))?;
    let group = group(state, node)?;
    group.kill()?;
    group.remove()
}

/// Whether any process of the host is alive.
pub(crate) fn is_running(state: &State, node: &Node) -> Result<bool, Error> {
    Ok(!group(state, node)?.processes().is_empty())
}

/// Path of the host's console output.
pub(crate) fn console(state: &State, node: &Node) -> std::path::PathBuf {
    state.node_directory(node).join("console.log")
}

fn console_hint(state: &State, node: &Node) -> String {
    format!("Its console is in {}.", console(state, node).display())
}

fn died(state: &State, node: &Node, status: &str) -> Error {
    let console = console(state, node);
    let text = fs::read(&console).unwrap_or_default();
    let tail = last_lines(&String::from_utf8_lossy(&text));
    Error::Died { node: node.name.clone(), console, tail: format!("{tail}\nsystemd-nspawn ended with {status}.") }
}
