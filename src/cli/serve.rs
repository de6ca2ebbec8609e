//! `windlass serve`: pages over runs and inventories for a browser on this machine.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use windlass_template::{Engine, LIBRARY};
use windlass_vault::Secrets as VaultSecrets;

use super::fleet;
use super::session::{self, block_on};
use crate::error::{Error, Result};
use crate::journal::State;
use crate::output::Secrets;
use crate::playbook::Files;
use crate::serve::{Cluster, Pages, Role, Scope, Setup};
use crate::settings::{Color, Config, Settings};
use crate::signals::until_signal;

/// Show runs, hosts and inventories in a browser on this machine, and start playbooks from forms
///
/// Prints an address with a token, and serves pages until it is interrupted: the recorded runs with their reports, a
/// running run as it goes on, inventories, hosts, and the last reports of playbooks/verify.yml side by side. Nothing
/// can be started or changed, unless a configuration file lists users and the playbooks that they may start. From
/// another machine, use an SSH tunnel.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  windlass serve                                     # runs and inventory of this directory
  windlass serve -i inventory/eu -i inventory/us     # two clusters
  windlass serve -i inventory/eu --config serve.yml  # users sign in, and start playbooks
  windlass serve token ana                           # a token for a user of serve.yml
  ssh -L 8470:127.0.0.1:8470 USER@MACHINE            # a tunnel; then open the address"
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// File with users, and the playbooks that they may start
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Inventory of a cluster; its name is that of its folder or file, unless it is given; repeatable [default: the
    /// inventory of ansible.cfg]
    #[arg(short, long, value_name = "[NAME=]SOURCE")]
    inventory: Vec<String>,
    /// Loopback address and port; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// Show all recorded runs, and not only runs of this directory
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    vault: super::options::VaultOptions,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token for a user, and the line of the configuration file with its hash
    Token {
        /// Name of the user
        name: String,
        /// Rights of the user: `viewer`, `operator` or `admin`
        #[arg(long, value_name = "ROLE", value_enum, default_value = "viewer")]
        role: Role,
    },
}

/// Name of an inventory that suggests none.
const INVENTORY: &str = "inventory";

/// Names of hosts and groups in all inventories.
type Names = Arc<Mutex<HashSet<Box<str>>>>;

/// Settings and passwords for reading inventories.
struct Inputs {
    settings: Settings,
    vault: VaultSecrets,
    names: Names,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    match &arguments.verb {
        Some(Verb::Token { name, role }) => token(name, *role),
        None => serve(arguments),
    }
}

/// Prints a new token.
fn token(name: &str, role: Role) -> Result<u8> {
    let line = crate::serve::user_line(name, role)?;
    // Printed unmasked, because the user requested it.
    super::stdout::print(&format!(
        "The token of {name}, which is shown only now:\n\n  {}\n\nThe line for `users` in the file of --config:\n\n  {}\n",
        line.token, line.text
    ))?;
    Ok(0)
}

fn serve(arguments: &Arguments) -> Result<u8> {
    let listen = arguments.listen;
    if !listen.ip().is_loopback() {
        let port = if listen.port() == 0 { 8470 } else { listen.port() };
        return Err(Error::usage(format!(
            "`{listen}` is not an address of this machine alone, and nothing is encrypted"
        ))
        .hint(format!(
            "listen on 127.0.0.1, and reach it from elsewhere by `ssh -L {port}:127.0.0.1:{port} USER@MACHINE`"
        )));
    }
    let config = Config::find()?;
    let settings = Settings::from_config(&config)?;
    let printer = session::printer(&settings);
    let state = State::of(&settings)?;
    let scope = scope(arguments.all)?;
    let setup = arguments.config.as_ref().map(|file| {
        refuse_prompts(&arguments.vault, &settings, &config)?;
        setup(file, arguments, &settings)
    });
    let setup = setup.transpose()?;
    let (clusters, vault) = clusters(arguments, settings)?;
    let setup = setup.map(|setup| Setup { vault, ..setup });
    block_on(async {
        let listener = TcpListener::bind(listen).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| {
            let hint = (error.kind() == std::io::ErrorKind::AddrInUse)
                .then(|| format!("take any free port with `--listen {}`", SocketAddr::new(listen.ip(), 0)));
            Error::new(format!("`{listen}` cannot be listened on: {error}")).maybe_hint(hint)
        })?;
        let pages = Arc::new(Pages::new(address, state, scope, clusters, setup)?);
        // Not by the printer, which masks passwords in addresses.
        let (query, about) = match pages.token() {
            Some(token) => (format!("?token={token}"), "The address is a password. Ctrl-C ends the server."),
            None => (String::new(), "Users sign in with their tokens. Ctrl-C ends the server, and no run."),
        };
        super::stdout::print(&format!("serving at http://{address}/{query}\n"))?;
        printer.line(about, Color::Plain);
        match until_signal(Arc::clone(&pages).serve(listener)).await {
            Ok(()) => Ok(0),
            Err((signal, _handler)) => {
                for run in pages.end() {
                    printer.line(&format!("{} of {} goes on", run.name, run.user), Color::Plain);
                }
                printer.line(&format!("{}: ended", signal.name), Color::Plain);
                Ok(signal.code)
            }
        }
    })
}

