//! `windlass hostkeys`: shows, pins, verifies and replaces the host keys of an inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tokio::task::JoinSet;
use windlass_ssh::{Connector, Error as SshError, HostKey, Verdict};

use super::lint::counted;
use super::options::{self, TaskOptions};
use super::plan::is_confirmed;
use super::session::{Session, block_on};
use crate::connection::{Kind, Target, ssh_destination};
use crate::error::{Error, Result};
use crate::output::{AtTerminal, Outputs, Printer};
use crate::settings::{Color, Config, Settings};
use crate::vars::connection_variables;

/// Exit code if a key is unknown or differs from the known one.
const MISMATCH: u8 = 2;
/// Exit code if hosts did not answer.
const UNREACHABLE: u8 = 4;

/// Hosts that a warning about one key lists.
const LISTED: usize = 5;

/// Options of runs without an effect: no task runs, and no user is switched to.
const WITHOUT_EFFECT: &[&str] = &[
    "accept_new_host_keys",
    "ask_become_pass",
    "become",
    "become_method",
    "become_password_file",
    "become_user",
    "check",
    "diff",
    "live",
    "lock",
    "lock_timeout",
    "module_path",
    "no_stream",
    "progress",
];

/// Show, pin, verify and replace SSH host keys of an inventory
#[derive(Debug, Args)]
#[command(mut_subcommands(|one| options::hide(one, WITHOUT_EFFECT)))]
#[command(after_help = "Examples:
  windlass hostkeys scan -i hosts.yml          # print keys and fingerprints
  windlass hostkeys pin -i hosts.yml web       # add keys after confirmation
  windlass hostkeys verify -i hosts.yml        # compare with known_hosts
  windlass hostkeys replace -i hosts.yml web1  # after web1 was reinstalled")]
