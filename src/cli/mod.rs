//! The command line: one file per subcommand, available under Windlass' and Ansible's names.

mod adhoc;
mod apply;
mod bundle;
mod child;
mod completion;
mod config;
mod console;
mod doc;
mod doctor;
mod engine;
mod explain;
mod fleet;
mod form;
mod galaxy;
mod hostkeys;
mod init;
mod inventory;
mod journal;
mod lab;
mod links;
mod lint;
mod lsp;
mod man;
mod misspelt;
mod options;
mod otlp;
mod plaintext;
mod plan;
mod playbook;
mod pull;
mod reconcile;
mod report;
mod runs;
mod secrets;
mod serve;
mod session;
mod shards;
mod stdout;
mod vault;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches, Parser, Subcommand};
use windlass_template::Compat;

use crate::engine::{Place, WorkerPlace, run_worker};
use crate::error::{Error, Result};
use crate::output::{Printer, Secrets};
use crate::panics;
use crate::settings::{Color, Config, Settings};

/// Greatest width of a help text, in columns.
const WIDEST_HELP: usize = 100;

/// Run Ansible playbooks without agents, and manage Kubernetes clusters
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, propagate_version = true, max_term_width = WIDEST_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write a project, an inventory, a role, a module, or the Kubernetes playbooks
    Init(init::Arguments),
    /// Run playbooks
    Playbook(Box<playbook::Arguments>),
    /// Show what a run of playbooks would change, without changing anything
    Plan(Box<plan::Arguments>),
    /// Run a plan that `windlass plan` wrote, if it still holds
    Apply(apply::Arguments),
    /// Run one module on hosts
    Adhoc(Box<adhoc::Arguments>),
    /// Run modules on hosts interactively
    Console(Box<console::Arguments>),
    /// Fetch a repository and run its playbook on this machine
    Pull(Box<pull::Arguments>),
    /// Keep a cluster as its inventory describes it
    Reconcile(Box<reconcile::Arguments>),
    /// Run a command for several clusters, each with its own inventory
    Fleet(fleet::Arguments),
    /// Show, follow, cancel and remove runs in a Kubernetes cluster
    Engine(engine::Arguments),
    /// List recorded runs; show, compare, repeat and remove them
    Runs(runs::Arguments),
    /// Write a report of a recorded run
    Report(report::Arguments),
    /// Show runs, hosts and inventories in a browser on this machine, and start playbooks from forms
    Serve(serve::Arguments),
    /// Create, verify and unpack bundles of everything that a cluster needs
    Bundle(Box<bundle::Arguments>),
    /// Show, pin, verify and replace host keys of an inventory
    Hostkeys(Box<hostkeys::Arguments>),
    /// Show hosts, groups and variables of an inventory
    Inventory(inventory::Arguments),
    /// Encrypt and decrypt files and values
    Vault(vault::Arguments),
    /// Show documentation of modules, plugins, roles and keywords
    Doc(doc::Arguments),
    /// Explain variables, hosts, conditions, tasks and plays without running tasks
    Explain(explain::Arguments),
    /// Check playbooks, roles, variables and templates without running anything
    Lint(lint::Arguments),
    /// Serve an editor: findings, completion, documentation and definitions
    Lsp(lsp::Arguments),
    /// Show settings, their values and their sources
    Config(config::Arguments),
    /// Install, verify and build roles and collections, and make new ones
    Galaxy(galaxy::Arguments),
    /// Check this machine and this project
    Doctor(doctor::Arguments),
    /// Generate shell completions
    Completion(completion::Arguments),
    /// Generate man pages
    Man(man::Arguments),
    /// Install or remove Ansible's command names as links to this program
    Links(links::Arguments),
    /// Start throwaway systemd hosts on this machine
    Lab(lab::LabArguments),
    /// Run the executor on this machine
    #[command(name = "__executor", hide = true)]
    Executor {
        /// Word after the begin marker
        word: String,
        /// Word of the executor that has started this one for another user
        mark: Option<String>,
    },
    /// Stop the processes of a controller or an executor that dies
    #[command(name = "__guard", hide = true)]
    Guard {
        /// Process id of the controller or the executor
        owner: String,
        /// Word of the executor
        mark: Option<String>,
    },
    /// Run a pod of `windlass playbook --engine kubernetes`
    #[command(name = "__engine", hide = true)]
    EnginePod {
        /// Id of the run
        run: String,
        /// Namespace of the run
        namespace: String,
        /// Folder for everything that the run writes
        work: PathBuf,
        /// Folder of the mounted project
        input: PathBuf,
        /// Address at which the run awaits its workers
        #[arg(long, requires = "port")]
        listen: Option<IpAddr>,
        /// Port for them
        #[arg(long)]
        port: Option<u16>,
    },
    /// Run a worker of `windlass playbook --engine kubernetes --shards`
    #[command(name = "__engine-worker", hide = true)]
    EngineWorker {
        /// Name and port of the pod that leads
        lead: String,
        /// Folder for everything that the run writes
        work: PathBuf,
        /// Folder of the mounted project
        input: PathBuf,
        /// Folder of the mounted keys
        keys: PathBuf,
    },
    /// Relay a program's SSH command over a connection of a running `windlass`
    #[command(name = "__relay", hide = true)]
    Relay {
        /// Socket, followed by `ssh` arguments: options, host, command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// A command name of Ansible's, the subcommand that it stands for, and the reader of that subcommand's arguments.
type AnsibleName = (&'static str, &'static str, fn(&ArgMatches) -> clap::error::Result<Verb>);

const ANSIBLE_NAMES: &[AnsibleName] = &[
    ("ansible", "adhoc", |found| FromArgMatches::from_arg_matches(found).map(Verb::Adhoc)),
    ("ansible-config", "config", |found| FromArgMatches::from_arg_matches(found).map(Verb::Config)),
    ("ansible-console", "console", |found| FromArgMatches::from_arg_matches(found).map(Verb::Console)),
    ("ansible-doc", "doc", |found| FromArgMatches::from_arg_matches(found).map(Verb::Doc)),
    ("ansible-galaxy", "galaxy", |found| FromArgMatches::from_arg_matches(found).map(Verb::Galaxy)),
    ("ansible-inventory", "inventory", |found| FromArgMatches::from_arg_matches(found).map(Verb::Inventory)),
    ("ansible-playbook", "playbook", |found| FromArgMatches::from_arg_matches(found).map(Verb::Playbook)),
    ("ansible-pull", "pull", |found| FromArgMatches::from_arg_matches(found).map(Verb::Pull)),
    ("ansible-vault", "vault", |found| FromArgMatches::from_arg_matches(found).map(Verb::Vault)),
];

/// Runs a command line and returns the exit code.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(code) = completion::answer() {
        return code;
    }
    fleet::enter_session();
    let called = arguments
        .first()
        .map(|name| Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = ANSIBLE_NAMES.iter().find(|(name, ..)| *name == called);
    let program = arguments.first().cloned().unwrap_or_default();
    let verb = match parse(&arguments, name) {
        Ok(verb) => verb,
        Err(error) => match (error.kind(), name) {
            (clap::error::ErrorKind::DisplayVersion, Some((name, ..))) => {
                return print_version(name, Path::new(&program));
            }
            _ => return print_usage(&error),
        },
    };
    let compat = verb.compat().map(str::to_owned);
    if !matches!(verb, Verb::Executor { .. } | Verb::Guard { .. }) {
        windlass_guard::install(crate::connection::GUARD_COMMAND, "", None);
        panics::install();
    }
    let outcome = panics::caught(|| run(verb)).flatten();
    // A verb that fails before it starts its run may leave one.
    crate::output::end_footer();
    windlass_guard::end();
    match outcome {
        // Lost output is not a success.
        Ok(0) if crate::output::has_failed() => ExitCode::from(1),
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            if !error.is_interruption() {
                report(&error, compat.as_deref());
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// Kind of clap's error for a command without its subcommand.
const HELP_WITHOUT_VERB: clap::error::ErrorKind = clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// Parses a command line. One with a name of Ansible's has no subcommand, nor has its usage.
fn parse(arguments: &[OsString], name: Option<&AnsibleName>) -> clap::error::Result<Verb> {
    match parse_by(Cli::command(), arguments, name) {
        // Only help shows examples, so no other start collects them.
        Err(answer) if !answer.use_stderr() || answer.kind() == HELP_WITHOUT_VERB => {
            parse_by(command(), arguments, name)
        }
        outcome => outcome,
    }
}

fn parse_by(
    mut command: clap::Command,
    arguments: &[OsString],
    name: Option<&AnsibleName>,
) -> clap::error::Result<Verb> {
    let of_name = name.and_then(|(name, verb, read)| Some((*name, command.find_subcommand_mut(verb)?, read)));
    let Some((name, verb, read)) = of_name else {
        return Cli::from_arg_matches(&command.try_get_matches_from(arguments)?).map(|cli| cli.verb);
    };
    let verb = std::mem::take(verb).name(name).bin_name(name).max_term_width(WIDEST_HELP);
    read(&verb.version(env!("CARGO_PKG_VERSION")).try_get_matches_from(arguments)?)
}

/// Prints help, the version or a usage error, as clap found it. Help and version succeed; other errors have Ansible's
/// exit code for them.
fn print_usage(answer: &clap::Error) -> ExitCode {
    use std::io::Write as _;
    let printed = answer.print().and_then(|()| std::io::stdout().flush());
    if answer.kind() == clap::error::ErrorKind::InvalidSubcommand
        && let Some(clap::error::ContextValue::String(word)) = answer.get(clap::error::ContextKind::InvalidSubcommand)
        && (word == "run" || Path::new(word).is_file())
    {
        let _ = writeln!(std::io::stderr(), "\nhint: `windlass playbook` runs playbooks");
    }
    ExitCode::from(match printed {
        _ if answer.use_stderr() => 2,
        Err(lost) if lost.kind() != std::io::ErrorKind::BrokenPipe => 1,
        _ => 0,
    })
}

/// Runs a verb and returns its exit code.
fn run(verb: Verb) -> Result<u8> {
    match verb {
        Verb::Init(arguments) => init::run(arguments),
        Verb::Playbook(arguments) => playbook::run(*arguments),
        Verb::Plan(arguments) => plan::run(*arguments),
        Verb::Apply(arguments) => apply::run(&arguments),
        Verb::Adhoc(arguments) => adhoc::run(*arguments),
        Verb::Console(arguments) => console::run(*arguments),
        Verb::Pull(arguments) => pull::run(&arguments),
        Verb::Reconcile(arguments) => reconcile::run(*arguments),
        Verb::Fleet(arguments) => fleet::run(arguments),
        Verb::Engine(arguments) => engine::run(arguments),
        Verb::Runs(arguments) => runs::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Bundle(arguments) => bundle::run(*arguments),
        Verb::Hostkeys(arguments) => hostkeys::run(&arguments),
        Verb::Inventory(arguments) => inventory::run_verb(arguments),
        Verb::Vault(arguments) => vault::run(arguments),
        Verb::Doc(arguments) => doc::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Lint(arguments) => lint::run(&arguments),
        Verb::Lsp(arguments) => lsp::run(&arguments),
        Verb::Config(arguments) => config::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Galaxy(arguments) => galaxy::run(&arguments),
        Verb::Completion(arguments) => completion::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
        Verb::Links(arguments) => links::run(&arguments),
        Verb::Lab(arguments) => lab::run(arguments).map(|()| 0).map_err(|error| Error::new(error.to_string())),
        Verb::EnginePod { run, namespace, work, input, listen, port } => {
            let listen = listen.zip(port).map(SocketAddr::from);
            engine::run_in_pod(Place { run, namespace, work, input, listen })
        }
        Verb::EngineWorker { lead, work, input, keys } => run_worker(&WorkerPlace { lead, work, input, keys }),
        Verb::Relay { words } => crate::connection::relay::run(&words),
        Verb::Guard { owner, .. } => {
            windlass_guard::run(&owner);
            Ok(0)
        }
        Verb::Executor { word, .. } => windlass_modules::serve(&word, crate::connection::GUARD_COMMAND)
            .map(|()| 0)
            .map_err(|error| Error::new(format!("the executor cannot answer: {error}"))),
    }
}

impl Verb {
    /// Value of `--compat`, if given.
    fn compat(&self) -> Option<&str> {
        match self {
            Verb::Playbook(arguments) => arguments.selection.options.compat(),
            Verb::Plan(arguments) => arguments.selection.options.compat(),
            Verb::Adhoc(arguments) => arguments.options.compat(),
            Verb::Console(arguments) => arguments.options.compat(),
            _ => None,
        }
    }
}

/// Prints an error with the prefix that the emulated release of Ansible uses.
fn report(error: &Error, compat: Option<&str>) {
    let compat = match compat {
        Some(name) => Compat::named(name),
        None => Config::find().and_then(|config| Settings::from_config(&config)).map(|settings| settings.compat).ok(),
    };
    let text = if compat.unwrap_or_default().prefixes_errors_plainly() {
        format!("ERROR! {}", error.classic())
    } else {
        format!("[ERROR]: {error}")
    };
    let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
    Printer::new(color, Secrets::of_process()).error_line(&text, Color::Error);
}

/// Prints a version like Ansible's commands, without the lines about Python.
fn print_version(name: &str, program: &Path) -> ExitCode {
    let printer = Printer::plain(Secrets::default());
    let say = |text: String| printer.line(&text, Color::Plain);
    let settings = Config::find().and_then(|config| Settings::from_config(&config));
    let compat = settings.as_ref().map(|settings| settings.compat).unwrap_or_default();
    let (major, minor, revision) = crate::vars::ansible_version(compat);
    say(format!("{name} [core {major}.{minor}.{revision}]"));
    match settings {
        Ok(settings) => {
            let shown = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
            let file =
                settings.config_file.as_ref().map_or_else(|| "None".to_owned(), |file| file.display().to_string());
            say(format!("  config file = {file}"));
            let library = windlass_template::Value::from(shown(&settings.code.library));
            say(format!("  configured module search path = {}", windlass_template::repr(&library)));
            say(format!("  ansible collection location = {}", shown(&settings.code.collections_path).join(":")));
        }
        Err(error) => report(&error, None),
    }
    say(format!("  executable location = {}", found(program).display()));
    say(format!("  windlass version = {}", env!("CARGO_PKG_VERSION")));
    ExitCode::SUCCESS
}

/// Resolves a program's name on `PATH`; a path becomes absolute.
fn found(program: &Path) -> PathBuf {
    let is_name = program.components().count() == 1;
    let there = is_name.then(|| crate::paths::on_path(program)).flatten();
    there.unwrap_or_else(|| crate::paths::absolute(program))
}

/// The command line's definition.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    share_examples(&mut command, "windlass");
    command
}

/// Gives subcommands without examples the examples of the command above that call them.
fn share_examples(command: &mut clap::Command, words: &str) {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for subcommand in command.get_subcommands_mut() {
        let words = format!("{words} {}", subcommand.get_name());
        let calls = |line: &&str| {
            line.trim_start().strip_prefix(&words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let calling: Vec<&str> = examples.lines().filter(calls).collect();
        if subcommand.get_after_help().is_none() && !calling.is_empty() {
            *subcommand = std::mem::take(subcommand).after_help(format!("Examples:\n{}", calling.join("\n")));
        }
        share_examples(subcommand, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_ansible_names_has_no_subcommand() {
        for name in ANSIBLE_NAMES {
            let help = parse(&[name.0.into(), "--help".into()], Some(name)).unwrap_err().to_string();
            assert!(help.contains(&format!("Usage: {} ", name.0)), "{help}");
            assert!(!help.contains(&format!("{} {} ", name.0, name.1)), "{help}");
        }
    }
}