/// Fails if a run would ask for a password: nobody could answer.
fn refuse_prompts(vault: &super::options::VaultOptions, settings: &Settings, config: &Config) -> Result<()> {
    let mut ids = settings.vault.ids.iter().chain(&vault.vault_id);
    let has_source = ids.clone().next().is_some() || !vault.vault_password_file.is_empty();
    if vault.ask_vault_password
        || (settings.vault.ask_pass && !has_source)
        || ids.any(|id| id.rsplit('@').next() == Some("prompt"))
    {
        return Err(Error::usage("a run that a page starts cannot ask for the password of a vault")
            .hint("give the password in a file, by --vault-password-file or --vault-id"));
    }
    for name in ["ask_pass", "become_ask_pass"] {
        if config.bool(name)? == Some(true) {
            return Err(Error::usage(format!(
                "a run that a page starts cannot ask for a password: unset the setting `{name}`, and use keys"
            )));
        }
    }
    Ok(())
}

/// The setup of pages with users, except for passwords of vaults.
fn setup(config: &std::path::Path, arguments: &Arguments, settings: &Settings) -> Result<Setup> {
    let vault = &arguments.vault;
    if !settings.journal.enabled {
        return Err(Error::usage("a run that a page starts needs the journal, which a setting disables")
            .hint("set WINDLASS_JOURNAL=true"));
    }
    let directory = std::env::current_dir().and_then(|path| path.canonicalize());
    let directory = directory.map_err(|error| Error::new(format!("the current directory cannot be found: {error}")))?;
    let mut options: Vec<OsString> = Vec::new();
    for id in &vault.vault_id {
        options.extend(["--vault-id".into(), id.into()]);
    }
    for file in &vault.vault_password_file {
        options.extend(["--vault-password-file".into(), file.into()]);
    }
    Ok(Setup {
        config: config.to_owned(),
        roles: std::iter::once(directory.join("roles")).chain(settings.code.roles_path.iter().cloned()).collect(),
        directory,
        options,
        vault: VaultSecrets::default(),
        duplicate_keys: settings.duplicate_keys,
    })
}

fn scope(all: bool) -> Result<Scope> {
    if all {
        return Ok(Scope::All);
    }
    let here = std::env::current_dir().and_then(|path| path.canonicalize());
    here.map(Scope::Directory).map_err(|error| Error::new(format!("the current directory cannot be found: {error}")))
}

/// The inventories of the command line, each as a cluster of its own, or else the settings' inventories as one; and the
/// passwords of vaults.
fn clusters(arguments: &Arguments, settings: Settings) -> Result<(Vec<Cluster>, VaultSecrets)> {
    let masked = Secrets::of_process();
    let mut vault = arguments.vault.secrets(&settings)?;
    vault.iter().for_each(|secret| masked.add_password(&String::from_utf8_lossy(secret.password())));
    let names = Names::default();
    let known = Arc::clone(&names);
    // Names of hosts and groups are no secrets, whatever a decrypted file holds.
    masked.exempt(move |name| known.lock().unwrap_or_else(PoisonError::into_inner).contains(name));
    // Every decrypted text is masked before it can be shown.
    vault.observe(Arc::new(move |plain| masked.reveal(plain)));
    let inputs = Inputs { settings, vault, names };
    let given = fleet::named(&arguments.inventory, Some(INVENTORY))?;
    if given.is_empty() {
        let sources = inputs.settings.inventory.sources.clone();
        let has_default = std::path::Path::new("/etc/ansible/hosts").exists();
        if sources.is_empty() && !has_default {
            return Ok((Vec::new(), inputs.vault));
        }
        return Ok((vec![cluster(INVENTORY.to_owned(), sources, &inputs)], inputs.vault));
    }
    let clusters = given.into_iter().map(|given| cluster(given.name, vec![given.source], &inputs)).collect();
    Ok((clusters, inputs.vault))
}

fn cluster(name: String, sources: Vec<String>, inputs: &Inputs) -> Cluster {
    let folders: Vec<PathBuf> = sources.iter().filter_map(|source| fleet::folder(source)).collect();
    let mut settings = inputs.settings.clone();
    (settings.inventory.sources, settings.inventory.limit) = (sources.clone(), None);
    let names = Arc::clone(&inputs.names);
    let engine = Engine::new(
        &LIBRARY,
        windlass_template::Options {
            compat: settings.compat,
            playbook_dir: settings.playbook_dir.clone(),
            secrets: inputs.vault.clone(),
            ..windlass_template::Options::default()
        },
    );
    let files = Files::new(inputs.vault.clone(), settings.duplicate_keys);
    let plugins = session::plugins_without_tasks(&settings, files);
    let read = move || {
        let mut warnings = Vec::new();
        let mut warn = |sentence: String| warnings.push(sentence);
        let inventory = session::inventory(&settings, &engine, Arc::clone(&plugins), &Arc::default(), &mut warn)?;
        names.lock().unwrap_or_else(PoisonError::into_inner).extend(inventory.names().map(Box::from));
        warnings.extend(inventory.take_warnings().iter().map(ToString::to_string));
        Ok((inventory, warnings))
    };
    Cluster::new(name, sources, folders, Box::new(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_runs_are_shown_only_on_request() {
        assert!(matches!(scope(true), Ok(Scope::All)));
        assert!(matches!(scope(false), Ok(Scope::Directory(path)) if path.is_absolute()));
    }
}
