//! `windlass init`: writes a project that runs, an inventory, a role, a module, or the Kubernetes playbooks.

mod hosts;
mod kubernetes;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use self::hosts::{Host, Login};
use super::secrets;
use crate::error::{Error, Result};
use crate::output::Printer;
use crate::settings::{Color, Config, Settings};

/// Write a project, an inventory, a role, a module, or the Kubernetes playbooks.
///
/// Nothing that exists is overwritten. At a terminal, missing hosts are asked for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    windlass init project shop --host web1=192.0.2.11 --host web2=192.0.2.12 --user admin\n  \
    windlass init kubernetes prod --control-plane cp1=192.0.2.21 --worker w1=192.0.2.31\n  \
    windlass init inventory\n  \
    windlass init role nginx\n  \
    windlass init module queue_length")]
pub(super) struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Write a project: ansible.cfg, an inventory, a playbook and a role
    Project {
        /// Directory of the project
        #[arg(value_name = "DIR", default_value = ".")]
        directory: PathBuf,
        #[command(flatten)]
        hosts: Hosts,
    },
    /// Write the Kubernetes playbooks and roles of this release, with an inventory
    Kubernetes {
        /// Directory of the project
        #[arg(value_name = "DIR", default_value = ".")]
        directory: PathBuf,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Write an inventory
    Inventory {
        /// The inventory
        #[arg(value_name = "FILE", default_value = "hosts.yml")]
        file: PathBuf,
        #[command(flatten)]
        hosts: Hosts,
    },
    /// Write a role, like `windlass galaxy role init`
    Role {
        /// Name of the role
        #[arg(value_name = "ROLE")]
        name: String,
        /// Directory that holds the project's roles
        #[arg(long, value_name = "DIR", default_value = "roles")]
        roles: PathBuf,
    },
    /// Write a module in Python that needs no ansible-core
    Module {
        /// Name of the module
        #[arg(value_name = "MODULE")]
        name: String,
        /// Directory that holds the project's modules
        #[arg(long, value_name = "DIR", default_value = "library")]
        library: PathBuf,
    },
}

/// Hosts of a new inventory.
#[derive(Debug, Args)]
struct Hosts {
    /// A host; repeat it, or separate hosts by commas. Without one, the inventory names this machine
    #[arg(long = "host", value_name = "NAME[=ADDRESS]", value_delimiter = ',')]
    hosts: Vec<Host>,
    #[command(flatten)]
    login: Login,
}

/// Nodes of a new cluster.
#[derive(Debug, Args)]
struct Nodes {
    /// A control plane, which also runs etcd; repeat it, or separate hosts by commas
    #[arg(long = "control-plane", value_name = "NAME[=ADDRESS]", value_delimiter = ',')]
    control_planes: Vec<Host>,
    /// A worker; repeat it, or separate hosts by commas. Without one, the control planes also run pods
    #[arg(long = "worker", value_name = "NAME[=ADDRESS]", value_delimiter = ',')]
    workers: Vec<Host>,
    #[command(flatten)]
    login: Login,
}