pub(super) struct Arguments {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Print the host keys as known_hosts lines with fingerprints
    Scan(Selection),
    /// Add keys of unknown hosts to known_hosts
    Pin {
        /// Add keys without confirmation; use only on a trusted network
        #[arg(long)]
        yes: bool,
        /// Add keys to this file instead of known_hosts
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Compare host keys with known_hosts; exits with 2 if a key differs or is unknown
    Verify(Selection),
    /// Replace the known keys of hosts whose key has changed, in every known_hosts file that has them
    Replace {
        /// Replace keys without confirmation, after you have compared the fingerprints
        #[arg(long)]
        yes: bool,
        /// Host pattern
        #[arg(value_name = "PATTERN")]
        pattern: String,
        #[command(flatten)]
        options: TaskOptions,
    },
}

#[derive(Debug, Args)]
struct Selection {
    /// Host pattern
    #[arg(value_name = "PATTERN", default_value = "all")]
    pattern: String,
    #[command(flatten)]
    options: TaskOptions,
}

impl Work {
    /// Pattern and options.
    fn selection(&self) -> (&str, &TaskOptions) {
        match self {
            Work::Scan(selection) | Work::Verify(selection) | Work::Pin { selection, .. } => {
                (&selection.pattern, &selection.options)
            }
            Work::Replace { pattern, options, .. } => (pattern, options),
        }
    }
}

/// A host with its keys, or the error.
struct Scanned {
    host: Arc<str>,
    target: Target,
    keys: Result<Vec<HostKey>, SshError>,
    /// Result of verifying the connection, if no presented key is known by itself.
    judgement: Option<Result<(), SshError>>,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let config = Config::find()?;
    let mut settings = Settings::from_config(&config)?;
    let (pattern, options) = arguments.work.selection();
    options.apply(&mut settings, &config)?;
    let inputs = options.inputs(&settings)?;
    let printer = super::session::printer(&settings);
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let output = Box::new(Outputs::minimal(&printer, &settings, &config)?);
    block_on(async {
        let session = Session::start(settings, inputs, output, &printer)?;
        let outcome = async {
            let targets = targets(&session, pattern)?;
            if targets.is_empty() {
                session.shared.warn("No matching host uses SSH");
            }
            let connector = Arc::new(Connector::for_user(Arc::new(AtTerminal::new(session.shared.events.clone()))));
            let scanned = scan(&session, &connector, targets).await;
            if matches!(arguments.work, Work::Pin { .. } | Work::Verify(_)) {
                shared_keys(&connector, &scanned).await.iter().for_each(|warning| printer.warning(warning));
            }
            match &arguments.work {
                Work::Scan(_) => show(&scanned, &printer),
                Work::Verify(_) => Ok(verify(&scanned, &printer)),
                Work::Pin { yes, file, .. } => pin(&scanned, &printer, *yes, file.as_ref()),
                Work::Replace { yes, .. } => replace(&scanned, &printer, *yes),
            }
        }
        .await;
        session.end().await;
        outcome
    })
}

/// Targets of hosts that use SSH, in the order of the inventory.
fn targets(session: &Session, pattern: &str) -> Result<Vec<Target>> {
    let world = &session.world;
    let matches = world.inventory.matching(pattern)?;
    matches.warnings.iter().for_each(|warning| session.shared.warn(warning.to_string()));
    let mut targets = Vec::new();
    for name in matches.hosts {
        let is_implicit = world.inventory.host(&name).is_some_and(windlass_inventory::Host::is_implicit);
        let context = world.host_context(&name);
        let found = connection_variables(&name, &context, &|_| None, &world.run.settings)?;
        if found.target.kind == Kind::Ssh && !is_implicit {
            targets.push(found.target);
        }
    }
    Ok(targets)
}

async fn scan(session: &Session, connector: &Arc<Connector>, targets: Vec<Target>) -> Vec<Scanned> {
    let running: Vec<_> = targets
        .into_iter()
        .map(|target| {
            let (connector, forks) = (Arc::clone(connector), Arc::clone(&session.shared.forks));
            tokio::spawn(async move {
                // Fails only if the semaphore is closed, which never happens.
                let _permit = forks.acquire().await;
                let (destination, settings) = ssh_destination(&target);
                let keys = connector.host_keys(&destination, &settings).await;
                let is_decided = |key: &HostKey| key.verdict != Verdict::Unknown;
                let judgement = match &keys {
                    // known_hosts may contain a certificate or a key of another algorithm.
                    Ok(keys) if !keys.iter().any(is_decided) => {
                        Some(connector.verify_host_key(&destination, &settings).await)
                    }
                    _ => None,
                };
                Scanned { host: Arc::from(target.name.as_str()), target, keys, judgement }
            })
        })
        .collect();
    let mut scanned = Vec::new();
    for task in running {
        scanned.extend(task.await.ok());
    }
    scanned
}

fn show(scanned: &[Scanned], printer: &Printer) -> Result<u8> {
    let mut code = 0;
    for Scanned { host, keys, .. } in scanned {
        match keys {
            Ok(keys) => {
                for key in keys {
                    printer.line(&format!("# {host} {} {}", key.algorithm, key.fingerprint), Color::Plain);
                    printer.line(&line(key)?, Color::Plain);
                }
            }
            Err(error) => code = unreachable(host, error, printer),
        }
    }
    Ok(code)
}

fn verify(scanned: &[Scanned], printer: &Printer) -> u8 {
    let mut code = 0;
    for Scanned { host, keys, judgement, .. } in scanned {
        let Some(keys) = answered(host, keys, &mut code, printer) else { continue };
        let mismatches: Vec<String> = keys.iter().filter_map(mismatch).collect();
        mismatches.iter().for_each(|text| printer.line(&format!("{host}: {text}"), Color::Error));
        let known = keys.iter().find_map(|key| match &key.verdict {
            Verdict::Known { file, line } => {
                Some(format!("{} {} is known from {}:{line}", key.algorithm, key.fingerprint, file.display()))
            }
            _ => None,
        });
        match (mismatches.is_empty(), known, judgement) {
            (false, ..) => code = MISMATCH,
            (true, Some(known), _) => printer.line(&format!("{host}: {known}"), Color::Ok),
            (true, None, Some(Ok(()))) => {
                printer.line(&format!("{host}: its certificate is signed by a known authority"), Color::Ok);
            }
            (true, None, Some(Err(error))) => {
                printer.line(&format!("{host}: {error}"), Color::Error);
                code = MISMATCH;
            }
            (true, None, None) => {
                printer.line(&format!("{host}: it presents no key of a supported type"), Color::Error);
                code = MISMATCH;
            }
        }
    }
    code
}

fn pin(scanned: &[Scanned], printer: &Printer, yes: bool, into: Option<&PathBuf>) -> Result<u8> {
    let mut code = 0;
    let mut fresh: BTreeMap<usize, Vec<&HostKey>> = BTreeMap::new();
    for (index, Scanned { host, keys, judgement, .. }) in scanned.iter().enumerate() {
        let Some(keys) = answered(host, keys, &mut code, printer) else { continue };
        let mismatches: Vec<String> = keys.iter().filter_map(mismatch).collect();
        let refused = match judgement {
            Some(Err(error)) if !matches!(error, SshError::HostKeyUnknown(_)) => Some(error.to_string()),
            _ => None,
        };
        if mismatches.is_empty() && refused.is_none() {
            let unknown: Vec<&HostKey> = keys.iter().filter(|key| key.verdict == Verdict::Unknown).collect();
            if !unknown.is_empty() {
                fresh.insert(index, unknown);
            }
            continue;
        }
        for text in mismatches.into_iter().chain(refused) {
            printer.line(&format!("{host}: {text}; none of its keys is pinned"), Color::Error);
        }
        code = MISMATCH;
    }
    let keys = || fresh.values().flatten();
    for (index, keys) in &fresh {
        let host = scanned.get(*index).map_or("", |scanned| &scanned.host);
        keys.iter().for_each(|key| announce(host, key, printer));
    }
    if keys().next().is_none() {
        printer.line("No host has a new key.", Color::Plain);
        return Ok(code);
    }
    if !yes && !confirmed(&format!("Add these {} keys?", keys().count()), printer)? {
        return Ok(code.max(1));
    }
    for key in keys() {
        let file = into.unwrap_or(&key.file);
        key.pin(file).map_err(|error| Error::new(format!("{} cannot be written: {error}", file.display())))?;
    }
    printer.line(&format!("{} keys were added.", keys().count()), Color::Changed);
    Ok(code)
}

fn replace(scanned: &[Scanned], printer: &Printer, yes: bool) -> Result<u8> {
    let mut code = 0;
    let mut changed = Vec::new();
    for Scanned { host, keys, judgement, .. } in scanned {
        let Some(keys) = answered(host, keys, &mut code, printer) else { continue };
        let has = |wanted: fn(&Verdict) -> bool| keys.iter().any(|key| wanted(&key.verdict));
        // The known key may be of an algorithm that the host has no longer.
        let other_kind = match judgement {
            Some(Err(error @ SshError::HostKeyChanged { .. })) => Some(error.to_string()),
            _ => None,
        };
        let is_revoked = has(|verdict| matches!(verdict, Verdict::Revoked { .. }));
        let is_changed = has(|verdict| matches!(verdict, Verdict::Changed { .. })) || other_kind.is_some();
        if !is_revoked && !is_changed {
            let is_known = keys.iter().any(HostKey::is_known) || matches!(judgement, Some(Ok(())));
            let state = if is_known { "its known keys have not changed" } else { "it has no known keys" };
            printer.line(&format!("{host}: {state}"), Color::Plain);
            continue;
        }
        for text in keys.iter().filter_map(mismatch).chain(other_kind) {
            printer.line(&format!("{host}: {text}"), Color::Error);
        }
        if is_revoked {
            code = MISMATCH;
        } else if let Err(error) = HostKey::check_replaceable(keys) {
            printer.line(&format!("{host}: its known keys cannot be replaced: {error}"), Color::Error);
            code = MISMATCH;
        } else {
            changed.push((host, keys));
        }
    }
    if changed.is_empty() {
        return Ok(code);
    }
    // Each algorithm is a handshake of its own, and somebody in between may answer only some of them.
    let mut new = 0;
    for (host, keys) in &changed {
        for key in keys.iter().filter(|key| !key.is_known()) {
            announce(host, key, printer);
            new += 1;
        }
    }
    let (hosts, keys) = (counted(changed.len(), "host"), counted(new, "new key"));
    let question = format!("Replace the known keys of {hosts} ({keys})?");
    if !yes && !confirmed(&question, printer)? {
        return Ok(code.max(1));
    }
    let presented: Vec<&[HostKey]> = changed.iter().map(|(_, keys)| *keys).collect();
    let files = HostKey::replace_known(&presented)
        .map_err(|error| Error::new(format!("the known keys cannot be replaced: {error}")))?;
    for (host, _) in &changed {
        printer.line(&format!("{host}: its known keys were replaced"), Color::Changed);
    }
    let files: Vec<String> = files.iter().map(|file| format!("{}.old", file.display())).collect();
    if !files.is_empty() {
        printer.line(&format!("Former lines: {}", files.join(", ")), Color::Plain);
    }
    Ok(code)
}

/// Prints a key before it is written to known_hosts.
fn announce(host: &str, key: &HostKey, printer: &Printer) {
    printer.line(&format!("{host}: {} {} {}", key.name, key.algorithm, key.fingerprint), Color::Plain);
}

/// A warning for each group of hosts at different places that present the same key. Not part of a run: a machine with
/// several addresses, and containers of one image, would cause it each time.
async fn shared_keys(connector: &Arc<Connector>, scanned: &[Scanned]) -> Vec<String> {
    let mut presenting: BTreeMap<&str, (&HostKey, Vec<&Scanned>)> = BTreeMap::new();
    for host in scanned {
        for key in host.keys.iter().flatten() {
            presenting.entry(&key.fingerprint).or_insert_with(|| (key, Vec::new())).1.push(host);
        }
    }
    presenting.retain(|_, (_, hosts)| hosts.len() > 1);
    // Only hosts that share a key need a look-up of their names.
    let mut running = JoinSet::new();
    let hosts = presenting.values().flat_map(|(_, hosts)| hosts);
    let asked: BTreeMap<&str, &Scanned> = hosts.map(|host| (&*host.host, *host)).collect();
    for host in asked.into_values() {
        let (connector, name) = (Arc::clone(connector), Arc::clone(&host.host));
        let (destination, settings) = ssh_destination(&host.target);
        running.spawn(async move {
            let place = connector.place(&destination, &settings).await;
            (Arc::clone(&name), place.unwrap_or_else(|_| name.to_string()))
        });
    }
    let places: BTreeMap<Arc<str>, String> = running.join_all().await.into_iter().collect();
    let mut groups: BTreeMap<Vec<&str>, &HostKey> = BTreeMap::new();
    for (key, hosts) in presenting.into_values() {
        let different: BTreeSet<_> = hosts.iter().filter_map(|host| places.get(&host.host)).collect();
        if different.len() > 1 {
            groups.entry(hosts.iter().map(|host| &*host.host).collect()).or_insert(key);
        }
    }
    let warning = |(hosts, key): (Vec<&str>, &HostKey)| {
        let more = hosts.len().saturating_sub(LISTED);
        let listed = hosts.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "{listed}{more} have the same host key, {} {}, at different addresses. Either these names lead to one machine, or machines were \
             cloned with their keys, and each can pass for the others. Give a clone keys of its own: remove /etc/ssh/ssh_host_*, run \
             `ssh-keygen -A`, restart its sshd, and then run `windlass hostkeys replace` for it",
            key.algorithm, key.fingerprint
        )
    };
    groups.into_iter().map(warning).collect()
}

