//! `windlass lab`: throwaway hosts on this machine.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use windlass_lab::{
    Error, Format, Lab, Mount, Network, NodeStatus, Options, System, default_directory, down, parse_size, up,
};

/// Start, inspect and remove throwaway hosts on this machine
///
/// The hosts are systemd containers on a separate bridge, with an SSH server and without Python. They reach only each
/// other and this machine. Users: root, ops (sudo without a password), opspw (sudo with the password `windlass`).
///
/// The lab's state is in /var/lib/windlass-lab or $WINDLASS_LAB_DIR, the base system in /var/cache/windlass or
/// $WINDLASS_CACHE.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass lab up --nodes 3 --memory 2G  # start three hosts
  windlass lab inventory > hosts.ini     # write an inventory
  windlass lab status                    # list the hosts
  windlass lab ssh node1                 # open a shell
  windlass lab kill node1                # cut its power
  windlass lab start node1               # boot it again
  windlass lab down                      # remove everything")]
pub(super) struct LabArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start hosts and wait until they are up; running hosts stay, and a greater number adds hosts
    Up(UpArguments),
    /// Remove all hosts and everything created for them
    Down,
    /// Show the state of the hosts
    Status,
    /// Print an inventory of the hosts with Kubespray's group names
    Inventory {
        /// Output format: ini or yaml
        #[arg(long, default_value = "ini")]
        format: Format,
    },
    /// Open a shell or run a command on a host with the system's SSH client
    Ssh {
        /// Host name
        node: String,
        /// Command to run [default: a login shell]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
        /// User to log in as: root, ops or opspw
        #[arg(long, short, default_value = "root")]
        user: String,
    },
    /// Cut the power of a host
    Kill {
        /// Host name
        node: String,
    },
    /// Boot a host after `kill`, with its disks unchanged
    Start {
        /// Host name
        node: String,
    },
}

#[derive(Debug, Args)]
struct UpArguments {
    /// Number of hosts, 1 to 50
    #[arg(long, short, default_value_t = 3)]
    nodes: usize,
    /// Memory limit per host in bytes, or with a suffix such as 2G [default: none]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Processor limit per host, such as 1.5 [default: none]
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<f64>,
    /// Base system: debian12 or debian13
    #[arg(long, default_value_t)]
    system: System,
    /// Directory tree to boot instead of the base system
    #[arg(long, value_name = "DIRECTORY")]
    base: Option<PathBuf>,
    /// Mount a directory read-only in every host; repeatable
    #[arg(long = "mount", value_name = "HERE:THERE")]
    mounts: Vec<Mount>,
    /// Name of the bridge, up to 9 letters and digits [default: windlass0]
    #[arg(long, value_name = "NAME")]
    bridge: Option<String>,
    /// Network of the hosts, a /24 [default: 10.97.0.0/24]
    #[arg(long, value_name = "NETWORK")]
    network: Option<Network>,
}

impl UpArguments {
    fn options(self) -> Options {
        let default = Options::default();
        Options {
            nodes: self.nodes,
            memory: self.memory,
            cpus: self.cpus,
            system: self.system,
            base: self.base,
            mounts: self.mounts,
            bridge: self.bridge.unwrap_or(default.bridge),
            network: self.network.unwrap_or(default.network),
            directory: default.directory,
            cache: default.cache,
        }
    }
}

/// Runs `windlass lab`.
///
/// # Errors
/// Fails with a message if the lab cannot be started, found or changed.
pub(super) fn run(arguments: LabArguments) -> Result<(), Error> {
    let directory = default_directory();
    match arguments.verb {
        Verb::Up(arguments) => {
            let lab = up(&arguments.options(), &mut progress)?;
            progress(&format!(
                "inventory: {}; open a shell with `windlass lab ssh node1`, remove the hosts with `windlass lab down`",
                lab.inventory_file().display()
            ));
        }
        Verb::Down => {
            if !down(&directory, &mut progress)? {
                progress(&format!("there is no lab in {}", directory.display()));
            }
        }
        Verb::Status => print(&table(&Lab::open(&directory)?.status()?)),
        Verb::Inventory { format } => print(&Lab::open(&directory)?.inventory(format)),
        Verb::Ssh { node, command, user } => return ssh(&Lab::open(&directory)?, &node, &user, &command),
        Verb::Kill { node } => Lab::open(&directory)?.kill(&node)?,
        Verb::Start { node } => Lab::open(&directory)?.start(&node, &mut progress)?,
    }
    Ok(())
}

/// Replaces this process by the SSH client, so that its exit status is passed on.
fn ssh(lab: &Lab, node: &str, user: &str, command: &[String]) -> Result<(), Error> {
    let mut client = lab.ssh(node, user)?;
    client.args(command);
    Err(Error::Command {
        doing: "start the SSH client".to_owned(),
        command: "ssh".to_owned(),
        status: "an error before it started".to_owned(),
        stderr: client.exec().to_string(),
    })
}

fn table(hosts: &[NodeStatus]) -> String {
    let heading = ["NAME", "ADDRESS", "STATE", "PROCESSES", "MEMORY"].map(str::to_owned);
    let rows = hosts.iter().map(|host| {
        let state = if host.running { "running" } else { "stopped" };
        let memory = host.memory.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let (address, processes) = (host.node.address.to_string(), host.processes.to_string());
        [host.node.name.clone(), address, state.to_owned(), processes, memory]
    });
    crate::output::table(heading, rows).join("\n") + "\n"
}

/// Progress goes to standard error, so that standard output contains only results.
fn progress(line: &str) {
    // A closed standard error must not stop the command half-way.
    let _ = writeln!(io::stderr(), "{line}");
}

fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        lab: LabArguments,
    }

    fn options(words: &[&str]) -> Result<Options, clap::Error> {
        match Command::try_parse_from(words)?.lab.verb {
            Verb::Up(arguments) => Ok(arguments.options()),
            other => panic!("{other:?} is not up"),
        }
    }

    #[test]
    fn options_of_up_are_understood() {
        let words = ["lab", "up", "--nodes", "2", "--memory", "3G", "--cpus", "1.5", "--mount", "/srv:/opt/artifacts"];
        let options = options(&words).unwrap();
        assert_eq!((options.nodes, options.memory, options.cpus), (2, Some(3 << 30), Some(1.5)));
        assert_eq!(options.mounts, ["/srv:/opt/artifacts".parse().unwrap()]);
        assert_eq!(options.bridge, "windlass0");
    }

    #[test]
    fn invalid_size_refused_with_example() {
        let error = options(&["lab", "up", "--memory", "much"]).unwrap_err().to_string();
        assert!(error.contains("such as 2G"), "{error}");
    }
}
