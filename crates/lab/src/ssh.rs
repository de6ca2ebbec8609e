//! Access to the hosts with the system's SSH client and verified host keys.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::Error;
use crate::command::{output_of, run};
use crate::state::{Node, State};

const SSH_PORT: u16 = 22;
const MOMENT: Duration = Duration::from_secs(2);

/// Creates the key pair that grants access to every host.
pub(crate) fn make_key_pair(state: &State) -> Result<(), Error> {
    let file = state.private_key().display().to_string();
    run("make the lab's key", "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "windlass-lab", "-f", &file])?;
    Ok(())
}

/// A client command for the host, without the remote command. It ignores the user's own configuration.
pub(crate) fn client(state: &State, node: &Node, user: &str) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]);
    command.args(["-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=none", "-o", "ConnectTimeout=5"]);
    command.arg("-o").arg(format!("UserKnownHostsFile={}", state.known_hosts().display()));
    command.arg("-i").arg(state.private_key()).arg(format!("{user}@{}", node.address));
    command
}

/// Reads the banner of the SSH server at the address; the error says why there is none.
pub(crate) fn banner(address: Ipv4Addr) -> Result<(), String> {
    let say = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, SSH_PORT)), MOMENT).map_err(say)?;
    stream.set_read_timeout(Some(MOMENT)).map_err(say)?;
    let mut greeting = [0; 4];
    stream.read_exact(&mut greeting).map_err(say)?;
    if &greeting == b"SSH-" { Ok(()) } else { Err("it greets, but not as SSH does".to_owned()) }
}

/// Output of `systemctl is-system-running` once the host has booted, or the client's message if that fails.
pub(crate) fn system_state(state: &State, node: &Node) -> Result<String, Error> {
    remote(state, node, "systemctl is-system-running --wait")
}

/// The failed units of the host, on one line.
pub(crate) fn failed_units(state: &State, node: &Node) -> Result<String, Error> {
    let text = remote(state, node, "systemctl list-units --state=failed --plain --no-legend")?;
    let units: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    Ok(if units.is_empty() { "no unit has failed".to_owned() } else { format!("failed: {}", units.join(", ")) })
}

/// Empty if the host can connect to the SSH port at `address`, otherwise the reason.
pub(crate) fn reaches(state: &State, node: &Node, address: Ipv4Addr) -> Result<String, Error> {
    remote(state, node, &format!("timeout 10 bash -c ': < /dev/tcp/{address}/{SSH_PORT}' 2>&1 || echo no answer"))
}

/// Runs a command on the host and returns its output. The client exits with this process, or after a timeout.
fn remote(state: &State, node: &Node, remote_command: &str) -> Result<String, Error> {
    let client = client(state, node, "root");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "timeout", "20"]);
    command.arg(client.get_program()).args(client.get_args()).arg(remote_command);
    let output = output_of(&format!("ask the host {}", node.name), &mut command, "")?;
    let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}