/// Asks at the terminal.
fn confirmed(question: &str, printer: &Printer) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::new("there is no terminal to ask whether these keys are right")
            .hint("compare the fingerprints, then run the same with --yes"));
    }
    let question = format!("Compare the fingerprints with the hosts' own. {question} yes/no");
    let is_confirmed = is_confirmed(&question, printer)?;
    if !is_confirmed {
        printer.line("Nothing was written.", Color::Plain);
    }
    Ok(is_confirmed)
}

/// Describes how a key differs from known_hosts; `None` if it matches.
fn mismatch(key: &HostKey) -> Option<String> {
    let presented = format!("{} {}", key.algorithm, key.fingerprint);
    match &key.verdict {
        Verdict::Changed { file, line, expected } => {
            Some(format!("it presents {presented}, but {}:{line} expects {expected}", file.display()))
        }
        Verdict::Revoked { file, line } => {
            Some(format!("it presents {presented}, which {}:{line} revokes", file.display()))
        }
        Verdict::Known { .. } | Verdict::Unknown => None,
    }
}

fn line(key: &HostKey) -> Result<String> {
    key.line().map_err(|error| Error::new(format!("the key of {} cannot be written: {error}", key.name)))
}

/// The keys of a host; reports the error if it did not answer.
fn answered<'k>(
    host: &str,
    keys: &'k Result<Vec<HostKey>, SshError>,
    code: &mut u8,
    printer: &Printer,
) -> Option<&'k [HostKey]> {
    match keys {
        Ok(keys) => Some(keys),
        Err(error) => {
            *code = (*code).max(unreachable(host, error, printer));
            None
        }
    }
}

/// Reports an error of a host and returns the exit code.
fn unreachable(host: &str, error: &SshError, printer: &Printer) -> u8 {
    printer.error_line(&format!("{host}: {error}"), Color::Error);
    if error.is_host_key() { MISMATCH } else { UNREACHABLE }
}