/// Content by path, relative to the directory that is written.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Runs the verb.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let printer = super::session::printer(&Settings::from_config(&Config::find()?)?);
    match arguments.kind {
        Kind::Project { directory, hosts } => {
            let files = project(&asked_hosts(hosts.hosts)?, &hosts.login);
            write(&directory, &files)?;
            next(&printer, &directory, &["windlass playbook site.yml --check --diff", "windlass playbook site.yml"]);
        }
        Kind::Kubernetes { directory, nodes } => {
            let planes = asked_nodes(nodes.control_planes, "Control planes")?;
            let workers = if planes.is_empty() { nodes.workers } else { asked_nodes(nodes.workers, "Workers")? };
            let has_hosts = !planes.is_empty();
            write(&directory, &kubernetes::files(&planes, &workers, &nodes.login)?)?;
            let edit = if has_hosts { None } else { Some("$EDITOR inventory/hosts.yml") };
            let run = ["windlass hostkeys pin -i inventory", "windlass playbook -i inventory playbooks/cluster.yml"];
            next(&printer, &directory, &edit.into_iter().chain(run).collect::<Vec<_>>());
        }
        Kind::Inventory { file, hosts } => {
            let name = PathBuf::from(file.file_name().unwrap_or_default());
            let content = hosts::inventory(&asked_hosts(hosts.hosts)?, &hosts.login);
            let directory = file.parent().unwrap_or(Path::new(""));
            write(directory, &Files::from([(name, content.into_bytes())]))?;
            let run = format!("windlass adhoc -i {} all -m ping", shell_words::quote(&file.to_string_lossy()));
            next(&printer, Path::new(""), &[&run]);
        }
        Kind::Role { name, roles } => return super::galaxy::new_role(&name, &roles),
        Kind::Module { name, library } => {
            let is_name = |name: &str| {
                let mut letters = name.chars();
                letters.next().is_some_and(|first| first.is_ascii_lowercase())
                    && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            };
            if !is_name(&name) {
                return Err(Error::usage(format!("`{name}` cannot be the name of a module"))
                    .hint("use lower-case letters, digits and underscores, beginning with a letter"));
            }
            let content = text::MODULE.replace("MODULE_NAME", &name);
            write(&library, &Files::from([(PathBuf::from(format!("{name}.py")), content.into_bytes())]))?;
            let folder = shell_words::quote(&library.to_string_lossy()).into_owned();
            let run = format!("windlass adhoc localhost -M {folder} -m {name} -a path=/etc/hostname");
            next(&printer, Path::new(""), &[&run]);
        }
    }
    Ok(0)
}

/// Files of `windlass init project`.
fn project(hosts: &[Host], login: &Login) -> Files {
    let mut files: Files = text::PROJECT.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect();
    files.insert("hosts.yml".into(), hosts::inventory(hosts, login).into_bytes());
    files
}

/// The hosts of the command line; without any, those the user enters at a terminal.
fn asked_hosts(given: Vec<Host>) -> Result<Vec<Host>> {
    asked_nodes(given, "Hosts, or nothing for this machine")
}

fn asked_nodes(given: Vec<Host>, question: &str) -> Result<Vec<Host>> {
    if !given.is_empty() || !secrets::has_terminal() {
        return Ok(given);
    }
    let answer = secrets::line(&format!("{question} (NAME or NAME=ADDRESS, separated by spaces): "))
        .map_err(|error| Error::new(format!("the answer cannot be read: {error}")))?
        .unwrap_or_default();
    let words = answer.split([' ', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.parse::<Host>().map_err(Error::usage)).collect()
}

/// Writes the files below a directory, all or none of them: an existing one is an error before anything is written.
fn write(directory: &Path, files: &Files) -> Result<()> {
    let existing: Vec<String> = files
        .keys()
        .map(|path| directory.join(path))
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| path.display().to_string())
        .collect();
    if let [first, rest @ ..] = existing.as_slice() {
        let which = match rest.len() {
            0 => format!("`{first}` exists"),
            more => format!("`{first}` and {more} more exist"),
        };
        return Err(Error::new(format!("nothing was written, because {which} already"))
            .hint("choose another directory, or move away what exists"));
    }
    let created = files.iter().try_fold(Vec::new(), |mut created, (path, content)| {
        let path = directory.join(path);
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        match parent.and_then(|()| std::fs::write(&path, content)) {
            Ok(()) => {
                created.push(path);
                Ok(created)
            }
            Err(error) => {
                let message = format!("`{}` cannot be written: {error}", path.display());
                created.push(path);
                Err((created, message))
            }
        }
    });
    created.map(drop).map_err(|(created, message)| {
        for path in created {
            let _ = std::fs::remove_file(path);
        }
        Error::new(message)
    })
}

/// Prints the commands that come next.
fn next(printer: &Printer, directory: &Path, commands: &[&str]) {
    printer.line("Next:", Color::Plain);
    if !matches!(directory.to_string_lossy().as_ref(), "" | ".") {
        printer.line(&format!("  cd {}", shell_words::quote(&directory.to_string_lossy())), Color::Plain);
    }
    for command in commands {
        printer.line(&format!("  {command}"), Color::Plain);
    }
}
